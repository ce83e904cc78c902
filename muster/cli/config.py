"""Connection settings of the command: a file, and the environment, which takes precedence."""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import typer

from muster.cli.asking import Servers
from muster.net.security import VARIABLES, of_environment, securities, variable

_HINT = "--config, or MUSTER_... in the environment"
_KNOWN: Final = ("MUSTER_BOOTSTRAP", "MUSTER_CONFIG", *VARIABLES)
_OF_THE_DAEMON: Final = ("MUSTER_TLS_", "MUSTER_UPSTREAM_", "MUSTER_SASL_OAUTHBEARER_JWKS_")
"""Prefixes of musterd's variables, which look like the command's."""
_NEAR: Final = 0.85


def read_servers(bootstrap: str, config: str | None) -> Servers:
    """Read the settings. Raises typer.BadParameter for invalid ones."""
    try:
        _refuse_mistyped(os.environ)
        said = {**_of_file(config), **of_environment(os.environ)}
        _refuse_halves(said)
        return Servers(bootstrap, *securities(said))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint=_HINT) from None


def _refuse_mistyped(environment: Iterable[str]) -> None:
    """Refuse unknown security settings, since a mistyped one would leave a connection less secure than expected."""
    for name in sorted(environment):
        if not name.startswith("MUSTER_") or name in _KNOWN or name.startswith(_OF_THE_DAEMON):
            continue
        if near := get_close_matches(name, _KNOWN, n=1, cutoff=_NEAR):
            raise ValueError(f"{name} in the environment is no variable of muster: did you mean {near[0]}?")


def _refuse_halves(said: Mapping[str, str]) -> None:
    """Refuse an incomplete login."""
    for prefix in ("", "broker."):
        username, password = f"{prefix}sasl.username", f"{prefix}sasl.password"
        for there, missing in ((username, password), (password, username)):
            if there in said and missing not in said:
                raise ValueError(f"{there} is given, and {missing} ({variable(missing)}) is missing")


def _of_file(path: str | None) -> dict[str, str]:
    """Read Java properties, as far as settings need them: one on each line, which a backslash at the end continues;
    comments begin with #."""
    if path is None:
        return {}
    found: dict[str, str] = {}
    begun = ""
    for number, line in enumerate((*Path(path).read_text().splitlines(), ""), 1):
        text = begun + line.strip()
        if (len(text) - len(text.rstrip("\\"))) % 2 and not text.startswith("#"):
            begun = text[:-1]
            continue
        begun = ""
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{path}, line {number}: NAME=VALUE is wanted")
        found[name.strip()] = value.strip()
    for prefix in ("", "broker."):
        _read_jaas(found, prefix)
    return found


def _read_jaas(found: dict[str, str], prefix: str) -> None:
    """Replace the login of Java's clients, `sasl.jaas.config`, by name and password; the mechanism is a setting of its
    own."""
    text = found.pop(f"{prefix}sasl.jaas.config", None)
    if text is None:
        return
    for name in ("username", "password"):
        match = re.search(rf'\s{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', text)
        if match is None:
            raise ValueError(f'{prefix}sasl.jaas.config has no {name}="..."')
        quoted, plain = match.groups()
        found.setdefault(f"{prefix}sasl.{name}", plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))

"""How the command reaches servers: a file of settings, and the environment, which wins."""

import os
from pathlib import Path

import typer

from muster.cli.asking import Servers
from muster.security import of_environment, securities

_HINT = "--config, or MUSTER_... in the environment"


def read_servers(bootstrap: str, config: str | None) -> Servers:
    """Raises typer.BadParameter for settings that cannot be."""
    try:
        said = {**_of_file(config), **of_environment(os.environ)}
        return Servers(bootstrap, *securities(said))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint=_HINT) from None


def _of_file(path: str | None) -> dict[str, str]:
    """Java's properties, as far as settings need them: one a line, comments begin with #."""
    if path is None:
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{path}, line {number}: NAME=VALUE is wanted")
        found[name.strip()] = value.strip()
    return found

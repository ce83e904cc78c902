"""The configuration in words: `musterd --help`, and the sample file (`make config` writes deploy/musterd.toml)."""

import json
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import Final, Literal

from coordinator.config.accounts import AuthorizerClass
from coordinator.config.config import KEYS, Key
from coordinator.config.keys import Addresses, Secret, SecurityProtocol, UnguardedKinds

USAGE: Final = """\
usage: musterd [--data-dir DIR] [--native HOST:PORT|off] [--kafka HOST:PORT|off] [--http HOST:PORT|off]
               [--advertised KIND=HOST:PORT]... [--open-to-network] [--upstream HOST:PORT[,HOST:PORT]...]
               [--config FILE] [--set KEY=VALUE]... [--check] [--help] [--version]
       musterd log verify|dump DATA_FOLDER ...     reads a data folder, changes nothing (--help says more)
       musterd log move cluster|local [--execute] ...  moves groups to a cluster's own log, or back (--help says more)
       musterd backup DATA_FOLDER TARGET           copies a data folder, in use or not, and verifies the copy

Coordinates groups of stream readers: membership, partition ownership, durable offsets.

Precedence: flags, --set, the environment (MUSTER_DATA_DIR for data.dir), the file (TOML), the default.
--check validates the configuration and exits.

Once it serves, its first line on standard output is
  ready native=HOST:PORT kafka=HOST:PORT http=HOST:PORT
without listeners that are off, and with tls=KIND[,KIND...] for listeners with TLS; logs go to standard error. SIGTERM
stops it cleanly.
"""

CHECK: Final = "--check"
PREFACE: Final = """\
# musterd --config musterd.toml
#
# Every key, with its default. Flags, --set and the environment (MUSTER_ and the key in upper case, _ for .) win over
# this file. Nested tables are the same as dots. A key below one called `native` is quoted, because TOML lets a name be
# a value or a table and not both.
"""


def asked(arguments: Sequence[str]) -> Literal["help", "version"] | None:
    """Return the request for information among the arguments, if there is one."""
    for argument in arguments:
        if argument in ("--help", "-h"):
            return "help"
        if argument == "--version":
            return "version"
    return None


def help_text() -> str:
    """Return the text of `--help`: usage, then every key with its default and range."""
    lines = [USAGE]
    for key in KEYS.values():
        if key.section is not None:
            lines.append(f"{key.section}:")
        lines.append(f"  {key.name} = {key.show(key.default)}")
        lines += (f"      {line}" for line in wrap(f"{key.about} Allowed: {key.allowed}.", 96))
    return "\n".join(lines) + "\n"


def sample_config() -> str:
    """Return a TOML file with the defaults and a sentence on each key; keys without a default are commented out."""
    lines = [PREFACE]
    for key in KEYS.values():
        if key.section is not None:
            lines.append(f"# {'-' * 10} {key.section}\n")
        lines += (f"# {line}" for line in wrap(f"{key.about} Allowed: {key.allowed}.", 110))
        lines.append(f"{_setting(key)}\n")
    return "\n".join(lines)


def _setting(key: Key) -> str:
    parent, _, child = key.name.partition(".")
    name = json.dumps(key.name) if child and parent in KEYS else key.name
    if isinstance(key.default, (int, float)):
        return f"{name} = {key.show(key.default)}"
    shown = key.show(key.default)
    return f"# {name} = {_example(key)}" if shown == "(not set)" else f"{name} = {json.dumps(shown)}"


def _example(key: Key) -> str:
    if key.type is int:
        return str(key.highest)
    if key.type is Secret:
        return '"NAME:a secret"' if key.name == "initial.admin" else '"a secret"'
    if key.type is AuthorizerClass:
        return json.dumps(AuthorizerClass.STANDARD)
    if key.type is SecurityProtocol:
        return f'"{SecurityProtocol.SASL_SSL}"'
    if key.type is str:
        return _example_text(key.name)
    if key.type is Addresses:
        return '"broker-1.example.net:9092,broker-2.example.net:9092"'
    if key.type is UnguardedKinds:
        return '"http"'
    port = KEYS[key.name.removeprefix("advertised.")].default.port  # the port of its listener
    return f'"muster.example.net:{port}"'


def _example_text(name: str) -> str:
    if name.endswith((".url", ".issuer")):
        path = "/.well-known/jwks.json" if name.endswith(".url") else ""
        return f'"https://idp.example.net{path}"'
    if name.startswith("audit."):
        return '"/var/log/muster/audit.log"'
    return '"muster"' if "location" not in name else f'"/etc/muster/{name.split(".")[-2]}.pem"'


if __name__ == "__main__":
    sys.stdout.write(sample_config())

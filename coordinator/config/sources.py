"""Sources of values: flags, `--set`, the environment, a TOML file. Each is a `Given`, checked in `resolve`."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from msgspec import Struct

from coordinator.config.keys import HIDDEN, LISTENERS, ConfigError, Key, Secret
from coordinator.config.unsupported import why_not_honoured, why_refused

PREFIX: Final = "MUSTER_"
_OF_CLIENTS: Final = (
    "MUSTER_BOOTSTRAP",
    "MUSTER_BROKER_",
    "MUSTER_CONFIG",
    "MUSTER_HTTPS_CA_LOCATION",
    "MUSTER_SASL_MECHANISM",
    "MUSTER_SASL_OAUTHBEARER_CLIENT_ID",
    "MUSTER_SASL_OAUTHBEARER_CLIENT_SECRET",
    "MUSTER_SASL_OAUTHBEARER_SCOPE",
    "MUSTER_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL",
    "MUSTER_SASL_PASSWORD",
    "MUSTER_SASL_USERNAME",
    "MUSTER_SECURITY_PROTOCOL",
    "MUSTER_SSL_CA_LOCATION",
    "MUSTER_SSL_CERTIFICATE_LOCATION",
    "MUSTER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM",
    "MUSTER_SSL_KEY_LOCATION",
    "MUSTER_SSL_KEY_PASSWORD",
)
NOT_OURS: Final = ("MUSTER_PORT", "MUSTER_SERVICE_", *_OF_CLIENTS)
"""Variables that are not for the daemon: Kubernetes sets some in every pod beside a service called `muster`, and the
command reads others."""


class Given(Struct, frozen=True):
    """A value given for a key, not yet checked."""

    key: str
    raw: object
    origin: str


_OTHER_FLAGS: Final = ("--config", "--set", "--check", "--help", "--version")
"""Flags that stand for no key. `musterd` itself takes the last three away before the rest is read."""


def from_arguments(arguments: Sequence[str], flags: Mapping[str, str]) -> tuple[str | None, list[Given]]:
    """Return the file named by `--config`, and the values of `--set` and the flags: `--set` first, because
    flags win."""
    path: str | None = None
    sets: list[Given] = []
    direct: list[Given] = []
    rest = iter(arguments)
    for argument in rest:
        flag, equals, attached = argument.partition("=")
        if flag == "--open-to-network":
            direct.append(Given(flags[flag], attached if equals else "true", flag))
            continue
        if flag not in flags and flag not in ("--config", "--set"):
            raise ConfigError(f"{argument} is no flag of musterd{_nearest(flag, [*flags, *_OTHER_FLAGS])}")
        value = attached if equals else next(rest, None)
        if value is None:
            raise ConfigError(f"{flag} needs a value")
        if flag == "--config":
            path = value
        elif flag == "--set":
            key, raw = _pair(flag, value, "KEY=VALUE")
            sets.append(Given(key, raw, flag))
        elif flag == "--advertised":
            direct.append(_advertised(flag, value))
        else:
            direct.append(Given(flags[flag], value, flag))
    return path, sets + direct


def _advertised(flag: str, text: str) -> Given:
    kind, raw = _pair(flag, text, "KIND=HOST:PORT")
    if kind not in LISTENERS:
        raise ConfigError(f"{flag} {text}: {kind!r} is no kind of listener; native, kafka and http are allowed")
    return Given(f"advertised.{kind}", raw, flag)


def _pair(flag: str, text: str, form: str) -> tuple[str, str]:
    name, equals, raw = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{flag} {text}: {form} is allowed")
    return name.strip(), raw


def from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    """Turn every variable that starts with `MUSTER_` back into a key, so that an unknown one is refused."""
    for name in sorted(environment):
        if name.startswith(PREFIX) and not name.startswith(NOT_OURS):
            key = name.removeprefix(PREFIX).lower().replace("_", ".")
            yield Given(key, environment[name], f"{name} in the environment")


def from_file(path: str, read_file: Callable[[str], bytes]) -> Iterator[Given]:
    """Read the keys of a TOML file, nested tables flattened with dots."""
    try:
        tables = tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise ConfigError(f"--config {path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"--config {path}: is not a TOML file: {error}") from error
    yield from _flattened(tables, "", path)


def _flattened(table: Mapping[str, Any], prefix: str, path: str) -> Iterator[Given]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.", path)
        else:
            yield Given(prefix + name, value, f"in {path}")


def resolve(given: Iterable[Given], keys: Mapping[str, Key]) -> dict[str, tuple[Any, Given]]:
    """Return the checked value of each key given; the last one wins. All are checked, also those that lose."""
    chosen: dict[str, tuple[Any, Given]] = {}
    for one in given:
        key = keys.get(one.key)
        if key is None:
            _check_foreign(one, keys)
            continue
        try:
            chosen[one.key] = key.parse(one.raw), one
        except ValueError:
            shown = HIDDEN if key.type is Secret else str(one.raw).lower() if isinstance(one.raw, bool) else one.raw
            raise ConfigError(f"{one.key} = {shown} ({one.origin}): {key.allowed} is allowed") from None
    return chosen


def _check_foreign(one: Given, keys: Mapping[str, Key]) -> None:
    """Raise ConfigError unless the key is one of Kafka's that may be given without effect."""
    if (reason := why_refused(one.key, one.raw)) is not None:
        raise ConfigError(
            f"{one.key} ({one.origin}) would protect a Kafka broker and is not honoured here: {reason}; take it out"
        )
    if why_not_honoured(one.key) is None:
        raise ConfigError(f"{one.key} ({one.origin}) is no key of musterd{_nearest(one.key, list(keys))}")


def warnings_for(given: Iterable[Given], keys: Mapping[str, Key]) -> tuple[str, ...]:
    """Return one sentence for each key of Kafka's that was given and is not honoured, however often it was given."""
    once: dict[str, str] = {}
    for one in given:
        reason = None if one.key in keys else why_not_honoured(one.key)
        if reason is not None:
            once.setdefault(
                one.key, f"{one.key} ({one.origin}) is a key of Kafka's that is not honoured here: {reason}"
            )
    return tuple(once.values())


def _nearest(name: str, known: Sequence[str]) -> str:
    found = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else "; musterd --help lists them"

"""The options of `format("muster")`, checked before anything connects."""

import difflib
from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from muster.net.bootstrap import parse_bootstrap
from muster.net.security import NAMES, Security, of_environment, securities
from pyspark_muster.plan import Start


class OptionError(ValueError):
    """Raised for an invalid option; the sentence names the option, its value and the values allowed."""


class Options(Struct, frozen=True, kw_only=True):
    """Options of a query. Times are milliseconds.

    `max_records_per_batch` keeps a batch short, because in a rebalance the group waits until a member's batch is done.
    If a batch takes longer than `max_poll_interval_ms` the member is removed, and others read its records again.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...]
    starting_offsets: Start = "earliest"
    fail_on_data_loss: bool = True
    max_records_per_batch: int = 1_000_000
    max_records_per_task: int | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignment_timeout_ms: int = 60_000
    client_id: str = "spark"
    group_instance_id: str | None = None
    drain_file: str | None = None
    security: Security | None = None
    broker_security: Security | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> "Options":
        """Parse Spark's options, names in any case. The security settings of `environment` are the defaults. Raises
        `OptionError`.
        """
        values: dict[str, Any] = _securities(given, environment or {})
        for name, text in given.items():
            if name.lower().startswith(_SECURITY_PREFIX):
                continue
            field = _FIELDS.get(name.lower())
            if field is None:
                raise OptionError(_unknown(name))
            values[field] = _READ[field](_NAMES[field], text.strip())
        for field in ("bootstrap", "group", "topics"):
            if not values.get(field):
                raise OptionError(f"the option {_NAMES[field]!r} is needed: {_NEEDED[field]}")
        options = cls(**values)
        _check_security(options)
        if options.heartbeat_interval_ms >= options.session_timeout_ms:
            raise OptionError(
                f"the option 'heartbeatIntervalMs' is {options.heartbeat_interval_ms}: it must be less than "
                f"'sessionTimeoutMs', which is {options.session_timeout_ms}"
            )
        return options


_SECURITY_PREFIX = "muster."
"""Prefix of security options; the rest of their names are librdkafka's settings."""


def _securities(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Parse the security options. Errors never show values: one may be a password."""
    own = {
        name.lower().removeprefix(_SECURITY_PREFIX): text.strip()
        for name, text in given.items()
        if name.lower().startswith(_SECURITY_PREFIX)
    }
    for name in own:
        if name.removeprefix("broker.") not in NAMES:
            near = difflib.get_close_matches(name, [*NAMES, *(f"broker.{one}" for one in NAMES)], n=1)
            hint = f"; did you mean {_SECURITY_PREFIX + near[0]!r}?" if near else ""
            raise OptionError(f"the option {_SECURITY_PREFIX + name!r} is unknown{hint}")
    try:
        security, broker_security = securities({**of_environment(environment), **own})
    except ValueError as error:
        raise OptionError(f"the options that begin with {_SECURITY_PREFIX!r}: {error}") from None
    return {"security": security, "broker_security": broker_security}


def _check_security(options: Options) -> None:
    if options.security is None and options.broker_security is None:
        return  # a bootstrap that is none is own by the member
    try:
        parse_bootstrap(options.bootstrap, None, options.security, options.broker_security)
    except ValueError as error:
        raise OptionError(f"the options that begin with {_SECURITY_PREFIX!r}: {error}") from None


_NEEDED = {
    "bootstrap": "host:port of a muster daemon",
    "group": "the group whose partitions the query shares",
    "topics": "topic names, separated by commas",
}


def _text(_name: str, text: str) -> str:
    return text


def _topics(_name: str, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topic for topic in (part.strip() for part in text.split(",")) if topic))


def _start(name: str, text: str) -> Start:
    if text.lower() not in ("earliest", "latest"):
        raise OptionError(f"the option {name!r} is {text!r}: it must be 'earliest' or 'latest'")
    return cast(Literal["earliest", "latest"], text.lower())


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise OptionError(f"the option {name!r} is {text!r}: it must be a whole number, 1 or more")
    return int(text)


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"the option {name!r} is {text!r}: it must be 'true' or 'false'")
    return text.lower() == "true"


_READERS = {int: _whole, bool: _yes_or_no, str: _text}
_NAMES = {
    field: "".join([first, *(word.title() for word in rest)])
    for field, (first, *rest) in ((field, field.split("_")) for field in Options.__struct_fields__)
    if field not in ("security", "broker_security")
}
_FIELDS = {name.lower(): field for field, name in _NAMES.items()}
_READ = {
    field: _READERS[int if kind in (int, int | None) else bool if kind is bool else str]
    for field, kind in Options.__annotations__.items()
    if field in _NAMES
} | {"topics": _topics, "starting_offsets": _start}


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _FIELDS, n=1)
    hint = f"; did you mean {_NAMES[_FIELDS[near[0]]]!r}?" if near else f"; there are {', '.join(_NAMES.values())}"
    return f"the option {name!r} is unknown{hint}"

"""The options of `format("muster")`, checked before anything connects."""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from muster.blocking.cluster import ClusterClient
from muster.net.bootstrap import parse_bootstrap
from muster.net.security import NAMES, Security, of_environment, securities
from pyspark_muster.bounds import EARLIEST, parse_offsets
from pyspark_muster.errors import OptionError
from pyspark_muster.plan import Start

NewCheckpoint = Literal["group", "startingOffsets"]
GroupProtocol = Literal["classic", "consumer", "auto"]
Isolation = Literal["read_committed", "read_uncommitted"]
DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
"""The client's own default."""
OFFSETS_TOPIC = "__consumer_offsets"


class Options(Struct, frozen=True, kw_only=True):
    """Options of a query. Times are milliseconds.

    `max_records_per_batch` keeps batches short, since a rebalance of the group waits until a member's batch is
    finished. If a batch takes longer than `max_poll_interval_ms`, the member is removed, and others read its records
    again. `new_checkpoint` "startingOffsets": a query with a new checkpoint begins there, whatever the group has
    committed.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    topics_pattern: str | None = None
    starting_offsets: Start = "earliest"
    new_checkpoint: NewCheckpoint = "group"
    isolation_level: Isolation = "read_committed"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    max_records_per_batch: int = 1_000_000
    max_bytes_per_batch: int | None = None
    min_records_per_batch: int | None = None
    max_trigger_delay_ms: int = 900_000
    max_records_per_task: int | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignment_timeout_ms: int = 60_000
    outage_timeout_ms: int = 600_000
    group_protocol: GroupProtocol = "classic"
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    sole_member: bool = False
    client_id: str = "spark"
    group_instance_id: str | None = None
    drain_file: str | None = None
    security: Security | None = None
    broker_security: Security | None = None

    @classmethod
    def parse(
        cls, given: Mapping[str, str], environment: Mapping[str, str] | None = None, *, has_group: bool = True
    ) -> "Options":
        """Parse Spark's options, names in any case. The security settings of `environment` are the defaults. Without
        `has_group` no group may be named. Raises `OptionError`.
        """
        values: dict[str, Any] = parse_securities(given, environment or {})
        for name, text in given.items():
            if name.lower().startswith(_SECURITY_PREFIX):
                continue
            field = _FIELDS.get(name.lower())
            if field is None:
                raise OptionError(_unknown(name))
            if not has_group and field in _OF_MEMBERS:
                raise OptionError(f"the option {_NAMES[field]!r} is for members of groups: name a 'group', or omit it")
            values[field] = _READ[field](_NAMES[field], text.strip())
        if not has_group and values.setdefault("group", ""):
            raise OptionError(f"the option 'group' is {values['group']!r}: a batch joins no group, leave it out")
        for field in ("bootstrap", "group", "topics"):
            is_there = values.get(field) or (field == "topics" and values.get("topics_pattern"))
            if not is_there and (has_group or field != "group"):
                raise OptionError(f"the option {_NAMES[field]!r} is needed: {_NEEDED[field]}")
        options = cls(**values)
        _check_security(options)
        _check_together(options)
        if options.heartbeat_interval_ms >= options.session_timeout_ms:
            raise OptionError(
                f"the option 'heartbeatIntervalMs' is {options.heartbeat_interval_ms}: it must be less than "
                f"'sessionTimeoutMs', which is {options.session_timeout_ms}"
            )
        return options

    def connect(self) -> ClusterClient:
        """Return a new client without a group, which the caller must close."""
        return ClusterClient(
            self.bootstrap,
            client_id=self.client_id,
            isolation_level=self.isolation_level,
            security=self.security,
            broker_security=self.broker_security,
        )

    def fewest(self, since_s: float, *, is_last: bool) -> int:
        """Return the number of unread records needed for a batch: `min_records_per_batch`, unless the last batch is
        `since_s` ago and that is long enough, or the run is ending.
        """
        is_late = since_s * 1000 >= self.max_trigger_delay_ms
        return 1 if is_last or is_late else self.min_records_per_batch or 1


_OF_MEMBERS = frozenset(
    {
        "new_checkpoint",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "group_protocol",
        "assignors",
        "sole_member",
        "group_instance_id",
    }
)
"""Options without a meaning where no group is joined."""
_SECURITY_PREFIX = "muster."
"""Prefix of security options; the rest of their names are librdkafka's settings."""


def parse_securities(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Parse the security options. Errors never show values, since one may be a password. Raises `OptionError`."""
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


def _check_together(options: Options) -> None:
    if (options.min_records_per_batch or 0) > options.max_records_per_batch:
        raise OptionError(
            f"the option 'minRecordsPerBatch' is {options.min_records_per_batch}: it must not be more than "
            f"'maxRecordsPerBatch', which is {options.max_records_per_batch}"
        )
    if options.topics and options.topics_pattern is not None:
        raise OptionError("the options 'topics' and 'topicsPattern' exclude each other: give one of them")
    if not isinstance(options.starting_offsets, str) and options.topics_pattern is None:
        strangers = sorted({one.topic for one in options.starting_offsets} - set(options.topics))
        if strangers:
            raise OptionError(f"the option 'startingOffsets' names {', '.join(strangers)}: 'topics' does not")
    if options.sole_member and options.topics_pattern is not None:
        raise OptionError("the option 'soleMember' needs 'topics': whose partitions a pattern means changes with time")
    if options.group_protocol == "consumer" and options.assignors != DEFAULT_ASSIGNORS:
        raise OptionError(
            "the option 'assignors' is for groups whose members assign: omit it with groupProtocol 'consumer'"
        )
    if options.sole_member and options.group_protocol != "classic":
        raise OptionError(
            f"the option 'groupProtocol' is {options.group_protocol!r}: 'soleMember' needs 'classic', since partitions "
            "may come one after the other where the coordinator assigns, to a sole member too"
        )
    if options.group and OFFSETS_TOPIC in options.topics:
        raise OptionError(
            f"the option 'topics' names {OFFSETS_TOPIC!r}: each commit of the query would write a record there, which "
            "the query would read and commit, without end"
        )


def _check_security(options: Options) -> None:
    if options.security is None and options.broker_security is None:
        return  # the member reports an invalid bootstrap
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


def one_of(*choices: str) -> Callable[[str, str], str]:
    """Return a parser of an option with these values, in any case."""

    def choose(name: str, text: str) -> str:
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise OptionError(f"the option {name!r} is {text!r}: it must be {' or '.join(map(repr, choices))}")

    return choose


def _start(name: str, text: str) -> Start | str:
    return parse_offsets(name, text, least=EARLIEST) if text.startswith("{") else _either_end(name, text)


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"the option {name!r} is {text!r}, which is no regular expression: {error}") from None
    return text


def _assignors(name: str, text: str) -> tuple[str, ...]:
    from membership.member import MemberSettings  # not by tasks, which have no member

    names = _topics(name, text)
    try:
        MemberSettings(group_id="checked", assignors=names)
    except ValueError as error:
        raise OptionError(f"the option {name!r} is {text!r}: {error}") from None
    return names


def whole(name: str, text: str) -> int:
    """Parse a whole number, 1 or more. Raises `OptionError`."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise OptionError(f"the option {name!r} is {text!r}: it must be a whole number, 1 or more")
    return int(text)


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"the option {name!r} is {text!r}: it must be 'true' or 'false'")
    return text.lower() == "true"


_either_end = one_of("earliest", "latest")
_READERS = {int: whole, bool: _yes_or_no, str: _text}
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
} | {
    "topics": _topics,
    "topics_pattern": _pattern,
    "starting_offsets": _start,
    "new_checkpoint": one_of("group", "startingOffsets"),
    "isolation_level": one_of("read_committed", "read_uncommitted"),
    "group_protocol": one_of(*get_args(GroupProtocol)),
    "assignors": _assignors,
}


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _FIELDS, n=1)
    hint = f"; did you mean {_NAMES[_FIELDS[near[0]]]!r}?" if near else f"; there are {', '.join(_NAMES.values())}"
    return f"the option {name!r} is unknown{hint}"

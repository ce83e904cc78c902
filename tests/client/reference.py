"""Reference of the client, from its signatures and docstrings, as the second half of docs/client.md.

python -m tests.client.reference        takes the page and gives it back, brought up to date between its marks
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import muster
import muster.aio
from membership.member import MemberOptions, MemberSettings

BEGIN, END = "<!-- printed by `make reference`: {} -->", "<!-- end -->"

BLOCKING: Final = ("Consumer", "Producer", "Sent", "GroupMember", "RangeReader")
AIO: Final = ("Consumer", "Producer", "Sent", "GroupMember")
HOOKS: Final = ("ConsumerInterceptor", "ProducerInterceptor")
VALUES: Final = (
    "ConsumerRecord",
    "ProducerRecord",
    "TopicPartition",
    "Written",
    "OffsetToCommit",
    "Security",
    "ErrorCode",
)

INTERNAL: Final = {
    "Consumer": {"driver"},
    "GroupMember": {"of"},
    "Sent": {"deliver", "fail", "is_told", "outcome"},
}  # fmt: skip
"""Names that only the client's own parts use."""

POSITIONAL: Final = {"self", "bootstrap", "group_id", "topics", "topic", "partition", "start", "end"}
LISTENERS: Final = {"on_assigned", "on_revoked", "on_lost"}

MEANINGS: Final = {
    "acks": '-1 or "all": acknowledged when on disk; 1: when appended; 0: not at all',
    "group_protocol": '"classic": a member assigns; "consumer": the coordinator assigns (KIP-848); "auto": the '
    "coordinator where it offers that and `assignors` are the default",
    "server_assignor": "where the coordinator assigns, the assignor that this member votes for: uniform, range; None: "
    "the coordinator's default",
    "assignors": "assignors that this member offers, the preferred first: range, roundrobin, sticky, "
    "cooperative-sticky; only the last one alone makes rebalances cooperative",
    "auto_commit_interval_ms": "pause between automatic commits",
    "auto_offset_reset": 'start position without a usable offset: "latest", "earliest", "none" (an error)',
    "batch_bytes": "a batch of one partition is sent at this size",
    "reads_ahead": "whether another thread fetches the next reply while one is processed",
    "record_bytes": "estimated size of a record, so that little is fetched beyond the end",
    "outage_timeout_s": "how long to wait for nodes that do not answer; None: `timeout_s`",
    "broker_security": "security of connections to Kafka's brokers beside musterd, if not `security`",
    "buffer_memory_bytes": "of records without an outcome yet; beyond it `send` waits for room",
    "client_id": "the name that servers show for this client",
    "cluster": "connections to share with other readers of the process",
    "compression": '"none", "gzip", "snappy", "lz4", "zstd"',
    "delivery_timeout_ms": "a record that is not acknowledged within this time after its batch was begun fails",
    "dialect": '"native" or "kafka"; None: by the bootstrap',
    "enable_auto_commit": "whether positions are committed automatically",
    "enable_idempotence": "whether each record is stored once, in order; None: with `acks=-1`",
    "fetch_bytes": "maximum of one fetch",
    "fetch_max_bytes": "maximum of one reply; a larger first batch is returned nevertheless",
    "fetch_max_wait_ms": "how long a node may wait for `fetch_min_bytes`",
    "fetch_min_bytes": "a node replies as soon as it has this amount",
    "group_instance_id": "the instance id of a static member, which keeps its partitions over a restart",
    "heartbeat_interval_ms": "between heartbeats; below `session_timeout_ms`",
    "interceptors": "`ConsumerInterceptor`s or `ProducerInterceptor`s, which see records and commits",
    "isolation_level": '"read_uncommitted", or "read_committed": no records of open or aborted transactions',
    "key_deserializer": "converts the bytes of a key for the application",
    "linger_ms": "how long a batch waits for more records",
    "max_block_ms": "how long `send` waits for a topic's metadata, and for room",
    "max_partition_fetch_bytes": "maximum of one partition in one reply; a larger first batch is returned nevertheless",
    "max_poll_interval_ms": "a member that does not poll for this time leaves the group; also its rebalance timeout",
    "max_poll_records": "maximum of records in one `poll`",
    "max_request_bytes": "maximum of one request, and of one record",
    "metadata_max_age_ms": "maximum age of topics' metadata",
    "rack_id": "records are read from a replica in this rack if there is one, and assignors may prefer it",
    "request_timeout_ms": "a connection without a reply for this time is closed",
    "retry_backoff_max_ms": "the longest pause",
    "retry_backoff_ms": "pause before a retry; doubles each time",
    "security": "security of connections to the bootstrap, and to servers of the same protocol: a `Security`, or a "
    "mapping of its usual names; None: no TLS and no login",
    "session_timeout_ms": "a member without a heartbeat for this time is removed",
    "timeout_s": "how long to wait for new records",
    "transaction_timeout_ms": "a transaction that takes longer is aborted; brokers allow 15 minutes by default",
    "transactional_id": "unique name of this producer: with it records are written in [transactions](#transactions)",
    "value_deserializer": "converts the bytes of a value for the application",
    "waits_for_disk": "whether KAFKA_STORAGE_ERROR is retried, or raised at once",
}

RAISED: Final = {
    "AuthenticationFailed": "`poll`, `commit`, `committed`, `partitions_for` and the like, `Producer.send`, `flush`, "
    "`RangeReader`: at once, and again about every second while the cause lasts",
    "BufferFull": "`Producer.send`",
    "CannotConnect": "`poll`, `commit`, `committed`, `partitions_for` and the like, `Producer.send`, `flush`, "
    "`Sent.result`",
    "CannotDeserialize": "`Consumer.poll` and iteration, each time, until a `seek` past the record",
    "ClientClosed": "any call after `close`; records given up in `Producer.close`",
    "ClientFailed": "the next call, and calls that wait",
    "CommitRefused": "`commit`; as the error of a `commit_async`",
    "ConcurrentUse": "any call while another thread (`muster.aio`: task) uses the client",
    "CorruptRecords": "`Consumer.poll` and iteration, each time, until a `seek`; `RangeReader`",
    "Fenced": "`poll` and `commit`, for good",
    "GroupRefused": "`poll`, once; the next one tries again",
    "LogTruncated": '`Consumer.poll`, with `auto_offset_reset="none"`; else reading continues where the logs differ',
    "MusterError": "errors without a class of their own: a client used before a subscription, across a fork, or in "
    "a second event loop",
    "NoOffset": '`Consumer.poll`, with `auto_offset_reset="none"`, until a `seek`',
    "OffsetOutOfRange": '`Consumer.poll`, with `auto_offset_reset="none"`, until a `seek`; `RangeReader`',
    "ProducerFenced": "`Producer.begin`, `send`, `send_offsets`, `commit`, `abort`, for good",
    "Refused": "`Consumer.poll`, `committed`, `partitions_for` and the like, `Producer.send`, `Sent.result`, `flush`",
    "RequestTimedOut": "any call with a `timeout_s` except `poll`; `Producer.send`; `Sent.result`, also without an "
    "acknowledgement within `delivery_timeout_ms`",
    "TransactionFailed": "`Producer.send`, `send_offsets`, `commit`, until `abort`; records given up in `abort`",
    "WokenUp": "`poll`, `commit`, `committed`, once for each `wakeup`",
    "WrongSubscription": "`subscribe`, `assign`",
}


class Member(NamedTuple):
    """A method or an attribute of a class that applications use."""

    name: str
    call: str
    said: str


def fill(page: str) -> str:
    """The page, with what stands between the marks printed anew. Raises ValueError for a page without the marks."""
    parts = {"classes": _classes(), "settings": _settings(), "values": _values(), "errors": _errors()}
    for name, lines in parts.items():
        before, begin, rest = page.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        if not end:
            raise ValueError(f"the page has no marks for the {name}")
        page = "\n".join((before + begin, "", *lines, "", end + after))
    return page


# -------------------------------------------------------------------------------------------------------------- classes


def _classes() -> Iterator[str]:
    for name in BLOCKING:
        yield from _class("muster", getattr(muster, name), None)
    for name in AIO:
        yield from _class("muster.aio", getattr(muster.aio, name), getattr(muster, name))
    for name in HOOKS:
        yield from _class("muster", getattr(muster, name), None)


def _class(module: str, kind: type, other: type | None) -> Iterator[str]:
    """Print a class; methods of the second edge that equal those of the first are left out."""
    known = {} if other is None else {one.name: one for one in members(other)}
    yield f"### `{module}.{kind.__name__}`"
    yield ""
    yield from _paragraphs(_doc(kind))
    yield ""
    if other is None and kind.__name__ not in {"Sent", *HOOKS}:  # which nobody makes
        yield f"`{_made(kind)}`"
        yield ""
        yield from _paragraphs(_doc(kind.__init__))  # type: ignore[misc]
        yield ""
    for one in members(kind):
        same = one.name in known and known[one.name].said == one.said
        yield f"* `{one.call}`" + ("" if same or not one.said else f": {one.said}")
    yield ""


def _made(kind: type) -> str:
    """Signature of the constructor: positional arguments, then settings."""
    arguments = _node(kind.__init__).args  # type: ignore[misc]
    shown = _positional(arguments)
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if arg.arg in LISTENERS:
            shown.append(_argument(arg, default))
    return f"{kind.__name__}({', '.join(shown[1:])}, ...settings)"


def members(kind: type) -> list[Member]:
    """In the order of the source, bases first."""
    internal = INTERNAL.get(kind.__name__, set())
    found: dict[str, Member] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith("muster"):
            continue
        for name, value in vars(base).items():
            if (name.startswith("_") and name not in {"__iter__", "__aiter__", "__await__"}) or name in internal:
                continue
            if isinstance(value, property):
                found[name] = Member(name, f"{name}: {_returned(value.fget)}", _one_line(_doc(value)))
            elif inspect.isfunction(value):
                found[name] = Member(name, _call(name, value), _one_line(_doc(value)))
    return list(found.values())


def _call(name: str, function: Any) -> str:
    node = _node(function)
    arguments = node.args
    shown = _positional(arguments)
    if arguments.vararg:
        shown.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [_argument(arg, default) for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    how = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    said = f"{how}{name}({', '.join(shown[1:])}){'' if returns == ' -> None' else returns}"
    return {
        "__iter__": "for record in consumer",
        "__aiter__": "async for record in consumer",
        "__await__": "await sent",
    }.get(name, said)


def _positional(arguments: ast.arguments) -> list[str]:
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    return [
        _argument(arg, default) for arg, default in zip(arguments.args, [*missing, *arguments.defaults], strict=True)
    ]


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    return f"{arg.arg}{kind}" + ("" if default is None else f" = {ast.unparse(default)}")


def _returned(function: Any) -> str:
    node = _node(function)
    assert node.returns is not None
    return ast.unparse(node.returns)


def _node(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


# ------------------------------------------------------------------------------------------------------------- settings


def settings(kind: type) -> dict[str, Any]:
    """Settings of its constructor with their defaults, those handed on to its membership included."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            defaults = {
                **_defaults(MemberSettings),
                "assignors": inspect.signature(muster.GroupMember).parameters["assignors"].default,
            }
            found.update((option, defaults[option]) for option in sorted(MemberOptions.__annotations__))
        elif name not in POSITIONAL | LISTENERS:
            found[name] = parameter.default
    return found


def _defaults(kind: Any) -> dict[str, Any]:
    names = kind.__struct_fields__
    return dict(zip(names[len(names) - len(kind.__struct_defaults__) :], kind.__struct_defaults__, strict=True))


def _settings() -> Iterator[str]:
    for name in ("Consumer", "GroupMember", "Producer", "RangeReader"):
        yield f"### Of `{name}`"
        yield ""
        yield from ("| setting | default | unit | what it is |", "|---|---|---|---|")
        for setting, default in settings(getattr(muster, name)).items():
            unit = next(
                (unit for end, unit in (("_ms", "ms"), ("_bytes", "bytes"), ("_s", "s")) if setting.endswith(end)), ""
            )
            yield f"| `{setting}` | {_default(default)} | {unit} | {MEANINGS[setting]} |"
        yield ""


def _default(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return f'"{value}"' if isinstance(value, str) else str(value)


# ---------------------------------------------------------------------------------------------------- values and errors


def _values() -> Iterator[str]:
    for name in VALUES:
        kind = getattr(muster, name)
        known = (getattr(kind, name, ()) for name in ("__struct_fields__", "_fields", "__dataclass_fields__"))
        fields = next(filter(None, known), ())
        yield (
            f"* `{name}({', '.join(fields)})`: {_one_line(_doc(kind))}"
            if fields
            else f"* `{name}`: {_one_line(_doc(kind))}"
        )


def errors() -> list[type[Exception]]:
    exported = (getattr(muster, name) for name in sorted(muster.__all__))
    return [one for one in exported if isinstance(one, type) and issubclass(one, Exception)]


def _errors() -> Iterator[str]:
    yield from ("| error | is a | what it says | raised by |", "|---|---|---|---|")
    for one in errors():
        base = one.__mro__[1].__name__
        yield f"| `{one.__name__}` | `{base}` | {_one_line(_doc(one))} | {RAISED[one.__name__]} |"


# ----------------------------------------------------------------------------------------------------------------- text


def _doc(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        yield _one_line(paragraph)


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(fill(sys.stdin.read()))

"""Interceptors: code of the application that sees records and commits, as in Kafka's clients."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from membership.events import CommitDone, OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.client.steps import CallApplication, Procedure
from muster.core.completions import Done
from muster.core.consumer_state import ConsumerState
from muster.core.fetching.records import ConsumerRecord
from muster.core.producing.handles import Headers, Written
from muster.net.driver import LOG

_FAILED: Final = "an interceptor failed, the client goes on as if it had not been there: %s"


class ProducerRecord(msgspec.Struct, frozen=True):
    """The arguments of a `send`, as interceptors see them. `partition` None: the key's, or the next in turn;
    `timestamp_ms` None: now.
    """

    topic: str
    value: bytes | str | None
    key: bytes | str | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class ConsumerInterceptor(Protocol):
    """Sees the records that a `Consumer` returns and the offsets that it has committed. Derive from this, override
    hooks, and pass instances as `interceptors=[...]`: they are called in that order, each with the result of the
    previous one. An exception is logged by the logger "muster", and the next interceptor gets the unchanged records.
    All run in the thread that polls, commits or closes, without a lock. In `muster.aio` they may be coroutine
    functions.
    """

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord] | Awaitable[list[ConsumerRecord]]:
        """Return the records for the application: these, fewer, or others. The position moves past all of these.
        Records that a loop did not take, because it was left early, are passed here again.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> object:
        """Called with offsets that were stored, by any commit, before the callback of that commit."""
        return None

    def close(self) -> object:
        """Called when the consumer was closed, as the last hook."""
        return None


class ProducerInterceptor(Protocol):
    """Sees the records that a `Producer` sends and their outcomes. Derive from this, override hooks, and pass instances
    as `interceptors=[...]`: they are called in that order. An exception is logged by the logger "muster", and the next
    interceptor gets the unchanged record.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | Awaitable[ProducerRecord]:
        """Return the record to send: `record` or another. Runs in the thread that sends, before a partition is chosen;
        in `muster.aio` it may be a coroutine function.
        """
        return record

    def on_acknowledgement(self, written: Written, error: Exception | None) -> object:
        """Called with a record's position, or its error: then the offset of `written` is -1, and its partition too if
        none was chosen. Runs before the callbacks of that record and in the same thread, or in the thread that sends if
        `send` itself fails. Not a coroutine function.
        """
        return None

    def close(self) -> object:
        """Called when the producer was closed, as the last hook."""
        return None


class Failed:
    """Result of an interceptor that raised."""


def run_interceptor(call: Callable[..., object], *arguments: object) -> Procedure[Any]:
    """Call an interceptor and return its result; log an exception and return `Failed`."""
    try:
        return (yield CallApplication(call, arguments))
    except Exception:  # noqa: BLE001  (the application's own code: records and commits go on all the same)
        LOG.exception(_FAILED, _name(call))
        return Failed


def _name(call: Callable[..., object]) -> str:
    return str(getattr(call, "__qualname__", call))


def _checked(interceptors: Sequence[Any], kind: type, hooks: tuple[str, ...]) -> tuple[Any, ...]:
    """Check the interceptors. Raises ValueError for one of another kind."""
    if isinstance(interceptors, str | bytes) or not isinstance(interceptors, Iterable):
        raise ValueError(f"interceptors is {interceptors!r}: a list of {kind.__name__}s is wanted")
    chain = tuple(interceptors)
    for one in chain:
        if isinstance(one, type):
            raise ValueError(f"interceptors has the class {one.__name__}: give an instance of it, {one.__name__}()")
        missing = [name for name in hooks if not callable(getattr(one, name, None))]
        if missing:
            raise ValueError(f"interceptors has {one!r} without {' and '.join(missing)}: derive from {kind.__name__}")
    return chain


class Interceptors:
    """The chain of a client's interceptors; true if there are any."""

    def __init__(self, interceptors: Sequence[Any], kind: type, hooks: tuple[str, ...]) -> None:
        self._chain = _checked(interceptors, kind, (*hooks, "close"))

    def __bool__(self) -> bool:
        return bool(self._chain)

    def close(self) -> Procedure[None]:
        for one in self._chain:
            yield from run_interceptor(one.close)


class ConsumerInterceptors(Interceptors):
    """The chain of a consumer."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        super().__init__(interceptors, ConsumerInterceptor, ("on_consume", "on_commit"))

    def on_consume(self, consuming: ConsumerState) -> Procedure[None]:
        """Pass the unread records through the chain. None is lost if this is interrupted."""
        records = list(consuming.unread)
        for one in self._chain:
            given = yield from run_interceptor(one.on_consume, list(records))
            if isinstance(given, list) and all(isinstance(record, ConsumerRecord) for record in given):
                records = given
            elif given is not Failed:
                LOG.error("%s returned %r: a list of ConsumerRecords is wanted", _name(one.on_consume), given)
        consuming.replace_unread(records)

    def on_commit(self, done: Done) -> Procedure[None]:
        assert isinstance(done, CommitDone)
        for one in self._chain:
            yield from run_interceptor(one.on_commit, dict(done.offsets))


class FinishedRecord(Protocol):
    """A finished record: the part of its future that interceptors need."""

    @property
    def outcome(self) -> tuple[Written, Exception | None]: ...


class ProducerInterceptors(Interceptors):
    """The chain of a producer."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        super().__init__(interceptors, ProducerInterceptor, ("on_send", "on_acknowledgement"))
        self.callbacks: tuple[Callable[[Any], None], ...] = (self._acknowledged,) if self._chain else ()
        """First callbacks of each record's future."""

    def on_send(self, record: ProducerRecord) -> Procedure[ProducerRecord]:
        for one in self._chain:
            given = yield from run_interceptor(one.on_send, record)
            if isinstance(given, ProducerRecord):
                record = given
            elif given is not Failed:
                LOG.error("%s returned %r: a ProducerRecord is wanted", _name(one.on_send), given)
        return record

    def on_send_error(self, record: ProducerRecord, error: Exception) -> Procedure[None]:
        """Report a failed `send`, which has taken no record."""
        partition = -1 if record.partition is None else record.partition
        written = Written(record.topic, partition, -1, -1 if record.timestamp_ms is None else record.timestamp_ms)
        for one in self._chain:
            yield from run_interceptor(one.on_acknowledgement, written, error)

    def _acknowledged(self, sent: FinishedRecord) -> None:
        written, error = sent.outcome
        for one in self._chain:
            try:
                one.on_acknowledgement(written, error)
            except Exception:  # noqa: BLE001  (as in `run_interceptor`)
                LOG.exception(_FAILED, _name(one.on_acknowledgement))

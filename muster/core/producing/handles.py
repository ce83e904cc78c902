"""Code around the producer's core that both edges share: settings, records and outcomes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, cast

import msgspec

from membership.checks import MOST_64, check_name, check_number
from membership.events import MemberEffect
from muster.core.producing import NOT_KNOWN, Delivered, ProducerSettings, Undelivered
from muster.core.producing.batch import Pending
from muster.errors import BufferFull, CannotConnect, MusterError, RequestTimedOut
from protocol.record_compression import Compression

Headers = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]
CompressionName = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Written(msgspec.Struct, frozen=True):
    """The place of a record in the log. `offset` is -1 where the server did not tell: with `acks=0`, and where it
    remembers only that it has the record. `timestamp_ms` is the record's, in the log.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Handle(Protocol):
    """An edge's handle for a sent record."""

    def deliver(self, offset: int, append_time_ms: int) -> None: ...

    def fail(self, error: MusterError) -> None: ...


def producer_settings(
    *,
    acks: int | Literal["all"],
    enable_idempotence: bool | None,
    compression: str,
    batch_bytes: int,
    linger_ms: int,
    buffer_memory_bytes: int,
    max_request_bytes: int,
    request_timeout_ms: int,
    delivery_timeout_ms: int,
    retry_backoff_ms: int,
    retry_backoff_max_ms: int,
    transactional_id: str | None = None,
    transaction_timeout_ms: int = 60_000,
) -> ProducerSettings:
    """Return the settings of a `Producer` for the core. Raises ValueError for invalid settings."""
    level = -1 if acks == "all" else acks
    if compression.upper() not in Compression.__members__:
        known = ", ".join(repr(one.name.lower()) for one in Compression)
        raise ValueError(f"compression is {compression!r}, it must be one of {known}")
    return ProducerSettings(
        acks=level,
        is_idempotent=level == -1 if enable_idempotence is None else enable_idempotence,
        compression=Compression[compression.upper()],
        batch_bytes=batch_bytes,
        linger_ms=linger_ms,
        buffer_memory_bytes=buffer_memory_bytes,
        max_request_bytes=max_request_bytes,
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        retry_backoff_ms=retry_backoff_ms,
        retry_backoff_max_ms=retry_backoff_max_ms,
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
    )


def pending(
    key: bytes | str | None, value: bytes | str | None, headers: Headers, timestamp_ms: int, handle: Handle
) -> Pending:
    """Return a record for the core; text is encoded as UTF-8. Raises ValueError for an invalid record, since an error
    when its batch is encoded could not reach the caller.
    """
    return Pending(
        _content("the key", key),
        _content("the value", value),
        _headers(headers) if headers else (),
        check_number("timestamp_ms", timestamp_ms, -MOST_64 - 1, MOST_64),
        handle,
    )


def _content(what: str, content: bytes | str | None) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)  # copies mutable content
    raise ValueError(f"{what} is a {type(content).__name__}: bytes, a text or None is wanted")


def _headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((check_name("a header", name), _content(f"header {name!r}", content)) for name, content in pairs)


def hand_over(effect: MemberEffect, explained: Callable[[MusterError], MusterError]) -> Sequence[Handle]:
    """Pass the outcome of a batch to the futures of its records; return those that failed. `explained` adds the edge's
    knowledge of the reason.
    """
    if isinstance(effect, Delivered):
        offset = effect.base_offset
        for handle in cast("tuple[Handle, ...]", effect.handles):
            handle.deliver(offset, effect.append_time_ms)
            if offset >= 0:
                offset += 1
        return ()
    if not isinstance(effect, Undelivered):
        return ()
    error = explained(effect.error)
    handles = cast("tuple[Handle, ...]", effect.handles)
    for handle in handles:
        handle.fail(error)
    return handles


def not_taken(why: int, topic: str, waited_s: float, trouble: str) -> MusterError:
    """Return the error for a record that was not taken in this time, for the core's reason `why`: NOT_KNOWN or
    NO_ROOM."""
    if why == NOT_KNOWN:
        return not_answered(f"nothing is known of topic {topic!r} after {waited_s:g} s", trouble)
    return BufferFull(
        f"buffer_memory_bytes were full for {waited_s:g} s: records come faster than they are"
        f" acknowledged.{' ' if trouble else ''}{trouble}"
    )


def not_answered(sentence: str, trouble: str) -> MusterError:
    """Return the error for an operation without a result in time, with the reason if no server can be reached."""
    return CannotConnect(trouble) if trouble else RequestTimedOut(sentence)

"""Names that applications import: `Consumer`, `Producer`, `GroupMember`, `RangeReader`, `ClientBalancedConsumer`.

    from muster import Consumer

    with Consumer("127.0.0.1:9390", "billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            print(record.value)

These are for programs with threads. `muster.aio` has the same, except `RangeReader`, for programs with an event loop:
`async with`, `await consumer.poll()`, `async for`. "HOST:PORT" speaks the native protocol of `musterd`,
"kafka://HOST:PORT" that of any Kafka broker. Errors are `MusterError`s; invalid settings and arguments raise ValueError
in the call that has them. docs/client.md is the guide.
"""

from muster._installation import check_installation

check_installation(__file__)

from typing import TYPE_CHECKING, Any  # noqa: E402

from membership.events import OffsetToCommit  # noqa: E402
from membership.topic_partition import TopicPartition  # noqa: E402
from muster.blocking import (  # noqa: E402  (after the check they would trip over)
    Consumer,
    GroupMember,
    Producer,
    RangeReader,
    Sent,
    Written,
)
from muster.client.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord  # noqa: E402
from muster.core.fetching import ConsumerRecord  # noqa: E402
from muster.errors import (  # noqa: E402
    AuthenticationFailed,
    BufferFull,
    CannotConnect,
    CannotDeserialize,
    ClientClosed,
    ClientFailed,
    CommitRefused,
    ConcurrentUse,
    CorruptRecords,
    Fenced,
    GroupRefused,
    LogTruncated,
    MusterError,
    NoOffset,
    OffsetOutOfRange,
    ProducerFenced,
    Refused,
    RequestTimedOut,
    TransactionFailed,
    WokenUp,
    WrongSubscription,
)
from muster.net.security import Security  # noqa: E402
from protocol.errors import ErrorCode  # noqa: E402

if TYPE_CHECKING:
    from muster.balanced import ClientBalancedConsumer

__all__ = [
    "AuthenticationFailed",
    "BufferFull",
    "CannotConnect",
    "CannotDeserialize",
    "ClientBalancedConsumer",
    "ClientClosed",
    "ClientFailed",
    "CommitRefused",
    "ConcurrentUse",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CorruptRecords",
    "ErrorCode",
    "Fenced",
    "GroupMember",
    "GroupRefused",
    "LogTruncated",
    "MusterError",
    "NoOffset",
    "OffsetOutOfRange",
    "OffsetToCommit",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "RangeReader",
    "Refused",
    "RequestTimedOut",
    "Security",
    "Sent",
    "TopicPartition",
    "TransactionFailed",
    "WokenUp",
    "Written",
    "WrongSubscription",
]


def __getattr__(name: str) -> Any:
    """Import client-balanced groups on demand, since few programs use them, and the import delays the start."""
    if name != "ClientBalancedConsumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from muster.balanced import ClientBalancedConsumer

    return ClientBalancedConsumer

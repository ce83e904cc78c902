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

from typing import TYPE_CHECKING  # noqa: E402  (after the check they would trip over)

from muster._on_demand import names_on_demand  # noqa: E402

if TYPE_CHECKING:
    from membership.events import OffsetToCommit
    from membership.topic_partition import TopicPartition
    from muster.balanced import ClientBalancedConsumer
    from muster.blocking.consumer import Consumer
    from muster.blocking.group_member import GroupMember
    from muster.blocking.producer import Producer
    from muster.blocking.range_reader import RangeReader
    from muster.blocking.sent import Sent
    from muster.client.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from muster.core.fetching.records import ConsumerRecord
    from muster.core.producing.handles import Written
    from muster.errors import (
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
    from muster.net.security import Security
    from protocol.errors import ErrorCode
else:
    __getattr__ = names_on_demand(
        globals(),
        {
            "membership.events": "OffsetToCommit",
            "membership.topic_partition": "TopicPartition",
            "muster.balanced": "ClientBalancedConsumer",
            "muster.blocking.consumer": "Consumer",
            "muster.blocking.group_member": "GroupMember",
            "muster.blocking.producer": "Producer",
            "muster.blocking.range_reader": "RangeReader",
            "muster.blocking.sent": "Sent",
            "muster.client.interceptors": "ConsumerInterceptor ProducerInterceptor ProducerRecord",
            "muster.core.fetching.records": "ConsumerRecord",
            "muster.core.producing.handles": "Written",
            "muster.errors": "AuthenticationFailed BufferFull CannotConnect CannotDeserialize ClientClosed "
            "ClientFailed CommitRefused ConcurrentUse CorruptRecords Fenced GroupRefused LogTruncated MusterError "
            "NoOffset OffsetOutOfRange ProducerFenced Refused RequestTimedOut TransactionFailed WokenUp "
            "WrongSubscription",
            "muster.net.security": "Security",
            "protocol.errors": "ErrorCode",
        },
    )

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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

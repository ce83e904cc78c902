"""Handlers that replace a node's: requests that name unknown topics wait for the cluster's reply about these topics,
and requests for records are rejected."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.gateway.cluster_topics import RequestedPartition, UpstreamTopics
from coordinator.gateway.native import metadata
from coordinator.handlers.offset_commit import offset_commit
from coordinator.handlers.offset_delete import offset_delete
from coordinator.handlers.offset_fetch import offset_fetch
from coordinator.handlers.table import HANDLERS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeUserScramCredentials,
)
from protocol.messages.balanced import FetchRegistered, RegisterPartitions, StartMember
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from protocol.messages.quotas import AlterClientQuotas, DescribeClientQuotas
from protocol.messages.tokens import CreateToken, DeleteToken, ListTokens
from protocol.messages.topics import DescribeTopicPartitions, Metadata
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]

_ADVICE = "records and topics are the cluster's: ask its brokers"


def reject(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
    """Reject a request that only brokers can serve."""
    core.outbox.send(
        ref, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, f"{type(message).__name__} is not served: {_ADVICE}")
    )


def reject_accounts(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
    """Reject a request about users, access rules, limits or tokens."""
    text = f"{type(message).__name__} is not served: users, access rules and limits are the cluster's: ask its brokers"
    core.outbox.send(ref, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, text))


_OF_BROKERS: Final[tuple[type[Message], ...]] = (
    Produce,
    InitProducerId,
    Fetch,
    OffsetForLeaderEpoch,
    DescribeTopicPartitions,
    StartMember,
    RegisterPartitions,
    FetchRegistered,
)
_OF_ACCOUNTS: Final[tuple[type[Message], ...]] = (
    DescribeAcls,
    CreateAcls,
    DeleteAcls,
    DescribeUserScramCredentials,
    AlterUserScramCredentials,
    DescribeClientQuotas,
    AlterClientQuotas,
    ListTokens,
    CreateToken,
    DeleteToken,
)
REJECTED: dict[type[Message], Handler] = {
    **dict.fromkeys(_OF_BROKERS, reject),
    **dict.fromkeys(_OF_ACCOUNTS, reject_accounts),
}


def topic_handlers(topics: UpstreamTopics) -> dict[type[Message], Handler]:
    """Handlers of the requests that may have to wait for the cluster."""
    return {
        OffsetCommit: offset_commit,
        OffsetFetch: offset_fetch,
        OffsetDelete: offset_delete,
        Metadata: partial(metadata, topics),
        ConsumerGroupHeartbeat: HANDLERS[ConsumerGroupHeartbeat],
    }


def named_partitions(message: Message) -> Iterator[RequestedPartition]:
    """Yield the topics that must be known to serve the request, each with its highest partition."""
    match message:
        case OffsetCommit() | TxnOffsetCommit():
            for topic in message.topics:
                yield topic.name, topic.topic_id, max((part.partition_index for part in topic.partitions), default=0)
        case OffsetFetch():
            for group in message.groups:
                # A named topic need not exist: its offsets are returned in any case.
                yield from ((one.name, one.topic_id, -1 if one.name else 0) for one in group.topics or ())
        case OffsetDelete():
            for deleted in message.topics:
                yield deleted.name, b"", max(deleted.partition_indexes, default=0)
        case ConsumerGroupHeartbeat():
            yield from ((name, b"", 0) for name in message.subscribed_topic_names or ())
        case Metadata():
            yield from ((one.name or "", one.topic_id, 0) for one in message.topics or ())
        case ListOffsets():
            for listed in message.topics:
                yield listed.name, b"", max((part.partition_index for part in listed.partitions), default=0)

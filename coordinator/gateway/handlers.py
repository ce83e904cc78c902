"""Who answers what, beside real brokers, where that differs from a node of its own: what names topics that are not
known waits until the cluster was asked; where partitions end is the cluster's to say; records are not ours at all."""

from collections.abc import Callable, Iterator
from typing import Any

from coordinator.clock import Moment
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.native import metadata
from coordinator.handlers.core import Core
from coordinator.handlers.list_offsets import list_offsets
from coordinator.handlers.offset_commit import offset_commit
from coordinator.handlers.offset_delete import offset_delete
from coordinator.handlers.offset_fetch import offset_fetch as offset_fetch_of_all
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import FetchRegistered, RegisterPartitions, StartMember
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from protocol.messages.topics import DescribeTopicPartitions, Metadata
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]
Place = tuple[str, bytes, int]
"""A topic by name, or by id where that is empty, and a partition of it."""

_RECORDS = "records and topics are the cluster's that this node stands beside: ask its brokers"


def refuse(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
    """What only the brokers can do."""
    core.outbox.send(
        ref, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, f"{type(message).__name__} is not served: {_RECORDS}")
    )


def offset_fetch(core: Core, ref: RequestRef, message: OffsetFetch, moment: Moment) -> None:
    """Whoever reads a topic that was made anew begins it, although what was committed for the old one is still kept."""
    assert isinstance(core.topics, UpstreamTopics)
    core.topics.gone.look_at(moment)
    offset_fetch_of_all(core, ref, message, moment, core.topics.gone.committed_for_others)


REFUSED: dict[type[Message], Handler] = dict.fromkeys(
    (
        Produce,
        InitProducerId,
        Fetch,
        OffsetForLeaderEpoch,
        DescribeTopicPartitions,
        StartMember,
        RegisterPartitions,
        FetchRegistered,
    ),
    refuse,
)

SERVED: dict[type[Message], Handler] = {
    OffsetCommit: offset_commit,
    OffsetFetch: offset_fetch,
    OffsetDelete: offset_delete,
    Metadata: metadata,
    ListOffsets: list_offsets,
}
"""What may have to wait for the cluster, and who serves it then."""


def places(message: Message) -> Iterator[Place]:
    """What the request wants to know of topics."""
    match message:
        case OffsetCommit():
            for topic in message.topics:
                yield topic.name, topic.topic_id, max((part.partition_index for part in topic.partitions), default=0)
        case OffsetFetch():
            for group in message.groups:
                # By name nobody asks: what is committed is told, whether the topic is there or not.
                yield from (("", wanted.topic_id, 0) for wanted in group.topics or () if not wanted.name)
        case OffsetDelete():
            for deleted in message.topics:
                yield deleted.name, b"", max(deleted.partition_indexes, default=0)
        case Metadata():
            yield from ((one.name or "", one.topic_id, 0) for one in message.topics or ())
        case ListOffsets():
            for listed in message.topics:
                yield listed.name, b"", max((part.partition_index for part in listed.partitions), default=0)

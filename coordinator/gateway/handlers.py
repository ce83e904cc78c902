"""Handlers that differ from a node's own: requests that name unknown topics wait until the cluster was asked, and
requests for records are rejected."""

from collections.abc import Callable, Iterator
from typing import Any

from coordinator.clock import Moment
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.native import metadata
from coordinator.handlers.core import Core
from coordinator.handlers.list_offsets import list_offsets
from coordinator.handlers.offset_commit import offset_commit
from coordinator.handlers.offset_delete import offset_delete
from coordinator.handlers.offset_fetch import offset_fetch as offset_fetch_unchecked
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import FetchRegistered, RegisterPartitions, StartMember
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.node import Refused
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from protocol.messages.topics import DescribeTopicPartitions, Metadata
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]
NamedPartition = tuple[str, bytes, int]
"""A topic's name, its id where the name is empty, and a partition."""

_ADVICE = "records and topics are the cluster's: ask its brokers"


def reject(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
    """Reject a request that only brokers can serve."""
    core.outbox.send(ref, Refused(ErrorCode.UNSUPPORTED_VERSION, f"{type(message).__name__} is not served: {_ADVICE}"))


def offset_fetch(core: Core, ref: RequestRef, message: OffsetFetch, moment: Moment) -> None:
    """Answer OffsetFetch, without offsets that were committed for a deleted topic of the same name."""
    assert isinstance(core.topics, UpstreamTopics)
    core.topics.gone.look_at(moment)
    offset_fetch_unchecked(core, ref, message, moment, core.topics.gone.committed_for_others)


REJECTED: dict[type[Message], Handler] = dict.fromkeys(
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
    reject,
)

TOPIC_HANDLERS: dict[type[Message], Handler] = {
    OffsetCommit: offset_commit,
    OffsetFetch: offset_fetch,
    OffsetDelete: offset_delete,
    Metadata: metadata,
    ListOffsets: list_offsets,
}
"""Requests that may have to wait for the cluster, and their handlers."""


def named_partitions(message: Message) -> Iterator[NamedPartition]:
    """Yield the topics that must be known to serve the request, each with its highest partition."""
    match message:
        case OffsetCommit():
            for topic in message.topics:
                yield topic.name, topic.topic_id, max((part.partition_index for part in topic.partitions), default=0)
        case OffsetFetch():
            for group in message.groups:
                # By name the cluster is not asked: committed offsets are returned whether the topic exists or not.
                yield from (("", wanted.topic_id, 0) for wanted in group.topics or () if not wanted.name)
        case OffsetDelete():
            for deleted in message.topics:
                yield deleted.name, b"", max(deleted.partition_indexes, default=0)
        case Metadata():
            yield from ((one.name or "", one.topic_id, 0) for one in message.topics or ())
        case ListOffsets():
            for listed in message.topics:
                yield listed.name, b"", max((part.partition_index for part in listed.partitions), default=0)

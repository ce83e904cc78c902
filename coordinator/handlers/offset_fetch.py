"""Answer OffsetFetch (docs/spec/group-protocol.md#2.6)."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.groups.consumer.offsets import refuse_fetch
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_table import TopicPartitionKey
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    CommitOrigin,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import NO_TOPIC_ID
from protocol.session import RequestRef

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
_NOTHING: tuple[TopicPartitionKey, ...] = ()
_NOTHING_COMMITTED: Mapping[int, OffsetAndMetadata] = {}


def offset_fetch(core: Core, ref: RequestRef, message: OffsetFetch, moment: Moment) -> None:
    """Answer with the committed offsets of each group; waits until they are durable
    (docs/spec/group-protocol.md#2.6)."""
    replies, awaited = [], Awaited()
    listed, most = 0, core.config.max_entries_per_request
    for wanted in message.groups:
        shard, group = core.find(wanted.group_id)
        refused = admit(core, wanted.group_id, may_be_empty=True)
        if not refused and listed >= most:
            # Only a request for all offsets of many large groups comes here; it asks again for the rest.
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if not refused and group is not None and (consumer := group.serving_consumer) is not None:
            refused = refuse_fetch(consumer, wanted)
        if refused:
            replies.append(OffsetFetchGroupReply(wanted.group_id, error_code=refused))
            continue
        reply = _fetch(core, shard, wanted, require_stable=message.require_stable)
        if wanted.with_origins:
            reply = with_origins(shard, reply)
        for topic in reply.topics:
            listed += len(topic.partitions)
        replies.append(reply)
        awaited.add_group(shard.outbox, wanted.group_id)
    awaited.hold(core.outbox, ref, OffsetFetchReply(tuple(replies)))


def with_origins(shard: Shard, reply: OffsetFetchGroupReply) -> OffsetFetchGroupReply:
    """Return the reply with the senders of commits, as far as they are known."""
    topics = []
    for topic in reply.topics:
        origins = []
        for part in topic.partitions:
            known = shard.offsets.origin_of(reply.group_id, topic.name, part.partition_index)
            if known is None:
                continue
            previous, by, repeated_since_ms = known
            client = by.client
            origins.append(
                CommitOrigin(
                    part.partition_index,
                    previous,
                    by.member_id,
                    by.generation_id,
                    client.client_id,
                    client.client_host,
                    client.client_port,
                    client.principal,
                    repeated_since_ms,
                    client.certificate,
                )
            )
        topics.append(replace(topic, origins=tuple(origins)))
    return replace(reply, topics=tuple(topics))


def _fetch(core: Core, shard: Shard, wanted: OffsetFetchGroup, *, require_stable: bool) -> OffsetFetchGroupReply:
    committed = shard.offsets.topics(wanted.group_id)
    unstable = shard.offsets.pending.of(wanted.group_id) if require_stable else _NOTHING
    if wanted.topics is None:
        topics = []
        for name, partitions in committed.items():
            topic_id = core.topics.id_of(name) if wanted.wants_topic_ids else NO_TOPIC_ID
            if topic_id is not None:
                parts = [
                    _committed(name, index, kept, unstable)
                    for index, kept in partitions.items()
                    if kept.topic_id is None or core.topics.may_own(name, kept.topic_id)
                ]
                topics.append(OffsetFetchTopicReply(name, tuple(parts), topic_id))
    else:
        topics = [_fetch_named(core, committed, topic, unstable, wanted) for topic in wanted.topics]
    return OffsetFetchGroupReply(wanted.group_id, tuple(topics))


def _fetch_named(
    core: Core,
    committed: Mapping[str, Mapping[int, OffsetAndMetadata]],
    topic: OffsetFetchTopic,
    unstable: Collection[TopicPartitionKey],
    wanted: OffsetFetchGroup,
) -> OffsetFetchTopicReply:
    """Answer for named partitions, by the topic's name or id, as in the request. An offset that the group does not have
    is answered as such, unless the id is unknown."""
    name, topic_id = topic.name, topic.topic_id
    if not name and (topic_id != NO_TOPIC_ID or wanted.wants_topic_ids):
        known = core.topics.name_of(topic_id)
        if known is None:
            none = [OffsetFetchPartitionReply(index, error_code=_UNKNOWN_ID) for index in topic.partition_indexes]
            return OffsetFetchTopicReply(name, tuple(none), topic_id)
        name = known
    elif wanted.wants_topic_ids:
        topic_id = core.topics.id_of(name) or NO_TOPIC_ID
    partitions = committed.get(name, _NOTHING_COMMITTED)
    parts = []
    for index in topic.partition_indexes:
        kept = partitions.get(index)
        if kept is not None and kept.topic_id is not None and not core.topics.may_own(name, kept.topic_id):
            kept = None
        parts.append(_committed(name, index, kept, unstable))
    return OffsetFetchTopicReply(topic.name, tuple(parts), topic_id)


def _committed(
    topic: str, index: int, kept: OffsetAndMetadata | None, unstable: Collection[TopicPartitionKey]
) -> OffsetFetchPartitionReply:
    if unstable and (topic, index) in unstable:
        return OffsetFetchPartitionReply(index, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if kept is None:
        return OffsetFetchPartitionReply(index)
    return OffsetFetchPartitionReply(
        index, kept.offset, kept.leader_epoch, kept.metadata, ErrorCode.NONE, kept.commit_timestamp_ms
    )

"""Who answers those who ask for committed offsets, or delete them (group-protocol 2.6, 2.7)."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from coordinator.core import Core
from coordinator.gates import gate, write_gate
from coordinator.groups.classic.events import DeleteOffsets
from coordinator.moment import Moment
from coordinator.offsets import OffsetAndMetadata, Place
from coordinator.shard import Shard
from coordinator.slices import Served, Work
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetDeleteTopicReply,
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

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
_NOTHING: tuple[Place, ...] = ()
_NOTHING_COMMITTED: Mapping[int, OffsetAndMetadata] = {}
_NEVER = range(0)

Others = Callable[[str], range]
"""When, by the wall clock, offsets were committed under this name that are another topic's, which is gone."""


def offset_fetch(
    core: Core, ref: RequestRef, message: OffsetFetch, moment: Moment, others: Others = lambda _: _NEVER
) -> None:
    """What is committed, of each group by itself; waits until what it tells is durable (2.6)."""
    replies, position = [], 0
    listed, most = 0, core.config.max_entries_per_request
    for wanted in message.groups:
        shard = core.find(wanted.group_id)[0]
        refused = gate(core, wanted.group_id, may_be_empty=True)
        if not refused and listed >= most:
            # Only one that asks for everything of many large groups comes here; it asks again for the rest.
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if refused:
            replies.append(OffsetFetchGroupReply(wanted.group_id, error_code=refused))
            continue
        reply = _fetch(core, shard, wanted, others, require_stable=message.require_stable)
        for topic in reply.topics:
            listed += len(topic.partitions)
        replies.append(reply)
        position = max(position, shard.position_of(wanted.group_id))
    core.outbox.hold(position, ref, OffsetFetchReply(tuple(replies)))


def _fetch(
    core: Core, shard: Shard, wanted: OffsetFetchGroup, others: Others, *, require_stable: bool
) -> OffsetFetchGroupReply:
    committed = shard.offsets.topics(wanted.group_id)
    unstable = shard.offsets.pending.of(wanted.group_id) if require_stable else _NOTHING
    if wanted.topics is None:
        topics = []
        for name, partitions in committed.items():
            topic_id = core.topics.id_of(name) if wanted.wants_topic_ids else NO_TOPIC_ID
            if topic_id is not None:
                own = _own(partitions, others(name))
                parts = [_committed(name, index, kept, unstable) for index, kept in own.items()]
                topics.append(OffsetFetchTopicReply(name, tuple(parts), topic_id))
    else:
        topics = [_fetch_named(core, committed, topic, unstable, wanted, others) for topic in wanted.topics]
    return OffsetFetchGroupReply(wanted.group_id, tuple(topics))


def _own(partitions: Mapping[int, OffsetAndMetadata], others: range) -> Mapping[int, OffsetAndMetadata]:
    if not others:
        return partitions
    return {index: kept for index, kept in partitions.items() if kept.commit_timestamp_ms not in others}


def _fetch_named(
    core: Core,
    committed: Mapping[str, Mapping[int, OffsetAndMetadata]],
    topic: OffsetFetchTopic,
    unstable: Collection[Place],
    wanted: OffsetFetchGroup,
    others: Others,
) -> OffsetFetchTopicReply:
    """Named partitions, by the topic's name or by its id; the answer names it as it was asked for. Where the group has
    nothing the answer says so, except of an id that nobody has."""
    name, topic_id = topic.name, topic.topic_id
    if not name and (topic_id != NO_TOPIC_ID or wanted.wants_topic_ids):
        known = core.topics.name_of(topic_id)
        if known is None:
            none = [OffsetFetchPartitionReply(index, error_code=_UNKNOWN_ID) for index in topic.partition_indexes]
            return OffsetFetchTopicReply(name, tuple(none), topic_id)
        name = known
    elif wanted.wants_topic_ids:
        topic_id = core.topics.id_of(name) or NO_TOPIC_ID
    kept = _own(committed.get(name, _NOTHING_COMMITTED), others(name))
    parts = [_committed(name, index, kept.get(index), unstable) for index in topic.partition_indexes]
    return OffsetFetchTopicReply(topic.name, tuple(parts), topic_id)


def _committed(
    topic: str, index: int, kept: OffsetAndMetadata | None, unstable: Collection[Place]
) -> OffsetFetchPartitionReply:
    if unstable and (topic, index) in unstable:
        return OffsetFetchPartitionReply(index, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if kept is None:
        return OffsetFetchPartitionReply(index)
    return OffsetFetchPartitionReply(
        index, kept.offset, kept.leader_epoch, kept.metadata, ErrorCode.NONE, kept.commit_timestamp_ms
    )


def offset_delete(core: Core, ref: RequestRef, message: OffsetDelete, moment: Moment) -> None:
    """A group's error stands for all; else partitions that do not exist are refused alone (2.7)."""
    core.slices.begin(core.outbox, ref, _deleting(core, ref, message), moment, changes=True)


def _deleting(core: Core, ref: RequestRef, message: OffsetDelete) -> Work:
    moment = yield 0
    known = core.find(message.group_id)[1]
    if known is not None and known.protocol_type == PROTOCOL_TYPE and not gate(core, message.group_id):
        for cost in core.subscriptions.of(known).reading():
            moment = yield cost
    refused = gate(core, message.group_id) or write_gate(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        return Served(OffsetDeleteReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND), 0)
    if shard.is_balanced(message.group_id):
        return Served(OffsetDeleteReply(error_code=ErrorCode.NON_EMPTY_GROUP), 0)
    stored = _stored_part(shard, message)
    existing = _existing_part(core, message, stored)
    subscribed = core.subscriptions.of(group).topics() if group.members else frozenset()
    ran = shard.run(group, DeleteOffsets(ref, existing, stored, subscribed), moment)
    (own,) = [answer for answer in ran.answers if isinstance(answer.reply, OffsetDeleteReply)]
    shard.deliver(ran._replace(answers=[answer for answer in ran.answers if answer is not own]))
    assert isinstance(own.reply, OffsetDeleteReply)
    return Served(_with_unknown(own.reply, message), 0 if own.at_once else ran.position)


def _stored_part(shard: Shard, message: OffsetDelete) -> frozenset[Place]:
    """Partitions of the request for which the group, or a transaction of its, has an offset."""
    committed, pending = shard.offsets.topics(message.group_id), shard.offsets.pending.of(message.group_id)
    return frozenset(
        (topic.name, index)
        for topic in message.topics
        for index in topic.partition_indexes
        if index in committed.get(topic.name, ()) or (topic.name, index) in pending
    )


def _existing_part(core: Core, message: OffsetDelete, stored: frozenset[Place]) -> OffsetDelete:
    topics = []
    for topic in message.topics:
        count = core.topics.partition_count(topic.name) or 0
        kept = tuple(i for i in topic.partition_indexes if 0 <= i < count or (topic.name, i) in stored)
        if kept:
            topics.append(OffsetDeleteTopic(topic.name, kept))
    return msgspec.structs.replace(message, topics=tuple(topics))


def _with_unknown(reply: OffsetDeleteReply, message: OffsetDelete) -> OffsetDeleteReply:
    if reply.error_code:
        return reply
    errors = {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}
    return OffsetDeleteReply(
        topics=tuple(
            OffsetDeleteTopicReply(
                topic.name,
                tuple(
                    OffsetDeletePartitionReply(index, errors.get((topic.name, index), _UNKNOWN))
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics
        )
    )

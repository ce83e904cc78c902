"""Answer FetchRegistered: records of the member's partitions, from its positions, at once or when some arrive."""

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit_operation
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import Fetching, FetchPlanned, PlannedItem
from coordinator.groups.client_balanced.grants import set_in_flight
from coordinator.groups.client_balanced.registering import next_read
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.ownership import Key
from coordinator.handlers.client_balanced import admit_client_balanced, refreshed
from coordinator.handlers.client_balanced_topics import places
from coordinator.handlers.fetch import count_read, room
from coordinator.runtime.shard import Shard
from coordinator.topics.fetch import DelayedFetch
from protocol.errors import ErrorCode
from protocol.messages.balanced import FetchedPartition, FetchRegistered, FetchRegisteredReply
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchTopic
from protocol.record_batch import extent
from protocol.session import RequestRef

_LARGEST = 2**31 - 1
_WAIT_MS = 300
"""Delay before a partition that cannot be read is tried again."""


def fetch_registered(core: Core, ref: RequestRef, message: FetchRegistered, found: Found, moment: Moment) -> None:
    """Answer at once if the member owns none of the partitions, or names several and owns only some; else when there
    are records."""
    shard, kept = found.shard, found.group_or_new(message.group_id)
    group = refreshed(core, kept, moment)
    known = places(core, shard, message.group_id, [item.key for item in message.items])
    answers = shard.run(kept, Fetching(ref, message, known), moment)
    plans = [one.reply for one in answers if isinstance(one.reply, FetchPlanned)]
    shard.outbox.deliver(message.group_id, [one for one in answers if not isinstance(one.reply, FetchPlanned)])
    if not plans:
        return
    planned = plans[0].items
    if any(item.error_code for item in planned) or not planned or admit_operation(core):
        _answer(core, ref, shard, group, message, planned)
        return
    delayed = core.embedded.fetch(ref, _fetch_of(group, message, planned, message.max_wait_ms), moment, room(core))
    if not isinstance(delayed, DelayedFetch) or (
        core.fetches.watched + len(delayed.notified_by) > core.config.max_watched_partitions
    ):
        _answer(core, ref, shard, group, message, planned)
        return
    delayed.replace_request(message)
    core.fetches.add(ref, len(delayed.notified_by))
    core.purgatory.try_complete_else_watch(delayed, delayed.notified_by)


def answer_registered(core: Core, ref: RequestRef, message: FetchRegistered) -> None:
    """Answer a delayed fetch; grants may have ended meanwhile."""
    if refused := admit_client_balanced(core, message.group_id):
        core.outbox.send(ref, FetchRegisteredReply(refused))
        return
    found = Found(*core.find(message.group_id))
    shard = found.shard
    group = found.group_or_new(message.group_id).as_balanced()
    known = places(core, shard, message.group_id, [item.key for item in message.items])
    planned = [next_read(group, message.consumer_id, item, known.get(item.key)) for item in message.items]
    _answer(core, ref, shard, group, message, tuple(planned))


def _answer(
    core: Core,
    ref: RequestRef,
    shard: Shard,
    group: BalancedGroup,
    message: FetchRegistered,
    planned: tuple[PlannedItem, ...],
) -> None:
    reply = core.embedded.fetch_now(_fetch_of(group, message, planned, 0), room(core))
    read: dict[Key, FetchPartitionReply] = {
        (topic.topic, part.partition_index): part for topic in reply.responses for part in topic.partitions
    }
    items = []
    for wanted, plan in zip(message.items, planned, strict=True):
        place = group.place_of(wanted.key)
        if plan.error_code or place is None:
            items.append(FetchedPartition(wanted.key, plan.error_code))
            continue
        part = read[place]
        items.append(_fetched(wanted.key, plan.position, part))
        if part.records:
            up_to = _end_of(part.records)
            set_in_flight(group, wanted.key, message.consumer_id, wanted.reg_epoch, plan.position, up_to)
    count_read(core, sum([len(item.records) for item in items]))
    shard.outbox.hold_for(message.group_id, ref, FetchRegisteredReply(items=tuple(items)))


def _fetched(key: str, position: int, part: FetchPartitionReply) -> FetchedPartition:
    if part.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
        return FetchedPartition(key, ErrorCode.UNAVAILABLE, _WAIT_MS, position)
    if part.error_code:
        return FetchedPartition(key, ErrorCode.NO_NODE)  # the partition was deleted, and its owner's grant ended
    error = ErrorCode.NONE if part.records else ErrorCode.NOT_FOUND
    return FetchedPartition(key, error, 0, position, part.high_watermark, part.records)


def _fetch_of(
    group: BalancedGroup, message: FetchRegistered, planned: tuple[PlannedItem, ...], max_wait_ms: int
) -> Fetch:
    topics: dict[str, list[FetchPartition]] = {}
    for wanted, plan in zip(message.items, planned, strict=True):
        place = group.place_of(wanted.key)
        if not plan.error_code and place is not None:
            part = FetchPartition(place[1], plan.position, max(wanted.max_bytes, 1))
            topics.setdefault(place[0], []).append(part)
    most = min(sum([max(item.max_bytes, 1) for item in message.items]), _LARGEST)
    return Fetch(
        tuple(FetchTopic(topic, tuple(parts)) for topic, parts in topics.items()),
        max_wait_ms=min(max_wait_ms, _LARGEST),
        min_bytes=1,
        max_bytes=most,
    )


def _end_of(records: bytes) -> int:
    """Return the offset after the last of these batches."""
    at = end = 0
    while at < len(records):
        _base, end, size, _timestamp = extent(records, at)
        at += size
    return end

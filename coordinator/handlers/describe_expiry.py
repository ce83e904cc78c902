"""Answer DescribeExpiry: the expiry of a group's offsets (docs/spec/group-protocol.md#4.4), by the same rule that
deletes them."""

from collections.abc import Generator, Iterator
from itertools import islice

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.facts.views import list_group
from coordinator.runtime.expiry_rules import KeepReason, Rule, expires_ms, group_expires_ms, is_by_subscription, rule_of
from coordinator.runtime.offset_table import OffsetTable, TopicPartitionKey
from coordinator.runtime.slices import Served, Work, served_for
from protocol.errors import ErrorCode
from protocol.messages.offsets import DescribeExpiry, DescribeExpiryReply, ExpiringOffset
from protocol.session import RequestRef

MOST_A_PAGE = 2_000


def describe_expiry(core: Core, ref: RequestRef, message: DescribeExpiry, moment: Moment) -> None:
    """Answer with a page of the group's partitions; waits for the group's last record."""
    core.slices.begin(core.outbox, ref, _describing(core, message), moment)


def _describing(core: Core, message: DescribeExpiry) -> Work:
    moment = yield 0
    refused = admit(core, message.group_id, may_be_empty=True)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        return Served(DescribeExpiryReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND))
    retention_ms = core.expiry.retention_ms
    limit = min(max(message.limit, 0), MOST_A_PAGE)
    group_ms: int | KeepReason = -1
    if not message.after_topic:
        looking = group_expires_ms(group, shard.offsets, retention_ms)
        group_ms, moment = yield from _in_slices(looking, moment)
    subscriptions = core.subscriptions.of(group.classic)
    if is_by_subscription(group):
        for cost in subscriptions.reading():
            moment = yield cost
    rule = rule_of(group, subscriptions)
    keys = list(islice(_keys_after(shard.offsets, message), limit + 1))
    reply = DescribeExpiryReply(
        group_state=list_group(group).group_state,
        group_expires_ms=_when(group_ms),
        group_kept_because=_why(group_ms),
        next_run_ms=moment.wall_ms + max(core.expiry.due_ms - moment.monotonic_ms, 0),
        retention_ms=retention_ms,
        offsets=tuple(_shown(shard.offsets, message.group_id, key, rule, retention_ms) for key in keys[:limit]),
        has_more=len(keys) > limit,
    )
    return served_for(shard.outbox, message.group_id, reply)


def _in_slices(
    looking: Generator[int, None, int | KeepReason], moment: Moment
) -> Generator[int, Moment, tuple[int | KeepReason, Moment]]:
    while True:
        try:
            moment = yield next(looking)
        except StopIteration as done:
            return done.value, moment


def _keys_after(offsets: OffsetTable, message: DescribeExpiry) -> Iterator[TopicPartitionKey]:
    """Return the partitions with an offset, committed or pending, in order, from the page's start."""
    committed, pending = offsets.topics(message.group_id), dict[str, list[int]]()
    for topic, partition in offsets.pending.of(message.group_id):
        pending.setdefault(topic, []).append(partition)
    for topic in sorted(name for name in {**committed, **pending} if name >= message.after_topic):
        partitions = {*committed.get(topic, ()), *pending.get(topic, ())}
        after = message.after_partition if topic == message.after_topic else -(2**31) - 1
        for partition in sorted(partition for partition in partitions if partition > after):
            yield topic, partition


def _shown(
    offsets: OffsetTable, group_id: str, key: TopicPartitionKey, rule: Rule | KeepReason, retention_ms: int
) -> ExpiringOffset:
    committed = offsets.get(group_id, *key)
    if committed is None:
        return ExpiringOffset(*key, kept_because=KeepReason.PENDING.value)
    at_ms = expires_ms(rule, key, committed, offsets.pending.of(group_id), retention_ms)
    return ExpiringOffset(*key, committed.offset, committed.commit_timestamp_ms, _when(at_ms), _why(at_ms))


def _when(at_ms: int | KeepReason) -> int:
    return -1 if isinstance(at_ms, KeepReason) else at_ms


def _why(at_ms: int | KeepReason) -> str:
    return at_ms.value if isinstance(at_ms, KeepReason) else ""

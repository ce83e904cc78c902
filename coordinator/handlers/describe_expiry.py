"""Who answers what will go of a group, and when (docs/spec/group-protocol.md#4.4): by the same rule that lets it go."""

from collections.abc import Iterator
from itertools import islice

from coordinator.clock import Moment
from coordinator.handlers.admission import admit
from coordinator.handlers.core import Core
from coordinator.runtime.expiry_rules import Kept, Rule, expires_ms, group_expires_ms, rule_of
from coordinator.runtime.offset_table import OffsetTable, Place
from protocol.errors import ErrorCode
from protocol.messages.offsets import DescribeExpiry, DescribeExpiryReply, ExpiringOffset
from protocol.session import RequestRef

MOST_A_PAGE = 2_000


def describe_expiry(core: Core, ref: RequestRef, message: DescribeExpiry, moment: Moment) -> None:
    """A page of the group's partitions; waits for the group's last record, as all that is told of it."""
    refused = admit(core, message.group_id, may_be_empty=True)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        core.outbox.send(ref, DescribeExpiryReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND))
        return
    retention_ms = core.expiry.retention_ms
    limit = min(max(message.limit, 0), MOST_A_PAGE)
    balanced = shard.balanced.get(group.group_id)
    rule = rule_of(group, balanced)
    places = list(islice(_places_after(shard.offsets, message), limit + 1))
    group_ms: int | Kept = -1
    if not message.after_topic:
        group_ms = group_expires_ms(group, shard.offsets, retention_ms, balanced)
    reply = DescribeExpiryReply(
        group_state=group.state.title,
        group_expires_ms=_when(group_ms),
        group_kept_because=_why(group_ms),
        next_run_ms=moment.wall_ms + max(core.expiry.due_ms - moment.monotonic_ms, 0),
        retention_ms=retention_ms,
        offsets=tuple(_shown(shard.offsets, message.group_id, place, rule, retention_ms) for place in places[:limit]),
        has_more=len(places) > limit,
    )
    core.outbox.hold(shard.position_of(message.group_id), ref, reply)


def _places_after(offsets: OffsetTable, message: DescribeExpiry) -> Iterator[Place]:
    """Those with an offset, of the group or of a transaction of its, in order."""
    committed, pending = offsets.topics(message.group_id), dict[str, list[int]]()
    for topic, partition in offsets.pending.of(message.group_id):
        pending.setdefault(topic, []).append(partition)
    for topic in sorted(name for name in {**committed, **pending} if name >= message.after_topic):
        partitions = {*committed.get(topic, ()), *pending.get(topic, ())}
        after = message.after_partition if topic == message.after_topic else -(2**31) - 1
        for partition in sorted(partition for partition in partitions if partition > after):
            yield topic, partition


def _shown(offsets: OffsetTable, group_id: str, place: Place, rule: Rule | Kept, retention_ms: int) -> ExpiringOffset:
    committed = offsets.get(group_id, *place)
    if committed is None:
        return ExpiringOffset(*place, kept_because=Kept.PENDING.value)
    at_ms = expires_ms(rule, place, committed, offsets.pending.of(group_id), retention_ms)
    return ExpiringOffset(*place, committed.offset, committed.commit_timestamp_ms, _when(at_ms), _why(at_ms))


def _when(at_ms: int | Kept) -> int:
    return -1 if isinstance(at_ms, Kept) else at_ms


def _why(at_ms: int | Kept) -> str:
    return at_ms.value if isinstance(at_ms, Kept) else ""

"""Answer ApplyOffsets: an administrator's change of committed offsets, compared and set in one step."""

from collections.abc import Iterator
from itertools import islice

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit_write
from coordinator.core.core import Core
from coordinator.facts.admin_notes import acting_client
from coordinator.facts.commit_notes import MOST_CHANGES, note_act
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.notes import Cause
from coordinator.records.records import CommittedOffset, OffsetTombstone, ShardRecord
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.offset_and_metadata import Committer
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import ACTS, ApplyOffsets, ApplyOffsetsReply, OffsetChange
from protocol.messages.topics import NO_TOPIC_ID
from protocol.session import RequestRef

_MEMBERS_NAMED = 10


def apply_offsets(core: Core, ref: RequestRef, message: ApplyOffsets, found: Found, moment: Moment) -> None:
    """Change the offsets if the group has no members and all old values still hold; note it, so that it can be
    undone."""
    shard, group = found
    refused = _refused(core, message) or _unlike_plan(shard, group, message)
    if refused is not None:
        core.outbox.send(ref, refused)
        return
    if group is None and core.count_groups() >= core.config.max_groups:
        core.outbox.send(ref, ApplyOffsetsReply(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    group = group or shard.new_group(message.group_id)
    client = acting_client(core, ref, message.actor, message.actor_host)
    failed = admit_write(core) or shard.record(_records(core, message, moment), group, moment)
    if failed:
        core.outbox.send(ref, ApplyOffsetsReply(error_code=failed))
        return
    committer = Committer("", -1, client)
    for change in message.changes:
        if change.offset >= 0:
            shard.offsets.note_reset(message.group_id, change, committer)
    shard.offsets.went_back.clear()
    cause = Cause.OFFSETS_RESET if any(one.offset >= 0 for one in message.changes) else Cause.OFFSETS_DELETED
    note_act(shard, group.classic, client, cause, message.act, message.changes, moment)
    number = core.journal.newest(message.group_id)
    shard.outbox.hold_for(message.group_id, ref, ApplyOffsetsReply(number=number))


def _refused(core: Core, message: ApplyOffsets) -> ApplyOffsetsReply | None:
    """Check the request by itself, and that its partitions exist where offsets are set."""
    if not 0 < len(message.changes) <= MOST_CHANGES:
        return _invalid(f"changes: 1 to {MOST_CHANGES} at a time are possible, not {len(message.changes)}")
    if message.act not in ACTS:
        return _invalid(f"act: one of {', '.join(ACTS)}")
    seen: set[tuple[str, int]] = set()
    for one in message.changes:
        key = one.topic, one.partition_index
        if key in seen:
            return _invalid(f"{one.topic}-{one.partition_index} is there twice")
        seen.add(key)
        # A message from within the process has not been decoded, which checks the ranges of its fields.
        if not (-1 <= one.offset < 2**63 and -1 <= one.previous_offset < 2**63):
            return _invalid(f"{one.topic}-{one.partition_index}: an offset is 0 to 2^63 - 1, or -1 for none")
        if one.offset == one.previous_offset == -1:
            return _invalid(f"{one.topic}-{one.partition_index}: there is no offset to delete")
        if one.offset >= 0 and not 0 <= one.partition_index < (core.topics.partition_count(one.topic) or 0):
            return _invalid(f"there is no partition {one.topic}-{one.partition_index}")
    return None


def _invalid(sentence: str) -> ApplyOffsetsReply:
    return ApplyOffsetsReply(error_message=sentence)


def _unlike_plan(shard: Shard, group: Group | None, message: ApplyOffsets) -> ApplyOffsetsReply | None:
    """Check that the group has no members, and that each offset is what the plan says."""
    if group is not None and not group.is_empty:
        return ApplyOffsetsReply(members=tuple(_named(group)))
    conflicts = []
    for one in message.changes:
        kept = shard.offsets.get(message.group_id, one.topic, one.partition_index)
        now = -1 if kept is None else kept.offset
        if now != one.previous_offset:
            conflicts.append(OffsetChange(one.topic, one.partition_index, now, one.offset))
    return ApplyOffsetsReply(conflicts=tuple(conflicts)) if conflicts else None


def _named(group: Group) -> list[str]:
    """Return the first members of the group, as people know them."""
    first = islice(_clients(group), _MEMBERS_NAMED)
    return [str(client) for client in first] or ["a member that is joining"]


def _clients(group: Group) -> Iterator[Client]:
    if (consumer := group.serving_consumer) is not None:
        lines = (one.subscription for one in consumer.members.values())
        yield from (Client(line.client_id, line.client_host) for line in lines)
    elif group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        yield from (Client(one.client_id, one.client_host) for one in group.balanced.members.values())
    else:
        yield from (one.client or Client(one.client_id, one.client_host) for one in group.classic.members.values())


def _records(core: Core, message: ApplyOffsets, moment: Moment) -> list[ShardRecord]:
    records: list[ShardRecord] = []
    for one in message.changes:
        if one.offset < 0:
            records.append(OffsetTombstone(message.group_id, one.topic, one.partition_index))
            continue
        topic_id = core.topics.id_to_record(one.topic)
        records.append(
            CommittedOffset(
                message.group_id,
                one.topic,
                one.partition_index,
                one.offset,
                -1,
                "",
                moment.wall_ms,
                topic_id=None if topic_id == NO_TOPIC_ID else topic_id,
            )
        )
    return records

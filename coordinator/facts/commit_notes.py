"""Notes about commits that change offsets otherwise than by reading on: resets, and members that went back."""

from typing import Final

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.config.keys import BackwardCommits
from coordinator.core.core import Core
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.notes import Cause, origin_of_client
from coordinator.groups.classic.state import ClassicGroup
from coordinator.records.records import Note
from coordinator.runtime.group import Group
from coordinator.runtime.shard import Shard
from protocol.messages.groups import OffsetChange
from protocol.messages.offsets import OffsetCommit
from protocol.words import counted

MOST_CHANGES: Final = 2_000
"""Offsets that one note names."""
_MOST_OF_MEMBER: Final = 20


def is_reset(group: Group, message: OffsetCommit) -> bool:
    """Return true if the commit is a reset: by no member, to a group that has had members. Clients that assign
    partitions by themselves commit to groups that never had any."""
    if message.generation_id >= 0 or message.member_id:
        return False
    return group.classic.generation_id > 0 or group.consumer is not None


def present_offsets(shard: Shard, message: OffsetCommit) -> tuple[OffsetChange, ...]:
    """Return the changes that the commit would make, the first ones."""
    known = shard.offsets.topics(message.group_id)
    changes: list[OffsetChange] = []
    for topic in message.topics:
        partitions = known.get(topic.name, {})
        for part in topic.partitions[: MOST_CHANGES - len(changes)]:
            before = partitions.get(part.partition_index)
            previous = -1 if before is None else before.offset
            changes.append(OffsetChange(topic.name, part.partition_index, previous, part.committed_offset))
    return tuple(changes)


def note_reset(
    core: Core, shard: Shard, group: ClassicGroup, changes: tuple[OffsetChange, ...], connection: int, moment: Moment
) -> None:
    """Note a commit by no member, with the old values and the new ones of the partitions that were not refused."""
    shard.offsets.went_back.clear()
    changed = tuple(one for one in changes if one.previous_offset != one.offset and _is_stored(shard, group, one))
    if changed:
        note_act(shard, group, core.client(connection), Cause.OFFSETS_RESET, "reset", changed, moment)


def _is_stored(shard: Shard, group: ClassicGroup, change: OffsetChange) -> bool:
    kept = shard.offsets.get(group.group_id, change.topic, change.partition_index)
    return kept is not None and kept.offset == change.offset


def note_rewind(core: Core, shard: Shard, group: ClassicGroup, member_id: str, connection: int, moment: Moment) -> None:
    """Note that a commit went back, in the partitions that the table of offsets has seen."""
    changes = tuple(one for group_id, one in shard.offsets.went_back if group_id == group.group_id)
    shard.offsets.went_back.clear()
    if not changes or group.settings.offsets_backward is BackwardCommits.ALLOWED:
        return
    client = core.client(connection)
    note = _note(group, client, "rewound", Cause.OFFSETS_REWOUND, "rewind", changes, moment)
    named = changes[:_MOST_OF_MEMBER]
    note = replace(note, initiator=member_id, subject=f"rewind by {client}", changes=named)
    shard.append_notes([note], moment)


def note_act(
    shard: Shard,
    group: ClassicGroup,
    client: Client,
    cause: Cause,
    act: str,
    changes: tuple[OffsetChange, ...],
    moment: Moment,
) -> None:
    """Note that a client has changed offsets; the newest note of the group is the one by which it can be undone."""
    shard.append_notes([_note(group, client, "admin", cause, act, changes, moment)], moment)


def _note(
    group: ClassicGroup,
    client: Client,
    kind: str,
    cause: Cause,
    act: str,
    changes: tuple[OffsetChange, ...],
    moment: Moment,
) -> Note:
    return Note(
        group_id=group.group_id,
        kind=kind,
        cause=cause.value,
        initiator="",
        detail=f"{_places(changes)}, by {client}",
        generation_id=group.generation_id,
        members=len(group.members),
        group_state=group.state.title,
        wall_ms=moment.wall_ms,
        origin=origin_of_client(client),
        act=act,
        changes=changes,
    )


def _places(changes: tuple[OffsetChange, ...]) -> str:
    first = changes[0]
    more = f" and {counted(len(changes) - 1, 'more partition')}" if len(changes) > 1 else ""
    return f"{first.topic}-{first.partition_index} from {_shown(first.previous_offset)} to {_shown(first.offset)}{more}"


def _shown(offset: int) -> str:
    return "none" if offset < 0 else str(offset)

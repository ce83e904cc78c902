"""Partitions that changed owners with a generation, for groups whose pages are open. Pure."""

from collections import OrderedDict
from typing import Final

import msgspec

from diagnosis.assignments import Key, assigned_partitions
from protocol.client_text import client_text
from protocol.messages.groups import DescribedGroup, ListedNote

_MOST_GROUPS: Final = 200
_MOST_GENERATIONS: Final = 50
_MOST_PARTITIONS: Final = 20_000
"""Largest number of partitions of a group whose owners are compared."""
_STABLE: Final = "Stable"


class Moved(msgspec.Struct, frozen=True):
    """`count` of `total` partitions have another owner than in the generation before. `gained`: members that gained
    some, with their numbers; only the first members. `sync_ms`: the length of the sync phase; None if it is unknown."""

    count: int
    total: int
    gained: tuple[tuple[str, int], ...] = ()
    sync_ms: int | None = None


class _Known(msgspec.Struct):
    generation_id: int
    owners: dict[Key, str]
    moved: dict[int, Moved]


class AssignmentChanges:
    """The last assignments of groups seen lately, and the partitions that moved between two."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Known] = OrderedDict()

    def see(self, group: DescribedGroup, notes: tuple[ListedNote, ...]) -> dict[int, Moved]:
        """Compare the group's assignment with the last one seen. Return the known movements by generation."""
        known = self._groups.get(group.group_id)
        if group.group_state != _STABLE:
            return {} if known is None else known.moved
        if known is None or known.generation_id != group.generation_id:
            owners = _owners(group)
            if owners is None:
                return {}
            if known is None:
                known = self._groups[group.group_id] = _Known(group.generation_id, owners, {})
            else:
                is_next = known.generation_id == group.generation_id - 1
                known.moved[group.generation_id] = _moved(known.owners, owners, _sync_ms(group, notes), group, is_next)
                known.generation_id, known.owners = group.generation_id, owners
                for old in list(known.moved)[:-_MOST_GENERATIONS]:
                    del known.moved[old]
        self._groups.move_to_end(group.group_id)
        while len(self._groups) > _MOST_GROUPS:
            self._groups.popitem(last=False)
        return known.moved


def _owners(group: DescribedGroup) -> dict[Key, str] | None:
    owners: dict[Key, str] = {}
    for member in group.members:
        for key in assigned_partitions(group, member):
            owners[key] = member.member_id
        if len(owners) > _MOST_PARTITIONS:
            return None
    return owners


def _moved(
    before: dict[Key, str], owners: dict[Key, str], sync_ms: int | None, group: DescribedGroup, is_next: bool
) -> Moved:
    gained: dict[str, int] = {}
    for key, owner in owners.items():
        if before.get(key) != owner:
            gained[owner] = gained.get(owner, 0) + 1
    lost = sum(key not in owners for key in before)
    names = {one.member_id: client_text(one.client_id, one.client_host) for one in group.members}
    most = sorted(gained.items(), key=lambda one: -one[1])[:3]
    told = tuple((names[owner], count) for owner, count in most) if is_next else ()
    return Moved(sum(gained.values()) + lost, len(owners.keys() | before.keys()), told, sync_ms)


def _sync_ms(group: DescribedGroup, notes: tuple[ListedNote, ...]) -> int | None:
    for note in reversed(notes):
        if note.kind == "completed" and note.generation_id == group.generation_id:
            return max(group.state_since_ms - note.wall_ms, 0) if group.state_since_ms >= 0 else None
    return None

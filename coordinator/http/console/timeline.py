"""Rebalances of a group, from its journal: phases, late members, moved partitions, and causes. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from coordinator.http.console.movements import Moved
from diagnosis import people
from diagnosis.rebalances import NotedRebalance, noted_rebalances
from protocol.client_text import client_text
from protocol.messages.groups import DescribedGroup, ListedNote, SlowestMember

MOST_SHOWN: Final = 12
_SAYS_THE_CAUSE: Final = "new member "


class Rebalance(msgspec.Struct, kw_only=True):
    """A rebalance. `join_ms` and `sync_ms` are None while unknown; `left_ms`: longest time until it ends, if it is
    under way. `late`: the last member to join or, in a server-driven group (`is_driven`), to revoke, in words. There
    `join_ms` is the time until the new target, and `sync_ms` that of its revocations."""

    began_ms: int
    generation_id: int
    cause: str
    details: list[str]
    initiator: str = ""
    join_ms: int | None = None
    sync_ms: int | None = None
    is_open: bool = False
    is_driven: bool = False
    left_ms: int | None = None
    members: int = 0
    joined: int = 0
    dropped: list[str] = []
    late: str = ""
    late_ms: int = -1
    outcome: str = ""
    times: int = 1
    moved: Moved | None = None

    @property
    def phases(self) -> tuple[str, str]:
        """Names of the phases."""
        return ("target after", "revocations for") if self.is_driven else ("join", "sync")

    @property
    def took_ms(self) -> int:
        return (self.join_ms or 0) + (self.sync_ms or 0)

    @property
    def reasons(self) -> list[str]:
        """Sentences of the notes, except those that only repeat the cause."""
        return [one for one in self.details if not one.startswith(_SAYS_THE_CAUSE)]


def rebalances(
    notes: Iterable[ListedNote], group: DescribedGroup, moved: dict[int, Moved], now_ms: int
) -> list[Rebalance]:
    """Return the newest rebalances, newest first."""
    noted = noted_rebalances(notes)
    found = [_shown(one, moved) for one in noted]
    if found and found[-1].is_open and (group.phase or found[-1].is_driven):
        _go_on(found[-1], group, now_ms)
    elif found and not found[-1].is_open:
        _settle(found[-1], group)
    return found[: -MOST_SHOWN - 1 : -1]


def _shown(noted: NotedRebalance, moved: dict[int, Moved]) -> Rebalance:
    if noted.causes:
        running = _begun(noted.first)
        for note in noted.causes[1:]:
            running.details.append(note.detail or note.cause)
            running.times = max(running.times, note.times)
    else:
        end = noted.first
        running = Rebalance(began_ms=end.wall_ms - max(end.took_ms, 0), generation_id=0, cause=end.cause, details=[])
    running.dropped = [note.detail or note.initiator for note in noted.dropped]
    if noted.end is not None:
        _complete(running, noted.end, moved)
        if running.moved is None and noted.moves is not None:
            running.moved = Moved(noted.moves[0], sum(noted.moves))
    if noted.late:
        _revoked(running, noted.late)
    running.is_driven = noted.is_driven
    return running


def _begun(note: ListedNote) -> Rebalance:
    origin = note.origin
    who = "" if origin is None else client_text(origin.client_id, origin.client_host, origin.client_port)
    return Rebalance(
        began_ms=note.wall_ms,
        generation_id=note.generation_id,
        cause=note.cause,
        details=[note.detail] if note.detail else [],
        initiator=who,
        members=note.members,
        times=note.times,
        is_open=True,
    )


def _complete(running: Rebalance, note: ListedNote, moved: dict[int, Moved]) -> None:
    running.is_open = False
    running.generation_id = note.generation_id
    running.join_ms = note.took_ms if note.took_ms >= 0 else max(note.wall_ms - running.began_ms, 0)
    running.members = note.members
    running.joined = len(note.joined)
    running.outcome = note.detail
    running.moved = moved.get(note.generation_id)
    if running.moved is not None:
        running.sync_ms = running.moved.sync_ms
    if note.slowest is not None:
        _name_slowest(running, note.slowest)


def _revoked(running: Rebalance, late: list[ListedNote]) -> None:
    """Add the member that was last to revoke; of several notes, the one that waited longest."""
    last = [note.slowest for note in late if note.slowest is not None]
    if last:
        slowest = max(last, key=lambda one: one.waited_ms)
        running.sync_ms = slowest.waited_ms
        _name_slowest(running, slowest)


def _name_slowest(running: Rebalance, slowest: SlowestMember) -> None:
    running.late, running.late_ms = client_text(slowest.client_id, slowest.client_host), slowest.waited_ms


def _go_on(running: Rebalance, group: DescribedGroup, now_ms: int) -> None:
    """Add the state of the rebalance that is under way."""
    running.left_ms = group.phase_left_ms
    running.join_ms = max(now_ms - running.began_ms, 0)
    running.late = people.waiting_for(group) or ""


def _settle(last: Rebalance, group: DescribedGroup) -> None:
    """Add the sync phase of the last rebalance, which ended when the group became Stable or is under way, or its
    revocations."""
    joined_ms = last.began_ms + (last.join_ms or 0)
    if last.is_driven and group.phase == "assign" and group.state_since_ms <= joined_ms:
        last.is_open, last.left_ms = True, group.phase_left_ms
        last.join_ms, last.sync_ms = (last.join_ms or 0) + max(group.phase_ms, 0), None
        last.late = people.waiting_for(group) or ""
    elif group.phase == ("revoke" if last.is_driven else "sync"):
        last.is_open, last.sync_ms, last.left_ms = True, max(group.phase_ms, 0), group.phase_left_ms
        last.late = people.waiting_for(group) or ""
    elif (
        not last.is_driven
        and last.sync_ms is None
        and group.group_state == "Stable"
        and group.state_since_ms >= joined_ms
    ):
        last.sync_ms = group.state_since_ms - joined_ms

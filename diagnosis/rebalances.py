"""Rebalances, each in one sentence: cause, initiator, last member to join, and cost. Pure."""

from collections.abc import Iterable

import msgspec

from diagnosis.loops import is_max_poll
from diagnosis.people import duration
from protocol.client_text import client_text
from protocol.messages.groups import ListedNote, Origin
from protocol.words import counted

_SAYS_THE_CAUSE = "new member "
_UPGRADED = "group upgraded"
_DRIVEN = ("epoch", "target")
"""Kinds of notes of server-driven groups."""


class NotedRebalance(msgspec.Struct):
    """Notes of one rebalance: its causes, which are those that began it and later ones (also the end of a hold);
    members that were left out; its end, None while it is under way; and the assignment, None if unknown. In a
    server-driven group the causes are those of new epochs, the end is the note on the target, or on the leave of the
    last member, and `late` are those on members that revoked late."""

    causes: list[ListedNote]
    dropped: list[ListedNote] = []
    end: ListedNote | None = None
    assigned: ListedNote | None = None
    late: list[ListedNote] = []

    @property
    def is_driven(self) -> bool:
        """True if the group is server-driven."""
        return (self.end or self.first).kind in _DRIVEN

    @property
    def moves(self) -> tuple[int, int] | None:
        """Partitions that moved and those that did not; None if they are not known."""
        told = self.end if self.assigned is None else self.assigned
        if told is None or told.moved_partitions < 0:
            return None
        return told.moved_partitions, told.kept_partitions

    @property
    def first(self) -> ListedNote:
        """The note with the cause; the end if no note of the beginning is known."""
        if self.causes:
            return self.causes[0]
        assert self.end is not None
        return self.end


def noted_rebalances(notes: Iterable[ListedNote]) -> list[NotedRebalance]:
    """Return the rebalances in the notes, oldest first."""
    found: list[NotedRebalance] = []
    running: NotedRebalance | None = None
    for note in notes:
        if note.kind in ("rebalance", "epoch"):
            if running is None:
                running = NotedRebalance([])
                found.append(running)
            running.causes.append(note)
            if note.kind == "epoch" and not note.members:  # no member's heartbeat will compute a target
                running = _ended(running, note)
        elif note.kind == "held" and running is not None:
            running.causes.append(note)
        elif note.kind == "dropped" and running is not None:
            running.dropped.append(note)
        elif note.kind in ("completed", "target"):
            if running is None:  # its beginning was folded into an earlier note
                running = NotedRebalance([])
                found.append(running)
            running = _ended(running, note)
            if running is not None:
                found.append(running)
        elif found:
            _follow(found, note)
    return found


def _follow(found: list[NotedRebalance], note: ListedNote) -> None:
    """Add a note that may come after the end of its rebalance."""
    end = found[-1].end
    if note.kind == "assigned" and end is not None and end.generation_id == note.generation_id:
        found[-1].assigned = note
    elif note.kind == "converted" and note.cause == _UPGRADED and _has_begun(found[-1], note):
        found[-1].causes.append(note)
    elif note.kind == "revoked":
        for told in [one for one in found if one.end is not None and one.end.generation_id == note.generation_id]:
            told.late.append(note)


def _has_begun(rebalance: NotedRebalance, upgrade: ListedNote) -> bool:
    """Return true if the join that upgraded the group began this rebalance: one that moves no epoch begins none."""
    return any(one.kind == "epoch" and one.initiator == upgrade.initiator for one in rebalance.causes) and (
        rebalance.end is None or rebalance.end.wall_ms == upgrade.wall_ms
    )


def _ended(running: NotedRebalance, end: ListedNote) -> NotedRebalance | None:
    """End the rebalance. Return the next one if it has begun, with the epochs later than the target's."""
    later = [one for one in running.causes if one.kind == "epoch" and one.generation_id > end.generation_id]
    running.causes = [one for one in running.causes if one not in later]
    running.end = end
    return NotedRebalance(later) if later else None


def sentence(rebalance: NotedRebalance) -> str:
    """Say cause, initiator, slowest member and cost: `session expired, app-1 at 10.0.0.7 was silent for 45000 ms; 3
    members stood still for 2.9 s, the last was app-2 at 10.0.0.8`."""
    first, end = rebalance.first, rebalance.end
    told = [_why(first)]
    told += [f"then {_why(note)}" for note in rebalance.causes[1:]]
    told += [f"left out: {note.cause}, {note.detail or note.initiator}" for note in rebalance.dropped]
    if end is None:
        told.append("it is not over")
    elif not end.members:
        told.append("no member is left")
    elif end.kind == "target":
        delay_ms = end.wall_ms - first.wall_ms
        told.append((f"after {duration(delay_ms)}, " if delay_ms > 0 else "") + end.detail)
        told += [_late(note) for note in rebalance.late]
    else:
        told.append(_cost(end, end.took_ms if end.took_ms >= 0 else max(0, end.wall_ms - first.wall_ms)))
        if (moves := rebalance.moves) is not None:
            told.append(f"{moves[0]} of {counted(sum(moves), 'partition')} moved")
    return "; ".join(told)


def _late(note: ListedNote) -> str:
    return note.detail if note.times == 1 else f"{note.times} revocations were late, the last: {note.detail}"


def _why(note: ListedNote) -> str:
    who = _client(note.origin) or note.initiator
    name = "" if note.origin is None else client_text(note.origin.client_id, note.origin.client_host)
    detail = "" if note.detail.startswith(_SAYS_THE_CAUSE) else note.detail.removesuffix(".")
    if name and name in detail:  # the detail names the client, without its port
        return f"{note.cause}, {detail.replace(name, who, 1)}{_polls(note)}"
    by = f" by {who}" if who else ""
    often = f", {note.times} times" if note.times > 1 else ""
    return f"{note.cause}{by}{often}" + (f", {detail}" if detail else "") + _polls(note)


def _polls(note: ListedNote) -> str:
    """Return a text for an application that did not poll in time, since most clients give no reason when they leave
    then."""
    if note.cause != "member left" or note.rebalance_timeout_ms < 0 or not is_max_poll(note):
        return ""
    return f", no poll for its max.poll.interval.ms, {duration(note.rebalance_timeout_ms)}"


def _cost(end: ListedNote, took_ms: int) -> str:
    cost = f"{counted(end.members, 'member')} stood still for {duration(took_ms)}"
    if end.slowest is None:
        return cost
    last = client_text(end.slowest.client_id, end.slowest.client_host)
    return f"{cost}, the last was {last} after {duration(end.slowest.waited_ms)}"


def _client(origin: Origin | None) -> str:
    return "" if origin is None else client_text(origin.client_id, origin.client_host, origin.client_port)

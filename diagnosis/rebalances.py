"""Rebalances, each in one sentence: why, by whom, who came last, and what it cost. Pure."""

from collections.abc import Iterable

import msgspec

from diagnosis.loops import is_max_poll
from diagnosis.people import counted, duration
from protocol.client_text import client_text
from protocol.messages.groups import ListedNote, Origin

_SAYS_THE_CAUSE = "new member "


class NotedRebalance(msgspec.Struct):
    """Notes of one rebalance of a classic group: what began it, with what came meanwhile (more causes, the end of a
    hold); members that were left out; its end, None while it goes on; and what was assigned, None if it is unknown."""

    causes: list[ListedNote]
    dropped: list[ListedNote] = []
    end: ListedNote | None = None
    assigned: ListedNote | None = None

    @property
    def first(self) -> ListedNote:
        """The note that tells the cause; of a rebalance whose beginning stands elsewhere, the end."""
        if self.causes:
            return self.causes[0]
        assert self.end is not None
        return self.end


def noted_rebalances(notes: Iterable[ListedNote]) -> list[NotedRebalance]:
    """Return the rebalances that the notes tell of, oldest first."""
    found: list[NotedRebalance] = []
    running: NotedRebalance | None = None
    for note in notes:
        if note.kind == "rebalance":
            if running is None:
                running = NotedRebalance([])
                found.append(running)
            running.causes.append(note)
        elif note.kind == "held" and running is not None:
            running.causes.append(note)
        elif note.kind == "dropped" and running is not None:
            running.dropped.append(note)
        elif note.kind == "completed":
            if running is None:  # its beginning was repeated, and folded into a note that stands elsewhere
                running = NotedRebalance([])
                found.append(running)
            running.end = note
            running = None
        elif note.kind == "assigned" and found:
            end = found[-1].end
            if end is not None and end.generation_id == note.generation_id:
                found[-1].assigned = note
    return found


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
    else:
        told.append(_cost(end, end.took_ms if end.took_ms >= 0 else max(0, end.wall_ms - first.wall_ms)))
    if rebalance.assigned is not None:
        told.append(_moves(rebalance.assigned))
    return "; ".join(told)


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
    """Tell of an application that did not poll in time: most clients leave without a reason then."""
    if note.cause != "member left" or note.rebalance_timeout_ms < 0 or not is_max_poll(note):
        return ""
    return f", no poll for its max.poll.interval.ms, {duration(note.rebalance_timeout_ms)}"


def _cost(end: ListedNote, took_ms: int) -> str:
    cost = f"{counted(end.members, 'member')} stood still for {duration(took_ms)}"
    if end.slowest is None:
        return cost
    last = client_text(end.slowest.client_id, end.slowest.client_host)
    return f"{cost}, the last was {last} after {duration(end.slowest.waited_ms)}"


def _moves(assigned: ListedNote) -> str:
    of = counted(assigned.moved_partitions + assigned.kept_partitions, "partition")
    return f"{assigned.moved_partitions} of {of} moved"


def _client(origin: Origin | None) -> str:
    return "" if origin is None else client_text(origin.client_id, origin.client_host, origin.client_port)

"""Notes by group on its rebalances, kept in the notes log and answered from memory.

Memory is bounded by bytes, as the log is: the oldest notes of all groups are dropped first. Repeated notes are folded
into one: else two processes that fence each other would displace the notes of all others.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from coordinator.groups.classic.notes import Cause
from coordinator.groups.tallies import GroupTallies
from coordinator.records.records import Note
from protocol.messages.groups import AuditedNote, ListedNote, ListNotes, ListNotesReply

_NOTE_BYTES: Final = 200
"""Memory of a note without its texts: the object, its numbers, its entries in two lists."""
_FACT: Final = "x" * 64
"""Estimated memory of an object about a client, without its texts."""
_CHANGE_BYTES: Final = 160
_GROUP_BYTES: Final = 320
_FOLD_WITHIN_MS: Final = 600_000
"""Largest interval between repetitions that are folded: a process that is restarted once a day fences no other."""
_COMPLETION: Final = "completion of a repeated rebalance"
_GROUP_EXPIRED: Final = Cause.GROUP_EXPIRED.value
_ENDS: Final = ("completed", "assigned")
"""Kinds of notes at the end of a rebalance; they are folded if that rebalance is a repetition."""
_topic: Final = attrgetter("topic")
_SPARE_ORDERS: Final = 1_024
_MOST_EXPIRED: Final = 10_000
"""Expired groups whose ids are kept apart: nobody finds their notes by the groups that there are."""


class _Kept:
    """The notes of a group, oldest first. `dropped`: entries of the journal's order whose notes have been dropped
    already."""

    __slots__ = ("dropped", "next_number", "notes")

    def __init__(self, first_number: int) -> None:
        self.notes: list[Note] = []
        self.next_number = first_number
        self.dropped = 0


class Journal:
    """The newest `limit` notes of each group, `max_bytes` of all groups together. `rebalances` counts the notes that
    begin a rebalance, by cause, since the start, repetitions too.

    Notes outlive their group. No number is used for two notes of a group until a restart, though its last note may have
    been dropped: an act is undone by the number of its note.
    """

    def __init__(self, limit: int, max_bytes: int = 32 << 20) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._groups: dict[str, _Kept] = {}
        self._first_number = 0
        """First number of a group, above those of all groups whose last note was dropped."""
        self._order: deque[str] = deque()
        """The group of each note in order of arrival. Entries of a group stand for its notes, oldest first."""
        self._count = 0
        self._bytes = 0
        self._newest_act_ms = -1
        self._expired: deque[tuple[int, str]] = deque(maxlen=_MOST_EXPIRED)
        self.rebalances: dict[str, int] = {}
        self.tallies = GroupTallies()
        self.on_note: Callable[[Note], None] | None = None
        """Called with each new note that repeats none, or whose count has doubled."""
        self.on_act: Callable[[Note], None] | None = None
        """Called with each new note of an administrative action."""

    def add(self, note: Note) -> Note | None:
        """Number the note and keep it. Return the note to append to the notes log; None for a mere repetition, which
        only raises the count of the repeated note. When the count has doubled, that note becomes the newest again, so
        that a client that continues from a number receives it."""
        if self.tallies.noted(note):
            self.rebalances[note.cause] = self.rebalances.get(note.cause, 0) + 1
        kept = self._groups.get(note.group_id) or self._begin(note.group_id)
        if note.kind in _ENDS and kept.notes and kept.notes[-1].subject:
            note = replace(note, subject=_COMPLETION)  # a rebalance that repeats is completed each time
        at = _repeated(kept.notes, note) if note.subject else None
        if at is not None:
            before = kept.notes[at]
            note = replace(note, times=before.times + 1, since_ms=_since(before))
            if note.times & before.times:  # not a power of two
                kept.notes[at] = replace(note, number=before.number)
                self._bytes += _size(note) - _size(before)
                self._make_room()
                return None
        note = replace(note, number=kept.next_number)
        self._append(kept, note, at)
        if self.on_note is not None:
            self.on_note(note)
        if note.act and self.on_act is not None:
            self.on_act(note)
        if note.cause == _GROUP_EXPIRED:
            self._expired.append((note.wall_ms, note.group_id))
        return note

    def load(self, note: Note) -> None:
        """Keep a note that was read from the log."""
        text = sys.intern
        note = replace(
            note,
            group_id=text(note.group_id),
            kind=text(note.kind),
            cause=text(note.cause),
            group_state=text(note.group_state),
        )
        kept = self._groups.get(note.group_id) or self._begin(note.group_id)
        self._append(kept, note, _repeated(kept.notes, note) if note.subject and note.times > 1 else None)

    def merge(self, note: Note) -> None:
        """Keep a note that another node has appended, unless it is kept already. If another note has its number, it
        gets a new one."""
        kept = self._groups.get(note.group_id)
        if kept is not None:
            if any(_is_same(one, note) for one in reversed(kept.notes)):
                return
            if note.number < kept.next_number:
                note = replace(note, number=kept.next_number)
        self.load(note)

    def list(self, message: ListNotes) -> ListNotesReply:
        """Notes with numbers above `after`, oldest first; without `after`, the newest `limit`."""
        group = self._groups.get(message.group_id)
        kept = [] if group is None else [note for note in group.notes if note.number > message.after]
        limit = max(message.limit, 0)
        chosen = kept[:limit] if message.after >= 0 else kept[len(kept) - min(limit, len(kept)) :]
        return ListNotesReply(notes=tuple(_listed(note) for note in chosen))

    def newest_ms(self, group_id: str) -> int:
        """Return the wall time of the group's newest note; -1 without one."""
        kept = self._groups.get(group_id)
        return -1 if kept is None or not kept.notes else kept.notes[-1].wall_ms

    def newest(self, group_id: str) -> int:
        """Return the number of the group's newest note; -1 without one."""
        kept = self._groups.get(group_id)
        return -1 if kept is None or not kept.notes else kept.notes[-1].number

    def acts(self, since_ms: int) -> Iterator[AuditedNote | None]:
        """Yield the notes of administrative actions since a wall time, group by group; None after each group, for
        slices."""
        if self._newest_act_ms < since_ms:
            return
        for group_id, kept in list(self._groups.items()):
            for note in reversed(list(kept.notes)):
                if note.wall_ms < since_ms:
                    break
                if note.act:
                    yield AuditedNote(group_id, _listed(note))
            yield None

    def expired(self, since_ms: int) -> tuple[str, ...]:
        """Return the groups that have expired since a wall time and the process's start, oldest first."""
        recent = [*takewhile(lambda one: one[0] >= since_ms, reversed(self._expired))]
        return tuple(dict.fromkeys(group_id for _wall_ms, group_id in reversed(recent)))

    def notes(self) -> Iterator[Note]:
        """All notes kept, group by group."""
        for kept in self._groups.values():
            yield from kept.notes

    @property
    def kept_bytes(self) -> int:
        """Memory of the notes kept, estimated."""
        return self._bytes

    def __len__(self) -> int:
        return self._count

    def _begin(self, group_id: str) -> _Kept:
        kept = self._groups[group_id] = _Kept(self._first_number)
        self._bytes += _GROUP_BYTES + sys.getsizeof(group_id)
        return kept

    def _append(self, kept: _Kept, note: Note, in_place_of: int | None) -> None:
        """Keep the note as the newest. It replaces another, or the oldest of its group may be dropped."""
        kept.next_number = note.number + 1
        kept.notes.append(note)
        self._order.append(note.group_id)
        if note.act:
            self._newest_act_ms = max(self._newest_act_ms, note.wall_ms)
        self._count += 1
        self._bytes += _size(note)
        if in_place_of is not None:
            self._forget(kept, in_place_of)
            kept.dropped += 1
        elif len(kept.notes) > self._limit:
            self._forget(kept, 0)
            kept.dropped += 1
        if self._bytes > self._max_bytes:
            self._make_room()
        if len(self._order) > 2 * self._count + _SPARE_ORDERS:
            self._remove_dropped()

    def _forget(self, kept: _Kept, index: int) -> None:
        self._count -= 1
        self._bytes -= _size(kept.notes.pop(index))

    def _remove_dropped(self) -> None:
        entries = self._order
        self._order = deque()
        for group_id in entries:
            kept = self._groups[group_id]
            if kept.dropped:
                kept.dropped -= 1
            else:
                self._order.append(group_id)

    def _make_room(self) -> None:
        while self._bytes > self._max_bytes and self._count > 1:
            group_id = self._order.popleft()
            kept = self._groups[group_id]
            if kept.dropped:
                kept.dropped -= 1
                continue
            self._forget(kept, 0)
            if not kept.notes:
                self._first_number = max(self._first_number, kept.next_number)
                del self._groups[group_id]
                self._bytes -= _GROUP_BYTES + sys.getsizeof(group_id)


def _repeated(notes: list[Note], note: Note) -> int | None:
    """Index of the note that this one, which has a subject, repeats. Only repeatable notes, of other instances, may lie
    between. An act folds with acts alone: a restart must not hide the takeover before it."""
    for index in range(len(notes) - 1, -1, -1):
        before = notes[index]
        if not before.subject:
            return None
        if (before.subject, before.kind, before.cause, before.act) == (note.subject, note.kind, note.cause, note.act):
            is_recent = note.wall_ms - before.wall_ms <= _FOLD_WITHIN_MS
            return index if is_recent or note.since_ms == _since(before) else None
    return None


def _is_same(one: Note, other: Note) -> bool:
    return one.wall_ms == other.wall_ms and replace(one, number=other.number) == other


def _since(note: Note) -> int:
    return note.wall_ms if note.since_ms < 0 else note.since_ms


def _size(note: Note) -> int:
    texts = [note.detail, note.initiator, note.subject, note.act, *note.joined]
    if note.origin is not None:
        texts.append(note.origin.certificate)
    for known in (note.origin, note.slowest, note.previous):
        if known is not None:
            texts += [_FACT, known.client_id, known.client_host]
    changes = _CHANGE_BYTES * len(note.changes) + sum(map(len, map(_topic, note.changes)))
    return _NOTE_BYTES + changes + sum(map(sys.getsizeof, texts))


def _listed(note: Note) -> ListedNote:
    return ListedNote(
        number=note.number,
        generation_id=note.generation_id,
        cause=note.cause,
        initiator=note.initiator,
        wall_ms=note.wall_ms,
        detail=note.detail,
        members=note.members,
        group_state=note.group_state,
        kind=note.kind,
        times=note.times,
        since_ms=_since(note),
        origin=note.origin,
        took_ms=note.took_ms,
        slowest=note.slowest,
        joined=note.joined,
        previous=note.previous,
        idle_ms=note.idle_ms,
        rebalance_timeout_ms=note.rebalance_timeout_ms,
        act=note.act,
        changes=note.changes,
        moved_partitions=note.moved_partitions,
        kept_partitions=note.kept_partitions,
    )


def encode_note(note: Note) -> tuple[bytes, bytes]:
    """Return key and value in the notes log: the group's id, and the note as JSON that people can read."""
    return note.group_id.encode(), msgspec.json.encode(note)


def decode_note(value: bytes) -> Note:
    """Decode a note. Raises msgspec.DecodeError."""
    return msgspec.json.decode(value, type=Note)

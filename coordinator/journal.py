"""Why groups rebalanced: notes by group, kept in the notes log and answered from memory."""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from coordinator.records import Note
from protocol.messages.groups import ListedNote, ListNotes, ListNotesReply


class Journal:
    """The newest `limit` notes of each group. `rebalances` counts those of kind `rebalance` by cause since the
    start.

    Notes outlive their group; of more than `max_groups` groups, those quiet for longest are forgotten.
    """

    def __init__(self, limit: int, max_groups: int = 1_000_000) -> None:
        self._limit = limit
        self._max_groups = max_groups
        self._notes: dict[str, deque[Note]] = {}
        self._next: dict[str, int] = {}
        self.rebalances: dict[str, int] = {}

    def number(self, notes: Iterable[Note]) -> list[Note]:
        """The notes with their numbers, not yet in the journal."""
        numbered = []
        taken: dict[str, int] = {}
        for note in notes:
            number = taken.get(note.group_id, self._next.get(note.group_id, 0))
            taken[note.group_id] = number + 1
            numbered.append(msgspec.structs.replace(note, number=number))
        return numbered

    def add(self, note: Note, *, live: bool = True) -> None:
        """Keep a numbered note; the oldest of its group makes room."""
        notes = self._notes.pop(note.group_id, None)
        if notes is None:
            notes = deque(maxlen=self._limit)
            if len(self._notes) >= self._max_groups:
                quietest = next(iter(self._notes))
                del self._notes[quietest], self._next[quietest]
        self._notes[note.group_id] = notes  # the last of all now
        notes.append(note)
        self._next[note.group_id] = note.number + 1
        if live and note.kind == "rebalance":
            self.rebalances[note.cause] = self.rebalances.get(note.cause, 0) + 1

    def list(self, message: ListNotes) -> ListNotesReply:
        """Notes with numbers above `after`, oldest first; without `after`, the newest `limit`."""
        kept = [note for note in self._notes.get(message.group_id, ()) if note.number > message.after]
        limit = max(message.limit, 0)
        chosen = kept[:limit] if message.after >= 0 else kept[len(kept) - min(limit, len(kept)) :]
        return ListNotesReply(notes=tuple(_listed(note) for note in chosen))

    def notes(self) -> Iterator[Note]:
        """All that are kept, group by group."""
        for notes in self._notes.values():
            yield from notes

    def __len__(self) -> int:
        return sum(len(notes) for notes in self._notes.values())


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
    )


def encode_note(note: Note) -> tuple[bytes, bytes]:
    """Key and value in the notes log: the group's id, and the note as JSON that people can read."""
    return note.group_id.encode(), msgspec.json.encode(note)


def decode_note(value: bytes) -> Note:
    """The note. Raises msgspec.DecodeError."""
    return msgspec.json.decode(value, type=Note)

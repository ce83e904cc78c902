"""Files and folders of a simulated disk, each with its content in memory and on the disk."""

import copy
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

SECTOR = 512


Change = tuple[int, bytes] | int
"""A write, or the size after a truncation."""


class File:
    """`data` is what is read, the page cache; `pending` what of it is not on the disk yet.

    A writeback that fails is counted in `failures`; `was_told` says whether a sync has reported the last. As on Linux
    its pages count as clean from then on, whatever the errno: they stay readable, and are never written any more.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []
        self.locked = False
        self.failures = 0
        self.errno = 0
        self.was_told = True
        self.is_forgettable = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "File":
        """Copy the bytes; changes are never written to."""
        made = copy.copy(self)
        made.data, made.durable, made.pending = bytearray(self.data), bytearray(self.durable), list(self.pending)
        return made

    def apply(self, target: bytearray, change: Change) -> None:
        if isinstance(change, int):
            if change < len(target):
                del target[change:]
            else:
                target.extend(bytes(change - len(target)))
            return
        position, data = change
        if len(target) < position:
            target.extend(bytes(position - len(target)))
        target[position : position + len(data)] = data

    def change(self, change: Change) -> None:
        self.apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            self.apply(self.durable, change)
        self.pending.clear()

    def fail_writeback(self, code: int) -> None:
        """Lose all data that is not durable; the next sync of an open handle of the file fails."""
        self.pending.clear()
        self.failures, self.errno, self.was_told = self.failures + 1, code, False

    @property
    def known_failures(self) -> int:
        """Return the count of failures not reported to a handle opened now: a failure not yet reported to any is
        reported to it."""
        return self.failures if self.was_told else self.failures - 1

    def forget(self) -> None:
        """Drop the page cache of a file that is not open: clean pages are read from the disk again, and an unreported
        failure is never reported."""
        if not self.pending:
            self.data = bytearray(self.durable)
            self.failures, self.was_told, self.is_forgettable = 0, True, False

    def release(self) -> None:
        self.locked = False

    def crash(self, random: Random, counts: dict[str, int]) -> None:
        for change in self.pending:
            for piece in _survivors(change, random, counts):
                self.apply(self.durable, piece)
        self.pending.clear()
        self.forget()
        self.locked = False


def _survivors(change: Change, random: Random, counts: dict[str, int]) -> list[Change]:
    fate = random.choice(("lost", "kept", "torn"))
    counts[fate] += 1
    if fate == "lost":
        return []
    if fate == "kept" or isinstance(change, int):
        return [change]
    position, data = change
    edges = [0, *range(SECTOR - position % SECTOR, len(data), SECTOR), len(data)]
    pieces = [(position + a, data[a:b]) for a, b in pairwise(edges) if random.random() < 0.5]
    if len(edges) == 2 and not pieces:  # within a sector a write is torn to a prefix
        pieces = [(position, data[: random.randrange(len(data) + 1)])]
    return list(pieces)


class Folder:
    def __init__(self) -> None:
        self.names: dict[str, File | Folder] = {}
        self.durable: dict[str, File | Folder] = {}
        self.pending: list[dict[str, File | Folder]] = []  # the names after each change

    def __deepcopy__(self, memo: dict[int, Any]) -> "Folder":
        """Copy each file once, by whatever names it goes."""

        def copied(names: dict[str, File | Folder]) -> dict[str, File | Folder]:
            return {name: copy.deepcopy(entry, memo) for name, entry in names.items()}

        made = Folder()
        made.names, made.durable = copied(self.names), copied(self.durable)
        made.pending = [copied(names) for names in self.pending]
        return made

    def changed(self) -> None:
        self.pending.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def release(self) -> None:
        for entry in self.names.values():
            entry.release()

    def crash(self, random: Random, counts: dict[str, int], *, keeps_any_names: bool) -> None:
        if keeps_any_names:
            kept = self._keep_any(random)
        else:
            kept = random.randrange(len(self.pending) + 1)
            if kept:
                self.durable = self.pending[kept - 1]
        counts["names"] += len(self.pending) - kept
        self.names = dict(self.durable)
        self.pending.clear()
        for entry in self.names.values():
            if isinstance(entry, Folder):
                entry.crash(random, counts, keeps_any_names=keeps_any_names)
            else:
                entry.crash(random, counts)

    def _keep_any(self, random: Random) -> int:
        """Lose or keep each change; return how many were kept. A rename is one change."""
        after, kept = dict(self.durable), 0
        for before, names in pairwise([self.durable, *self.pending]):
            if random.random() < 0.5:
                continue
            kept += 1
            for name in before.keys() - names.keys():
                after.pop(name, None)
            after |= {name: entry for name, entry in names.items() if before.get(name) is not entry}
        self.durable = after
        return kept


@dataclass(slots=True)
class Opened:
    """A handle. `heard` counts the file's failed writebacks that need not be reported to it any more."""

    file: File
    path: str
    heard: int

"""Progress of a node with the logs of its shards: it is given shards that others serve once it has read them
(docs/decisions/040-read-before-serving.md)."""

from collections.abc import Collection, Iterable

_READING_MS = 60_000
"""Time within which a node must have read one more log; after that it goes on without: a partition may have no leader
for long."""


class Readiness:
    """Logs that a node has read, of those that it needs. `is_ready`: it has read what it will be given. Then it is
    given its share, and is settled once it serves that. A node that joins others which serve also reads what it follows
    before it counts as settled, so that the others may be stopped next."""

    def __init__(self) -> None:
        self.is_ready = False
        self.due_ms: int | None = None
        """Time at which the node goes on without the logs that it has not read; None while nothing is to be judged."""
        self._is_settled = self._joins_others = False
        self._read: set[int] = set()
        self._own: frozenset[int] = frozenset()
        self._awaited: frozenset[int] = frozenset()
        self._followed: frozenset[int] = frozenset()

    @property
    def unread(self) -> int:
        """Number of logs that are still to be read, at least 1 until the node is settled; 0 then."""
        return 0 if self._is_settled else max(len(self._needed - self._read), 1)

    @property
    def _needed(self) -> frozenset[int]:
        if not self.is_ready:
            return self._own | self._awaited
        return self._own | self._followed if self._joins_others else self._own

    def assigned(
        self,
        own: Iterable[int],
        awaited: Collection[int],
        followed: frozenset[int],
        now_ms: int,
        *,
        is_whole: bool,
    ) -> None:
        """Note the node's shards, those that it will be given, and those that it follows. `is_whole`: no shard is
        without an owner, as shards are while they move."""
        self._read -= self._followed - followed
        self._own, self._awaited, self._followed = frozenset(own), followed.intersection(awaited), followed
        if not self._is_settled and is_whole and self.due_ms is None:
            self.due_ms = now_ms + _READING_MS

    def caught_up(self, shard: int, now_ms: int) -> None:
        """Note that the shard's log was read to its end, and its records applied."""
        if self.due_ms is not None and shard in self._needed - self._read:
            self.due_ms = now_ms + _READING_MS
        self._read.add(shard)

    def revoked(self, shards: Iterable[int]) -> None:
        """Note that the state of these shards is dropped."""
        self._read.difference_update(shards)

    def lost(self) -> None:
        """Note that the node is no member any more: it has lost its shards, and follows none."""
        self.is_ready = self._is_settled = False
        self.due_ms = None
        self._read.clear()

    def judge(self, now_ms: int) -> bool:
        """Return true once the node has become ready."""
        if self.due_ms is None:
            return False
        if not self._needed <= self._read and now_ms < self.due_ms:
            return False
        self.due_ms = None
        if self.is_ready:
            self._is_settled = True
            return False
        self.is_ready, self._joins_others = True, bool(self._awaited)
        return True

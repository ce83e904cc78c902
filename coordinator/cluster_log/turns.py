"""Turns in which a node reads the logs of shards that others serve."""

from collections.abc import Callable


class ReadTurns:
    """Permission to read a log that is followed, and is behind: one shard at a time, and none while the node claims
    shards. Clients wait for those, and all replays share one processor with them. `wake` is called with the shard whose
    turn it is; a shard may also ask again by itself."""

    def __init__(self, wake: Callable[[int], None] = lambda shard: None) -> None:
        self._wake = wake
        self._claimed: set[int] = set()
        self._reading: int | None = None
        self._waiting: dict[int, None] = {}

    def note_claim(self, shard: int, *, is_under_way: bool) -> None:
        """Note whether the node claims a shard that it does not serve yet."""
        if is_under_way:
            self._claimed.add(shard)
            self.end(shard)
        elif shard in self._claimed:
            self._claimed.remove(shard)
            self._go_on()

    def take(self, shard: int) -> bool:
        """Return true if the shard's log may be read now; it may then be read until `end`."""
        if self._claimed or self._reading not in {None, shard}:
            self._waiting[shard] = None
            return False
        self._waiting.pop(shard, None)
        self._reading = shard
        return True

    def end(self, shard: int) -> None:
        """Let the next shard read: this log was read to its end, cannot be read now, or is followed no more."""
        self._waiting.pop(shard, None)
        if self._reading == shard:
            self._reading = None
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._claimed and self._reading is None:
            self._wake(next(iter(self._waiting)))

"""Turns in which a node reads the logs of shards that others serve."""


class ReadTurns:
    """Permission to read a log that is followed, and is behind: one shard at a time, and none while the node claims
    shards. Clients wait for those, and all replays share one processor with them."""

    def __init__(self) -> None:
        self._claimed: set[int] = set()
        self._reading: int | None = None

    def note_claim(self, shard: int, *, is_under_way: bool) -> None:
        """Note whether the node claims a shard that it does not serve yet."""
        if is_under_way:
            self._claimed.add(shard)
            self.end(shard)
        else:
            self._claimed.discard(shard)

    def take(self, shard: int) -> bool:
        """Return true if the shard's log may be read now; it may then be read until `end`."""
        if self._claimed:
            return False
        if self._reading is None:
            self._reading = shard
        return self._reading == shard

    def end(self, shard: int) -> None:
        """Let the next shard read: this log was read to its end, cannot be read now, or is followed no more."""
        if self._reading == shard:
            self._reading = None

"""Order in which a node reads the logs of shards that others serve."""


class StandbyReads:
    """Permission to read a log that is followed, and is behind: one shard at a time, and none while the node claims
    shards. Clients wait for those, and all replays share one processor with them."""

    def __init__(self) -> None:
        self._claiming: set[int] = set()
        self._reading: int | None = None

    def claim_began(self, shard: int) -> None:
        """Note that the node claims the shard. It need not be read along any more."""
        self._claiming.add(shard)
        self.ended(shard)

    def claim_ended(self, shard: int) -> None:
        """Note that the shard is served, or that its claim failed."""
        self._claiming.discard(shard)

    def may_read(self, shard: int) -> bool:
        """Return true if the shard's log may be read now: it may then be read until `ended`."""
        if self._claiming:
            return False
        if self._reading is None:
            self._reading = shard
        return self._reading == shard

    def ended(self, shard: int) -> None:
        """Note that the log was read to its end, or cannot be read now."""
        if self._reading == shard:
            self._reading = None

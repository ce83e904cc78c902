"""The balancing pass over server-balanced groups, a slice at a time (docs/spec/client-balanced-groups.md#12)."""

from collections import deque
from collections.abc import Iterator, Sequence

from coordinator.clock import Moment
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.shard import Shard, ShardState

TASK = "balancing"
_SLICE_PARTITIONS = 2_000
"""Partitions assigned in one slice; a group with more has a slice of its own."""
_NEXT_SLICE_MS = 10


class BalancingPass:
    """Groups that the present pass has yet to balance."""

    def __init__(self) -> None:
        self._left: deque[Group] = deque()
        self._began_ms = 0

    def next_groups(self, shards: Sequence[Shard], moment: Moment) -> Iterator[Group]:
        """Return the groups of the next slice; begins a pass if none is under way."""
        if not self._left:
            self._began_ms = moment.monotonic_ms
            for shard in shards:
                if shard.state is ShardState.ACTIVE:
                    self._left += [one for one in _balanced(shard) if one.as_balanced().is_server_balanced]
        room = _SLICE_PARTITIONS
        while self._left and room > 0:
            group = self._left.popleft()
            room -= 1 + len(group.as_balanced().meta)
            yield group

    def delay_ms(self, interval_ms: int, moment: Moment) -> int:
        """Return the milliseconds to the next slice; a pass begins an interval after the last one began."""
        if self._left:
            return _NEXT_SLICE_MS
        return max(self._began_ms + interval_ms - moment.monotonic_ms, 0)


def _balanced(shard: Shard) -> Iterator[Group]:
    yield from shard.of_kind[GroupKind.CLIENT_BALANCED].values()

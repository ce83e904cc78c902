"""Recent lag and consumption of groups, for plots, kept for groups whose pages are open. Pure."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from coordinator.http.lag.partitions import PartitionLag

_MOST_GROUPS: Final = 500
_MOST_SAMPLES: Final = 720
_LEAST_MS: Final = 900
"""Least time between two samples."""


class Sample(NamedTuple):
    """Sums over a group's partitions at a wall time. None: no end, or no commit, is known."""

    wall_ms: int
    lag: int | None
    committed: int | None


class History:
    """The newest samples of groups."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[Sample]] = OrderedDict()

    def see(self, group_id: str, wall_ms: int, lines: Iterable[PartitionLag]) -> None:
        """Take a sample of the group, unless the last one is too recent."""
        kept = self._groups.setdefault(group_id, deque(maxlen=_MOST_SAMPLES))
        self._groups.move_to_end(group_id)
        if kept and 0 <= wall_ms - kept[-1].wall_ms < _LEAST_MS:
            return
        lags, commits = [], []
        for line in lines:
            if line.lag is not None:
                lags.append(line.lag)
            if line.current_offset is not None:
                commits.append(line.current_offset)
        kept.append(Sample(wall_ms, sum(lags) if lags else None, sum(commits) if commits else None))
        while len(self._groups) > _MOST_GROUPS:
            self._groups.popitem(last=False)

    def of(self, group_id: str) -> list[Sample]:
        return list(self._groups.get(group_id, ()))

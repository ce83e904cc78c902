"""Log lines for the operator about the disk: each damage once, and a full disk when it fills and when space is free
again."""

from coordinator.node.effects import LogError
from partition_log.store.log_store import LogStore


class DiskNews:
    """Changes since the last `report`. The start itself reports a full disk."""

    def __init__(self, store: LogStore, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._was_full = store.disk_full
        self._damaged: dict[str, None] = {}

    def report(self) -> list[LogError]:
        """Return the new messages. Called after every flush and checkpoint, and from time to time."""
        news: list[LogError] = []
        damaged = self._store.damaged
        if len(damaged) > len(self._damaged):
            news += [LogError(damaged[name]) for name in damaged if name not in self._damaged]
        if damaged or self._damaged:
            self._damaged = dict.fromkeys(damaged)
        if self._store.disk_full is not self._was_full:
            self._was_full = self._store.disk_full
            news.append(self._of_room())
        return news

    def _of_room(self) -> LogError:
        if self._was_full:
            return LogError(f"the disk is full: {self._folder} is served, writes are refused until there is room")
        return LogError(f"the disk has room again: {self._folder} takes writes", "info")

"""Settings of groups in the log of their shard, if nodes share that log, so that the log's next owner has them."""

from collections.abc import Callable, Mapping

from coordinator.groups.classic.group_states import GroupSettings


class OwnSettings:
    """Settings by group. `take` applies them at the node, whose `overrides` of the `common` settings change then."""

    def __init__(
        self,
        take: Callable[[str, dict[str, str]], None],
        overrides: Mapping[str, GroupSettings],
        common: GroupSettings,
    ) -> None:
        self._take = take
        self._overrides = overrides
        self._common = common
        self._known: dict[str, dict[str, str]] = {}

    def set(self, group_id: str, own: dict[str, str]) -> None:
        """Replace the group's own settings; empty: the node's settings apply. Raises `LogCorrupt`."""
        self._take(group_id, own)
        self._known[group_id] = own
        if not own:
            del self._known[group_id]

    def get(self, group_id: str) -> dict[str, str]:
        """Return the group's own settings."""
        return self._known.get(group_id, {})

    def in_force(self, group_id: str) -> GroupSettings:
        """Return the settings in force for the group, wherever they are kept."""
        return self._overrides.get(group_id, self._common)

    def drop(self) -> None:
        """Drop the own settings of all groups of the shard: the node's settings apply."""
        for group_id in self._known:
            self._take(group_id, {})
        self._known.clear()

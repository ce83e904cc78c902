"""Settings of groups in the log of their shard, if nodes share that log, so that the next owner has them."""

from collections.abc import Callable, Mapping

from coordinator.groups.classic.group_states import GroupSettings


class OwnSettings:
    """Settings by group. `take` puts them into force at the node, whose `overrides` over the `common` ones follow."""

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
        """Put these in the place of what the group has; none: it follows the node. Raises `LogCorrupt`."""
        self._take(group_id, own)
        self._known[group_id] = own
        if not own:
            del self._known[group_id]

    def get(self, group_id: str) -> dict[str, str]:
        """Return what the group has itself."""
        return self._known.get(group_id, {})

    def in_force(self, group_id: str) -> GroupSettings:
        """Return the settings in force for the group, wherever they are kept."""
        return self._overrides.get(group_id, self._common)

    def drop(self) -> None:
        """Let all groups of the shard follow the node."""
        for group_id in self._known:
            self._take(group_id, {})
        self._known.clear()

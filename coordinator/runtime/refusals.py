"""Recently refused clients, kept in memory: otherwise a client that may not join would leave no trace."""

from typing import Final

from msgspec.structs import replace

from protocol.messages.groups import RefusedRequest

MOST_KEPT: Final = 2_000
"""Refused clients remembered; the one refused longest ago is forgotten first."""
_Key = tuple[str, str, int, str, str]


class RefusedRequests:
    """Refused requests by group, API, error and client, the latest last. Repetitions count."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[_Key, RefusedRequest] = {}

    def add(self, one: RefusedRequest) -> None:
        """Remember the refusal, which happened at its `wall_ms`."""
        key = (one.group_id, one.api, one.error_code, one.client_id, one.client_host)
        before = self._kept.pop(key, None)
        times, since_ms = (1, one.wall_ms) if before is None else (before.times + 1, before.since_ms)
        self._kept[key] = replace(one, times=times, since_ms=since_ms)
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def list(self, group_ids: frozenset[str]) -> list[RefusedRequest]:
        """Return the refusals of these groups, of all groups if there are none; the latest last."""
        return [one for one in self._kept.values() if not group_ids or one.group_id in group_ids]

"""Limits of clients (KIP-13, KIP-124, KIP-546): bytes, joins, commits and connections a second, members and their
metadata at a time, of users, client ids and addresses. The limit in force among several is chosen as by Apache Kafka
(ClientQuotaManager).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from math import isfinite
from typing import Final, NamedTuple

Entity = tuple[tuple[str, str | None], ...]
"""Types and names of the clients that a limit is for, sorted. The name None stands for all without a limit of their
own."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = frozenset({USER, CLIENT_ID, IP})
BURST_S: Final = 1.0
"""Seconds of a limit that may be used at once."""
MAX_THROTTLE_MS: Final = 10_000
"""Longest time for which a client's connection is not read, since its heartbeats wait too."""
_MOST_METERS: Final = 10_000


class QuotaKey(StrEnum):
    """Limits of use a second and, the last two, of amounts at any time. Those of bytes a second and connections are
    Kafka's, the others Muster's own."""

    PRODUCED_BYTES = "producer_byte_rate"
    FETCHED_BYTES = "consumer_byte_rate"
    CONNECTIONS = "connection_creation_rate"
    JOINS = "join_rate"
    COMMITS = "commit_rate"
    MEMBERS = "member_count"
    METADATA_BYTES = "member_metadata_bytes"


HELD: Final = (QuotaKey.MEMBERS, QuotaKey.METADATA_BYTES)
"""Limits of amounts at any time."""


class Limit(NamedTuple):
    """A limit in force, and the name of what is counted against it."""

    rate: float
    counted: Entity


class _Meter:
    """Leaky bucket: the amount in use, which drains at the rate of the limit."""

    __slots__ = ("at_ms", "used")

    def __init__(self, at_ms: int) -> None:
        self.used = 0.0
        self.at_ms = at_ms

    def add(self, amount: float, rate: float, now_ms: int) -> int:
        """Add an amount; return the milliseconds until the limit is met again."""
        burst = max(rate * BURST_S, 1.0)
        drained = max(0.0, self.used - (now_ms - self.at_ms) * rate / 1_000)
        self.used, self.at_ms = min(drained + amount, burst + rate * MAX_THROTTLE_MS / 1_000), now_ms
        return round(max(0.0, self.used - burst) / rate * 1_000)


def problem_of(entity: Entity, key: str, value: float) -> str | None:
    """Return an error message for an invalid limit; None if it is valid."""
    if problem := problem_of_entity(entity):
        return problem
    if key not in {one.value for one in QuotaKey}:
        return f"{key!r} is no limit here: {', '.join(QuotaKey)} are"
    if dict(entity).keys() == {IP} and key != QuotaKey.CONNECTIONS:
        return f"an address has {QuotaKey.CONNECTIONS} alone"
    if not (isfinite(value) and value > 0):
        return f"{key} must be above 0"
    return None


def problem_of_entity(entity: Entity) -> str | None:
    """Return an error message for an invalid entity; None if it is valid."""
    types = [kind for kind, _name in entity]
    if not types:
        return "a limit needs a user, a client id or an address: the entity is empty"
    if strange := [kind for kind in types if kind not in TYPES]:
        return f"{strange[0]!r} is no type of entity: {', '.join(sorted(TYPES))} are"
    if len(set(types)) != len(types):
        return "an entity has each type once"
    if IP in types and len(types) > 1:
        return "an address is limited by itself"
    if "" in {name for _kind, name in entity}:
        return "a name is empty"
    name = dict(entity).get(IP)
    return None if name is None or _is_address(name) else f"{name[:200]!r} is no IP address"


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


class Quotas:
    """Limits by entity, and their use by clients."""

    def __init__(self) -> None:
        self.limits: dict[Entity, dict[str, float]] = {}
        self._in_force: dict[tuple[str, str, str], Limit | None] = {}
        """Limit of a key for a user with a client id."""
        self._meters: dict[tuple[str, Entity], _Meter] = {}

    @property
    def limits_held(self) -> bool:
        """True if members or their metadata are limited for any entity."""
        return any(key in values for values in self.limits.values() for key in HELD)

    @property
    def is_on(self) -> bool:
        """True if there is any limit."""
        return bool(self.limits)

    def set(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Set all limits of the entity; none: remove it."""
        if values:
            self.limits[entity] = dict(values)
        else:
            self.limits.pop(entity, None)
        self._in_force.clear()
        self._meters.clear()

    def use(self, key: QuotaKey, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count a client's use; return the throttle time in milliseconds."""
        limit = self.limit_of(key, user, client_id)
        return 0 if limit is None else self._count(key, limit, amount, now_ms)

    def limit_of(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """Return the limit in force for a client; None: there is none."""
        asked = (key.value, user, client_id)
        if asked not in self._in_force:
            if len(self._in_force) >= _MOST_METERS:
                self._in_force.clear()
            self._in_force[asked] = self._find(key, {USER: user, CLIENT_ID: client_id}, _levels(user, client_id))
        return self._in_force[asked]

    def use_address(self, host: str, now_ms: int) -> int:
        """Count a connection of an address; return the throttle time in milliseconds."""
        limit = self._find(QuotaKey.CONNECTIONS, {IP: host}, (((IP, host),), ((IP, None),)))
        return 0 if limit is None else self._count(QuotaKey.CONNECTIONS, limit, 1, now_ms)

    def _find(self, key: QuotaKey, names: Mapping[str, str], levels: Iterable[Entity]) -> Limit | None:
        for entity in levels:
            rate = self.limits.get(entity, {}).get(key)
            if rate is not None:
                return Limit(rate, tuple((kind, names[kind]) for kind, _name in entity))
        return None

    def _count(self, key: QuotaKey, limit: Limit, amount: float, now_ms: int) -> int:
        counted = key.value, limit.counted
        meter = self._meters.get(counted)
        if meter is None:
            if len(self._meters) >= _MOST_METERS:
                del self._meters[next(iter(self._meters))]
            meter = self._meters[counted] = _Meter(now_ms)
        return meter.add(amount, limit.rate, now_ms)


def _levels(user: str, client_id: str) -> Iterable[Entity]:
    """Yield the entities whose limits may apply to a client, the most specific first."""
    for name in (user, None):
        for one in (client_id, None):
            yield (CLIENT_ID, one), (USER, name)
        yield ((USER, name),)
    yield ((CLIENT_ID, client_id),)
    yield ((CLIENT_ID, None),)

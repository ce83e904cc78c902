"""Times and limits of a shard in the cluster's log."""

from typing import NamedTuple

import msgspec

OFFSETS_LOG_TOPIC = "__muster_offsets"
"""Topic of the cluster whose partitions are the shards."""
NOTES_TOPIC = "__muster_notes"
"""Topic of the cluster through which nodes share their notes on groups."""


class BootMoment(NamedTuple):
    """A reading of the clock that counts while the machine is suspended (CLOCK_BOOTTIME), and of wall time."""

    boot_ms: int
    wall_ms: int


class ClusterLogSettings(msgspec.Struct, frozen=True):
    """Milliseconds and bytes. A shard must get an event or a `take_effects` call more often than once a session, since
    a longer gap counts as suspension. `session_ms` is the session timeout of the nodes' group, `lease_margin_ms` the
    largest drift between this node's and the brokers' clocks in one session, `unheard_sessions` the time without an
    answer of that group's coordinator after which no client is served. `keep_alive_ms` is far below the brokers'
    `producer.id.expiration.ms`, `renew_ms` far below their `transactional.id.expiration.ms`.
    """

    session_ms: int = 6_000
    lease_margin_ms: int = 1_000
    unheard_sessions: int = 3
    keep_alive_ms: int = 3_600_000
    renew_ms: int = 86_400_000
    retry_ms: int = 100
    follow_ms: int = 1_000
    """Time between two reads of a log that is only followed, or whose end was reached too soon."""
    marker_ms: int = 50
    """Time between two reads of a log in which offsets wait for the end of their transaction."""
    max_batch_bytes: int = 1_000_000
    node_id: int = -1
    """Node id that claims record, for the next owner; -1: none."""


def transactional_id(shard: int) -> str:
    """Name under which a shard's owners ask for producer epochs (docs/spec/shared-log.md#Recommended.1)."""
    return f"muster-shard-{shard}"

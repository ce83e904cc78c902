"""Times and limits of a shard in the cluster's log."""

from typing import NamedTuple

import msgspec

OFFSETS_LOG_TOPIC = "__muster_offsets"
"""Topic of the cluster whose partitions are the shards."""
NOTES_TOPIC = "__muster_notes"
"""Topic of the cluster by which nodes know each other's notes on groups."""


class BootMoment(NamedTuple):
    """A reading of the clock that goes on while the machine is suspended (CLOCK_BOOTTIME), and of the calendar's."""

    boot_ms: int
    wall_ms: int


class ClusterLogSettings(msgspec.Struct, frozen=True):
    """Milliseconds and bytes. The owner must be seen by its clock, with an event or a `take_effects`, more often than a
    session: a longer silence counts as sleep.

    `session_ms` is the session timeout of the nodes' group, `lease_margin_ms` what clocks and the brokers' may differ
    by in one, `unheard_sessions` the time without that group's coordinator after which nobody is served.
    `keep_alive_ms` is far below the brokers' `producer.id.expiration.ms`, `renew_ms` far below their
    `transactional.id.expiration.ms`.
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
    """Id that claims tell, for whoever comes next; -1: they tell none."""


def transactional_id(shard: int) -> str:
    """Name under which a shard's owners ask for producer epochs (docs/spec/shared-log.md#Recommended.1)."""
    return f"muster-shard-{shard}"

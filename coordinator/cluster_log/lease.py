"""Lease: the time for which no other node can have been given this node's shards."""

from coordinator.cluster_log.settings import ClusterLogSettings


class Lease:
    """Lease on all shards of a node.

    Reads are not fenced: an owner that was suspended or cut off could answer from outdated state. The coordinator of
    the nodes' group evicts a member a session after the last heartbeat that reached it, so a successful heartbeat gives
    a lease of one session from the time at which it was *sent* (docs/spec/shared-log.md#5). An accepted write extends
    no lease: it proves only that no other node had claimed the shard until then.
    """

    def __init__(self, settings: ClusterLogSettings) -> None:
        self._length_ms = settings.session_ms - settings.lease_margin_ms
        self._unanswered_ms = settings.unheard_sessions * settings.session_ms
        self._sent_ms = self._answered_ms = -(2**62)

    def heartbeat_succeeded(self, sent_boot_ms: int, answered_boot_ms: int) -> None:
        """Note a heartbeat, or a join, that was answered without an error. A join may be answered long after it was
        sent: two joins in a row that each wait for a slow member take longer than `is_unanswered` allows, so the time
        of the answer counts there."""
        self._sent_ms = max(self._sent_ms, sent_boot_ms)
        self._answered_ms = max(self._answered_ms, answered_boot_ms)

    def end(self) -> None:
        """End the lease: the node has left, or has learnt that it is no longer a member."""
        self._sent_ms = -(2**62)

    def holds(self, boot_ms: int) -> bool:
        """Return true if reads may be answered from memory."""
        return boot_ms - self._sent_ms < self._length_ms

    def is_unanswered(self, boot_ms: int) -> bool:
        """Return true if no coordinator of the nodes' group has answered for so long that a living one must have given
        the shards to other nodes. The choice of another coordinator, during which none answers either, takes up to two
        sessions."""
        return boot_ms - self._answered_ms >= self._unanswered_ms

"""Lease: the time for which no other node can have been given this node's shards."""

from coordinator.cluster_log.settings import ClusterLogSettings


class Lease:
    """Reads have no fence: an owner that was asleep or cut off would answer from a memory that others have moved on
    from.

    The coordinator of the nodes' group evicts a member a session after the last heartbeat that reached it, so one that
    succeeded is good for a session from when it was *sent* (docs/spec/shared-log.md#5). A write that was taken proves
    only that nobody had claimed the shard until then, and gives no time: that coordinator has not heard of it.
    """

    def __init__(self, settings: ClusterLogSettings) -> None:
        self._length_ms = settings.session_ms - settings.lease_margin_ms
        self._unheard_ms = settings.unheard_sessions * settings.session_ms
        self._sent_ms = self._heard_ms = -(2**62)

    def heartbeat_succeeded(self, sent_boot_ms: int, heard_boot_ms: int) -> None:
        """Note a heartbeat, or a join, that was answered without an error. A join may be answered long after it was
        sent: two in a row, each of which waits for a slow member, take longer than the time of `is_unheard`."""
        self._sent_ms = max(self._sent_ms, sent_boot_ms)
        self._heard_ms = max(self._heard_ms, heard_boot_ms)

    def end(self) -> None:
        """End the lease: the node has left, or heard that it is no member."""
        self._sent_ms = -(2**62)

    def holds(self, boot_ms: int) -> bool:
        """Return true if reads may be answered from memory."""
        return boot_ms - self._sent_ms < self._length_ms

    def is_unheard(self, boot_ms: int) -> bool:
        """Return true if no coordinator of the nodes' group was heard for so long that one which lives must have given
        the shards to others. While another one is being chosen it is not heard either, which takes two sessions."""
        return boot_ms - self._heard_ms >= self._unheard_ms

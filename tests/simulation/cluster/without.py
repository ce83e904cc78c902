"""Shards with one rule of the protocol taken out; the worlds must find each."""

from coordinator.cluster_log.claim import ClaimAttempt, ClaimPhase
from coordinator.cluster_log.cluster_shard import NEVER, ClusterShard
from coordinator.cluster_log.entries import ClaimedEpoch
from coordinator.cluster_log.events import OwnershipRevoked
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns


class _Unwritten(ClaimAttempt):
    """An attempt that serves what it read up to the end, under its new epoch, and writes no claim."""

    def _fence_or_claim(self, now: BootMoment) -> None:
        self.offset = max(self._reader.tail.next_offset, 0)
        self.phase = ClaimPhase.WON


class WithoutClaimRecord(ClusterShard):
    """InitProducerId alone counts as the fence."""

    attempt = _Unwritten


class WithoutBaseOffsetCheck(ClusterShard):
    """Everything that the leader accepted is acknowledged, at whatever offset."""

    def _is_in_place(self, base_offset: int) -> bool:
        return True


class WithoutLease(ClusterShard):
    """An owner answers reads for as long as it believes to be one."""

    def read_position(self, now: BootMoment) -> int | None:
        self._see(now)
        return 0 if self.is_serving else None


class _AlwaysHeard(Lease):
    """A lease that ends as any other, of a node that counts as in contact with its group forever."""

    def __init__(self, lease: Lease) -> None:
        self._of_node = lease

    def holds(self, boot_ms: int) -> bool:
        return self._of_node.holds(boot_ms)

    def is_unanswered(self, boot_ms: int) -> bool:
        return False


class WithoutRelease(ClusterShard):
    """An owner that has no contact to its group continues to serve."""

    def __init__(
        self, index: int, settings: ClusterLogSettings, lease: Lease, turns: ReadTurns, now: BootMoment
    ) -> None:
        super().__init__(index, settings, lease, turns, now)
        self._lease = _AlwaysHeard(lease)


class WithoutReclaimAfterSleep(WithoutRelease):
    """A process that wakes continues. A long sleep is found by either rule, so both are taken out."""

    def _slept(self, slept_ms: int, now: BootMoment) -> None:
        pass


class WithoutKeepAlive(WithoutRelease):
    """An owner without anything to write is silent, so that the leader forgets whom it fences: one that lets go by
    itself writes nothing more, so this rule is taken out as well."""

    def _is_keep_alive_due(self, now: BootMoment) -> bool:
        return False


class WithoutEndOfHandOver(ClusterShard):
    """A hand-over waits for its last write for as long as that takes."""

    def _revoked(self, event: OwnershipRevoked, now: BootMoment) -> None:
        super()._revoked(event, now)
        if self._leaves_by_ms is not None:
            self._leaves_by_ms = NEVER


class _Unfenced(ClaimAttempt):
    def _is_below(self, claim: ClaimedEpoch) -> bool:
        return True


class WithoutFenceByHand(ClusterShard):
    """The producer id of the claim before is not fenced when this one has another."""

    attempt = _Unfenced


class WithLeaseByWrites(ClusterShard):
    """An accepted write extends the lease as a heartbeat does."""

    _taken_ms = -(2**62)

    def _acknowledge(self, end: int) -> None:
        self._taken_ms = self._written_ms
        super()._acknowledge(end)

    def read_position(self, now: BootMoment) -> int | None:
        position = super().read_position(now)
        length_ms = self._settings.session_ms - self._settings.lease_margin_ms
        return 0 if position is not None and now.boot_ms - self._taken_ms < length_ms else position


RULES: dict[type[ClusterShard], tuple[int, tuple[str, ...]]] = {
    WithoutClaimRecord: (2, ("freeze", "kill")),
    WithoutBaseOffsetCheck: (2, ("cut_from_group", "forget")),
    WithoutLease: (1, ("cut_from_group", "start_another")),
    WithLeaseByWrites: (3, ("cut_from_group", "start_another")),
    WithoutReclaimAfterSleep: (2, ("freeze_in_turn",)),
    WithoutKeepAlive: (0, ("fall_silent",)),
    WithoutRelease: (0, ("cut",)),
    WithoutFenceByHand: (3, ("cut_from_group", "kill")),
    WithoutEndOfHandOver: (6, ("stop", "cut")),
}
"""A seed, and faults, by which each is found soon."""

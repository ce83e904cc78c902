"""A rig for a shard, with brokers whose answers the test chooses."""

from typing import Any, TypeVar

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import AskProducerId, ReadLog, ShardEffect, WriteBatch
from coordinator.cluster_log.entries import entries_of
from coordinator.cluster_log.events import BatchAnswered, LogRead, OwnershipGiven, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.tail import ShardTail
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd
from coordinator.cluster_log.turns import ReadTurns
from protocol.errors import ErrorCode
from protocol.record_batch import stamp

T = TypeVar("T", bound=ShardEffect)
SETTINGS = ClusterLogSettings(follow_ms=700)


class Bench:
    """`log` is the partition; a test adds what others write."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.lease = Lease(SETTINGS)
        self.beat()
        self.shard = ClusterShard(0, SETTINGS, self.lease, ReadTurns(), self.now)
        self.log: list[bytes] = []
        self.effects: list[ShardEffect] = []

    @property
    def now(self) -> BootMoment:
        return BootMoment(self.now_ms, self.now_ms)

    @property
    def end(self) -> int:
        return max((next_offset for batch in self.log for next_offset, _ in entries_of(batch)), default=0)

    def beat(self) -> None:
        self.lease.heartbeat_succeeded(self.now_ms, self.now_ms)

    def wait(self, for_ms: int) -> list[ShardEffect]:
        """Let time go by, seen by the shard and with heartbeats."""
        taken: list[ShardEffect] = []
        end_ms = self.now_ms + for_ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + 1_000, end_ms)
            self.beat()
            taken += self.take()
        return taken

    def take(self) -> list[ShardEffect]:
        taken = self.shard.take_effects(self.now)
        self.effects += taken
        return taken

    def tell(self, event: ShardEvent) -> list[ShardEffect]:
        self.shard.happen(event, self.now)
        return self.take()

    def put(self, batch: bytes) -> int:
        """Add a batch to the log; return its base offset."""
        base = self.end
        self.log.append(stamp(batch, base))
        return base

    def answer(self, effects: list[ShardEffect], **said: Any) -> list[ShardEffect]:
        """Answer the one request among the effects; by default as a healthy leader does."""
        (request,) = [one for one in effects if isinstance(one, AskProducerId | WriteBatch | ReadLog)]
        if isinstance(request, AskProducerId):
            return self.tell(ProducerIdAnswered(request.number, **({"error": ErrorCode.NONE} | said)))
        if isinstance(request, ReadLog):
            data = b"".join(batch for batch in self.log if next(entries_of(batch))[0] > request.offset)
            return self.tell(LogRead(request.number, ErrorCode.NONE, data, self.end))
        if not said:
            said = {"error": ErrorCode.NONE, "base_offset": self.put(request.batch)}
        return self.tell(BatchAnswered(request.number, **said))

    def own(self, producer: tuple[int, int] = (7, 0)) -> list[ShardEffect]:
        """Claim the shard; return the last effects."""
        given = self.tell(OwnershipGiven())
        read = self.answer(given, producer_id=producer[0], producer_epoch=producer[1])
        claimed = self.answer(self.answer(read))
        return self.answer(claimed)


def pairs_in(data: bytes) -> dict[bytes, bytes | None]:
    """Return the newest value of each key, of records that count."""
    counting = ShardTail().take(data)
    return dict(one for one in counting if not isinstance(one, PendingRecord | TransactionEnd))


def only(effects: list[ShardEffect], kind: type[T]) -> T:
    (found,) = [one for one in effects if isinstance(one, kind)]
    return found


def kinds(effects: list[ShardEffect]) -> list[str]:
    return [type(one).__name__ for one in effects]

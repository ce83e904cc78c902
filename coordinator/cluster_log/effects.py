"""Effects of a shard in the cluster's log: requests to the brokers, each answered by the event with its number, and
changes of the shard's state."""

import msgspec

from coordinator.cluster_log.entries import Pair
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd


class ShardEffect(msgspec.Struct, frozen=True, gc=False):
    """Base of these effects."""

    shard: int


class AskProducerId(ShardEffect, frozen=True):
    """Send InitProducerId for the shard's transactional id; with a producer id and epoch: only if they are the newest.
    Comes back as `ProducerIdAnswered`."""

    number: int
    producer_id: int = -1
    producer_epoch: int = -1


class WriteBatch(ShardEffect, frozen=True):
    """Send the batch to the leader: Produce 11, acks -1, no transactional id. Comes back as `BatchAnswered`. With
    `alone` it goes over a connection on which no other shard waits: its partition is slow."""

    number: int
    batch: bytes
    alone: bool = False


class ReadLog(ShardEffect, frozen=True):
    """Fetch from the offset, uncommitted transactions too. Comes back as `LogRead`."""

    number: int
    offset: int


class LogReplayed(ShardEffect, frozen=True):
    """Apply these records to the shard's state, in order."""

    records: tuple[Pair, ...]


class OffsetsPending(ShardEffect, frozen=True):
    """Keep these offsets until their transaction ends. Follows each record of transactional offsets that counts, of the
    shard's own too, before the news that it is durable."""

    record: PendingRecord


class TransactionDecided(ShardEffect, frozen=True):
    """Make the transaction's offsets valid, or drop them: a marker of the cluster was read, by the owner too."""

    end: TransactionEnd


class ShardCaughtUp(ShardEffect, frozen=True):
    """The log of a shard that is followed was read to its present end, for the first time since it is followed."""


class LogEndRead(ShardEffect, frozen=True):
    """Continue the requests that waited for a read to the end of the log."""


class StateDropped(ShardEffect, frozen=True):
    """Drop the shard's state: some of it may not be in the log, or the log is replayed from its start."""


class ShardOwned(ShardEffect, frozen=True):
    """Serve the shard: its state is that of the log. `before`: the previous owner, -1 if the log does not record it,
    and the offset of its claim."""

    tag: int
    before: int = -1
    before_tag: int = -1


class KeysToRepair(ShardEffect, frozen=True):
    """Append the present value of each key again, or a tombstone: records of superseded owners follow it in the log,
    and the cleaner would keep those."""

    keys: tuple[bytes, ...]


class WritesDurable(ShardEffect, frozen=True):
    """Everything appended up to this position is in the log, and in each later replay."""

    position: int


class ShardLost(ShardEffect, frozen=True):
    """Stop serving at once: answer NOT_COORDINATOR, and send no reply that waits for a position."""

    reason: str


class ShardHandedOver(ShardEffect, frozen=True):
    """Another node may claim the shard: this node has no request in flight. `tag`: the offset of the claim under which
    the shard was served; -1 if it was not."""

    tag: int = -1

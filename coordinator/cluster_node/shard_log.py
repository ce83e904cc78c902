"""The runtime's interface to a shard's log in the cluster, and the directory that hides a shard's groups while it is
not served here."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.entries import Pair
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC, BootMoment
from coordinator.runtime.group import Group
from coordinator.runtime.outbox import NEVER
from partition_log.errors import AppendError, LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.log.state_snapshots import StateSnapshot
from partition_log.store.limits import Appended
from protocol.record_batch import BatchHeader, decode_records, read_header, record_bytes


class LogClock:
    """The moment of the present step, and the shards whose effects must be taken at its end."""

    def __init__(self, now: BootMoment) -> None:
        self.now = now
        self.changed: dict[int, None] = {}


class Unwritten:
    """Appends of all shards that are not durable yet, at most `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0


class ClusterLog:
    """A `ShardLog` over the protocol of one shard. It replays nothing by itself: what was durable comes as news of the
    protocol, before the shard is served and also while another node serves it."""

    files: PartitionLog | None = None
    start_offset = next_offset = size_bytes = 0

    def __init__(self, protocol: ClusterShard, clock: LogClock, unwritten: Unwritten, max_batch_bytes: int) -> None:
        self.name = f"{OFFSETS_LOG_TOPIC}-{protocol.index}"
        self.protocol = protocol
        self.last = 0
        """Position of the last append."""
        self.encode_pending: Callable[[int, Sequence[Pair]], Pair]
        """Encoder of a commit in a transaction, whose batch has a handle for its producer id."""
        self._clock = clock
        self._max_batch_bytes = max_batch_bytes
        self._unwritten = unwritten
        self._sizes: deque[tuple[int, int]] = deque()

    def append(self, batch: bytes, *, must_fit: bool = True) -> Appended | AppendError:
        """See `ShardLog`. The batch becomes part of one batch of the cluster's, whose brokers limit its size regardless
        of `must_fit`."""
        if len(batch) > self._max_batch_bytes:
            return AppendError.RECORD_TOO_LARGE
        if self._unwritten.bytes + len(batch) > self._unwritten.most_bytes:
            return AppendError.TOO_FAR_BEHIND
        header = read_header(batch)
        records = decode_records(record_bytes(header, batch), header)
        pairs = [(record.key or b"", record.value) for record in records]
        if header.is_transactional:
            pairs = [self.encode_pending(header.producer_id, pairs)]
        position = self.protocol.append(pairs, self._clock.now)
        self._clock.changed[self.protocol.index] = None
        if position is None:
            return AppendError.NOT_OWNED
        self.last = position
        self._sizes.append((position, len(batch)))
        self._unwritten.bytes += len(batch)
        return Appended(-1, -1, position)

    def barrier(self) -> int:
        """Return the position that reads wait for: see `LeasedOutbox`."""
        position = self.protocol.read_position(self._clock.now)
        if position:
            self.last = max(self.last, position)
        if position != 0:
            self._clock.changed[self.protocol.index] = None
        return NEVER if position is None else position

    def written(self, position: int) -> None:
        """Note that the log is durable up to the position; for a lost log, no position is awaited any more."""
        while self._sizes and self._sizes[0][0] <= position:
            self._unwritten.bytes -= self._sizes.popleft()[1]

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """See `ShardLog`."""
        return iter(())

    def bytes_from(self, offset: int) -> int:
        """See `ShardLog`."""
        return 0

    def newest_state_snapshot(self) -> StateSnapshot | None:
        """See `ShardLog`."""
        return None

    def note_damage(self, damage: LogDamaged) -> None:
        """See `ShardLog`."""


class ServedGroups(MutableMapping[str, Group]):
    """One shard's view of the node's directory: its groups are listed there only while the shard is served here."""

    def __init__(self, directory: MutableMapping[str, Group]) -> None:
        self._directory = directory
        self.is_served = False
        """True between `serve` and `withdraw`."""

    def serve(self, groups: Mapping[str, Group]) -> None:
        """List these groups, and new ones, until `withdraw`."""
        self._directory.update(groups)
        self.is_served = True

    def withdraw(self, groups: Mapping[str, Group]) -> None:
        """List neither these groups nor new ones."""
        if self.is_served:
            for group_id in groups:
                self._directory.pop(group_id, None)
        self.is_served = False

    def __getitem__(self, group_id: str) -> Group:
        return self._directory[group_id]

    def __setitem__(self, group_id: str, group: Group) -> None:
        if self.is_served:
            self._directory[group_id] = group

    def __delitem__(self, group_id: str) -> None:
        if self.is_served:
            del self._directory[group_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._directory)

    def __len__(self) -> int:
        return len(self._directory)

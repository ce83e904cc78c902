"""The choice of a record's partition."""

from dataclasses import dataclass

from muster.core.producing.partitioner import partition_of
from muster.core.producing.topics import ProducerTopics


class Placing:
    """Chooses the partition by the key's hash, as Kafka's clients do. Records without a key go to one partition until
    it has got the bytes of a batch, which makes full batches (KIP-480, KIP-794). Partitions without a leader are
    skipped while others have one.
    """

    def __init__(self, first_turn: int, batch_bytes: int) -> None:
        """`first_turn` should differ between producers, since all would begin with the same partition otherwise."""
        self._first_turn = first_turn
        self._batch_bytes = batch_bytes
        self._turns: dict[str, _PartitionRun] = {}

    def place(self, topic: str, key: bytes | None, size: int, count: int, topics: ProducerTopics) -> int:
        """Return the partition of a record with so many bytes, and count them there."""
        if key is not None:
            return partition_of(key, count)
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = _PartitionRun(_with_leader(self._first_turn, topic, count, topics))
        partition = turn.partition
        turn.bytes += size
        if turn.bytes >= self._batch_bytes:
            turn.partition, turn.bytes = _with_leader(partition + 1, topic, count, topics), 0
        return partition


@dataclass(slots=True)
class _PartitionRun:
    partition: int
    bytes: int = 0


def _with_leader(first: int, topic: str, count: int, topics: ProducerTopics) -> int:
    for later in range(count):
        if topics.has_leader(topic, (first + later) % count):
            return (first + later) % count
    return first % count

"""The choice of a record's partition."""

from dataclasses import dataclass

from muster.core.producing.partitioner import partition_of
from muster.core.producing.topics import ProducerTopics


class Placing:
    """By the key's hash as Kafka's clients place it; without a key, a partition keeps its turn until a batch's worth of
    bytes went there, which makes full batches (KIP-480, KIP-794). Partitions without a leader are passed over while
    others have one.
    """

    def __init__(self, first_turn: int, batch_bytes: int) -> None:
        """`first_turn` is to differ between producers, else all begin with the same partition."""
        self._first_turn = first_turn
        self._batch_bytes = batch_bytes
        self._turns: dict[str, _Turn] = {}

    def place(self, topic: str, key: bytes | None, size: int, count: int, topics: ProducerTopics) -> int:
        """Return where a record of so many bytes goes; it counts as gone there."""
        if key is not None:
            return partition_of(key, count)
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = _Turn(_with_leader(self._first_turn, topic, count, topics))
        partition = turn.partition
        turn.bytes += size
        if turn.bytes >= self._batch_bytes:
            turn.partition, turn.bytes = _with_leader(partition + 1, topic, count, topics), 0
        return partition


@dataclass(slots=True)
class _Turn:
    partition: int
    bytes: int = 0


def _with_leader(first: int, topic: str, count: int, topics: ProducerTopics) -> int:
    for later in range(count):
        if topics.has_leader(topic, (first + later) % count):
            return (first + later) % count
    return first % count

"""Which partition a record goes to."""

from muster.partitioner import partition_of
from muster.producing.topics import Topics


class Placing:
    """By the key's hash as Kafka's clients place it; without a key, a partition keeps its turn until a batch's worth of
    bytes went there, which makes full batches (KIP-480, KIP-794). Partitions without a leader are passed over while
    others have one.
    """

    def __init__(self, first_turn: int, batch_bytes: int) -> None:
        """`first_turn` is to differ between producers, else all begin with the same partition."""
        self._first_turn = first_turn
        self._batch_bytes = batch_bytes
        self._turns: dict[str, tuple[int, int]] = {}  # topic -> turn, bytes so far

    def partition(self, topic: str, key: bytes | None, count: int, topics: Topics) -> int:
        if key is not None:
            return partition_of(key, count)
        turn = self._turns.get(topic, (self._first_turn, 0))[0]
        for later in range(count):
            if topics.has_leader(topic, (turn + later) % count):
                return (turn + later) % count
        return turn % count

    def placed(self, topic: str, size: int) -> None:
        """A record of so many bytes went where `partition` said, for want of a key."""
        turn, so_far = self._turns.get(topic, (self._first_turn, 0))
        so_far += size
        self._turns[topic] = (turn + 1, 0) if so_far >= self._batch_bytes else (turn, so_far)

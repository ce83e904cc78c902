"""Records without an outcome yet: in batches, by partition, up to a number of bytes."""

from membership.topic_partition import TopicPartition
from muster.core.producing.batch import Pending, ProducerBatch
from muster.core.producing.queue import Queue
from muster.core.producing.settings import ProducerSettings


class ProducerBuffer:
    """`busy` are the queues with pending batches, the last served one at the end. `is_exhausted`: a sender waits for
    space, so that no batch may linger.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self.busy: dict[TopicPartition, Queue] = {}
        self.bytes = 0
        self.is_exhausted = False
        self._settings = settings
        self._queues: dict[tuple[str, int], Queue] = {}
        self._round = 0
        self._rounds: dict[int, int] = {}  # batches without an outcome, by the flush that waits for them

    def has_room(self, size: int) -> bool:
        """Return true if there is room for so many bytes; an empty buffer always has room for one record."""
        return not self.bytes or self.bytes + size <= self._settings.buffer_memory_bytes

    def measured(self) -> dict[str, float]:
        """Return the buffer's metrics, by Kafka's names."""
        total = self._settings.buffer_memory_bytes
        return {"buffer-total-bytes": total, "buffer-available-bytes": max(total - self.bytes, 0)}

    def queue(self, topic: str, partition: int) -> Queue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            one = TopicPartition(topic, partition)
            queue = self._queues[one] = Queue(one, self._settings.window)
        return queue

    def add(self, queue: Queue, record: Pending, size: int, now_ms: int) -> bool:
        """Add a record; return true if a batch was begun or filled."""
        most = self._settings.batch_bytes
        batch = queue.open_batch()
        if batch is not None and batch.bytes + size > most:
            batch.is_closed, batch = True, None
        is_new = batch is None
        if batch is None:
            batch = self._begin(queue, now_ms)
        batch.records.append(record)
        batch.bytes += size
        self.bytes += size
        if batch.bytes >= most:
            batch.is_closed = is_new = True
        return is_new

    def close_batches(self) -> int:
        """Close all open batches. Return the number for `is_flushed`."""
        for queue in self.busy.values():
            batch = queue.open_batch()
            if batch is not None:
                batch.is_closed = True
        self._round += 1
        return self._round

    def is_flushed(self, number: int) -> bool:
        """Return true if all records added before that `close_batches` have an outcome."""
        return all(one >= number for one in self._rounds)

    def split(self, queue: Queue, batch: ProducerBatch) -> None:
        first, second = queue.split(batch)
        self.bytes += first.bytes + second.bytes - batch.bytes
        self._rounds[batch.flush_round] += 1

    def end(self, queue: Queue, batch: ProducerBatch) -> None:
        """Drop a batch with an outcome."""
        self.bytes -= batch.bytes
        self.is_exhausted = False
        self._rounds[batch.flush_round] -= 1
        if not self._rounds[batch.flush_round]:
            del self._rounds[batch.flush_round]
        self.settle(queue)

    def settle(self, queue: Queue) -> None:
        """Drop a queue without pending batches."""
        if not queue.batches and not queue.is_renewing:
            self.busy.pop(queue.topic_partition, None)

    def serve_last(self, queue: Queue) -> None:
        """Move the queue to the end, so that the others are served first."""
        self.busy[queue.topic_partition] = self.busy.pop(queue.topic_partition)

    def _begin(self, queue: Queue, now_ms: int) -> ProducerBatch:
        batch = ProducerBatch(now_ms, self._round)
        queue.batches.append(batch)
        self.busy[queue.topic_partition] = queue
        self._rounds[self._round] = self._rounds.get(self._round, 0) + 1
        self.bytes += batch.bytes
        return batch

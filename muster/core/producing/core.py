"""The producer's core: records in, calls and outcomes of records out."""

from collections.abc import Iterable
from operator import index

import msgspec

from membership.checks import check_name
from membership.events import CallFailed, Departed, HangUp, MemberEffect, MemberEvent, NodeAddress, Replied, SendRequest
from membership.topic_partition import TopicPartition
from muster.core.producing.answers import ProduceAnswer, answers_of
from muster.core.producing.batch import NOBODY, Pending, ProducerBatch, ProducerId, size_of
from muster.core.producing.buffer import ProducerBuffer
from muster.core.producing.effects import Delivered, Undelivered
from muster.core.producing.placing import Placing
from muster.core.producing.queue import Queue
from muster.core.producing.settings import MOST_IN_FLIGHT, ProducerSettings
from muster.core.producing.topics import ProducerTopics
from muster.core.producing.transactions import Transactions
from muster.errors import MusterError, Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    InitProducerId,
    InitProducerIdReply,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.topics import Metadata, MetadataReply

NOT_KNOWN, NO_ROOM = -1, -2

Picked = list[tuple[Queue, ProducerBatch]]

OUT_OF_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_WANTS_ID = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_SAYS_NOTHING = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which a batch may or may not be in the log."""
_SAME_LEADER = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.CORRUPT_MESSAGE})


class _SentProduce(msgspec.Struct, frozen=True):
    message: type[Message]
    node: NodeAddress | None
    deadline_ms: int
    picked: Picked


class Producing:
    """Batches appended records and sends them to the partitions' leaders (docs/spec/consumer-client.md#C; KIP-98,
    KIP-360). If it is idempotent, each record that is `Delivered` is in the log once, and records of a partition are in
    the order in which they were appended. Otherwise records whose reply was lost may be stored twice.
    """

    def __init__(self, settings: ProducerSettings, first_turn: int = 0) -> None:
        """`first_turn`: first partition for records without a key, which should differ between producers."""
        self.wants_step = False
        self.transactions: Transactions | None = None
        self._settings = settings
        self._topics = ProducerTopics(settings)
        self._placing = Placing(first_turn, settings.batch_bytes)
        self._buffer = ProducerBuffer(settings)
        self.measured = self._buffer.measured
        self._largest = min(settings.max_request_bytes, settings.buffer_memory_bytes)
        self._producer: ProducerId | None = None
        self._wants_id = False
        self._id_at_ms = self._id_failures = 0
        self._sent: dict[int, _SentProduce] = {}
        self._in_flight: dict[NodeAddress, int] = {}
        self._calls_made = 0
        self._now_ms = 0
        self._due_ms: int | None = None
        self._effects: list[MemberEffect] = []

    # -- records

    def append(self, topic: str, partition: int | None, record: Pending, now_ms: int) -> int:
        """Take a record for `partition`, or for the one chosen by its key or in turn; return the partition. `NOT_KNOWN`
        or `NO_ROOM`: the record was not taken, since the topic is unknown or the buffer is full; the next step acts on
        that. If `wants_step` is set afterwards, call `step` soon. Raises `Refused` for a topic that cannot be written
        to or a record larger than a request may be, ValueError for a partition that does not exist.
        """
        count = self._topics.partition_count(topic)
        if count is None:
            if not self._topics.is_wanted(check_name("a topic", topic)):
                self._topics.want(topic, now_ms)
                self.wants_step = True
            return NOT_KNOWN
        size = size_of(record.key, record.value, record.headers)
        if partition is not None and not 0 <= (partition := index(partition)) < count:
            raise ValueError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if size > self._largest:
            sentence = f"a record of {size} bytes for topic {topic!r}, and a request has at most {self._largest} "
            sentence += "(max_request_bytes, and buffer_memory_bytes)"
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, sentence)
        if not self._buffer.has_room(size):
            self.wants_step = self.wants_step or not self._buffer.is_exhausted
            self._buffer.is_exhausted = True
            return NO_ROOM
        if partition is None:
            partition = self._placing.place(topic, record.key, size, count, self._topics)
        queue = self._buffer.queue(topic, partition)
        if self._buffer.add(queue, record, size, now_ms):
            self._topics.refresh(topic, now_ms)
            self._want_step(queue.topic_partition)
        return partition

    def close_batches(self) -> int:
        """Send all appended records with the next step. Return the number for `is_flushed`."""
        self.wants_step = True
        return self._buffer.close_batches()

    def is_flushed(self, number: int) -> bool:
        """Return true if all records appended before that `close_batches` are delivered or given up."""
        return self._buffer.is_flushed(number)

    def _want_step(self, one: TopicPartition) -> None:
        """Request a step, for sending or for setting the timer; not needed if the node has as many requests in flight
        as allowed, since their replies cause one."""
        node = self._topics.leader(one)
        if node is None or self._in_flight.get(node, 0) < MOST_IN_FLIGHT:
            self.wants_step = True

    def abandon(self, error: MusterError) -> None:
        """Give up all undelivered records; the next step reports them."""
        for queue in tuple(self._buffer.busy.values()):
            for batch in tuple(queue.batches):
                if not batch.is_over:
                    self._give_up(queue, batch, error)
        self.wants_step = True

    # -- driving

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Handle a reply or the passing of time (`TimePassed`); return requests for ready batches, and outcomes."""
        self._now_ms = max(now_ms, self._now_ms)
        self.wants_step = False
        if isinstance(event, Replied | CallFailed):
            self._on_reply(event.call, event.reply if isinstance(event, Replied) else None)
        elif isinstance(event, Departed):
            self._on_departed(event.call)
        for number, sent in tuple(self._sent.items()):
            if sent.deadline_ms <= self._now_ms:
                self._effects.append(HangUp(sent.node))
                self._on_reply(number, None)
        for queue in tuple(self._buffer.busy.values()):
            self._expire(queue)
        self._plan()
        effects, self._effects = self._effects, []
        # Requests first: a callback of a record may send the next one at once, whose request must not overtake these.
        effects.sort(key=lambda effect: isinstance(effect, Delivered | Undelivered))
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def _expire(self, queue: Queue) -> None:
        """Give up expired batches: the first of a queue is the oldest one without an outcome."""
        oldest_ms = self._now_ms - self._settings.delivery_timeout_ms
        while queue.batches and queue.batches[0].began_ms <= oldest_ms:
            batch = queue.batches[0]
            self._give_up(queue, batch, self._too_late(queue, batch))
        if queue.can_renew and self.transactions is None:
            for batch in queue.doubtful():
                sentence = f"{queue.topic_partition}: one before it was given up, and it may be stored or not"
                queue.finish(batch)
                self._end(queue, batch, Undelivered(queue.topic_partition, batch.handles(), RequestTimedOut(sentence)))
            if queue.renew():
                self._producer = None
            self._buffer.settle(queue)

    def _too_late(self, queue: Queue, batch: ProducerBatch) -> RequestTimedOut:
        waited = f"{queue.topic_partition}: not acknowledged within {self._settings.delivery_timeout_ms} ms"
        heard = f" ({batch.failure})" if batch.failure else ""
        may_be = "; it may be stored or not" if batch.may_be_stored or batch.call is not None else ""
        return RequestTimedOut(waited + heard + may_be)

    def _give_up(self, queue: Queue, batch: ProducerBatch, error: MusterError) -> None:
        queue.give_up(batch)
        self._end(queue, batch, Undelivered(queue.topic_partition, batch.handles(), error))

    def _end(self, queue: Queue, batch: ProducerBatch, effect: Delivered | Undelivered) -> None:
        """End a batch, with its outcome."""
        self._effects.append(effect)
        self._buffer.end(queue, batch)

    # -- requests

    def _plan(self) -> None:
        self._due_ms = None
        while picked := self._pick():
            for node, batches in picked.items():
                self._produce(node, batches)
        if self._wants_id and not self._is_asking(InitProducerId):
            if self._id_at_ms <= self._now_ms:
                self._call(InitProducerId(), self._topics.id_giver(self._id_failures), [])
            else:
                self._due(self._id_at_ms)
        ask_at_ms = self._topics.ask_at_ms
        if ask_at_ms is not None and not self._is_asking(Metadata):
            if ask_at_ms <= self._now_ms:
                self._call(self._topics.request(), None, [])
            else:
                self._due(ask_at_ms)
        for sent in self._sent.values():
            self._due(sent.deadline_ms)
        for queue in self._buffer.busy.values():
            if queue.batches:
                self._due(queue.batches[0].began_ms + self._settings.delivery_timeout_ms)

    def _due(self, at_ms: int) -> None:
        if self._due_ms is None or at_ms < self._due_ms:
            self._due_ms = at_ms

    def _is_asking(self, kind: type[Message]) -> bool:
        return any(sent.message is kind for sent in self._sent.values())

    def _pick(self) -> dict[NodeAddress, Picked]:
        """Return for each node that is free a batch of each partition with a ready one, as many as fit a request."""
        picked: dict[NodeAddress, Picked] = {}
        used: dict[NodeAddress, int] = {}
        for queue in self._buffer.busy.values():
            batch = queue.next_to_send(self._now_ms)
            if batch is None or not self._is_ready(batch) or not self._has_id(queue):
                continue
            node = self._topics.leader(queue.topic_partition)
            if node is None:
                self._topics.want(queue.topic_partition.topic, self._now_ms)
                continue
            size = used.get(node, 0) + batch.bytes
            if self._in_flight.get(node, 0) >= MOST_IN_FLIGHT or (
                node in used and size > self._settings.max_request_bytes
            ):
                continue
            used[node] = size
            picked.setdefault(node, []).append((queue, batch))
        return picked

    def _is_ready(self, batch: ProducerBatch) -> bool:
        ready_at_ms = batch.retry_at_ms
        if not batch.is_closed and not self._buffer.is_exhausted:
            ready_at_ms = max(ready_at_ms, batch.began_ms + self._settings.linger_ms)
        if ready_at_ms > self._now_ms:
            self._due(ready_at_ms)
            return False
        return True

    def _has_id(self, queue: Queue) -> bool:
        if self._settings.is_idempotent and queue.producer is NOBODY:
            if self._producer is None:
                self._wants_id = True
                return False
            queue.producer = self._producer
        return True

    def _produce(self, node: NodeAddress, picked: Picked) -> None:
        topics: dict[str, list[ProducePartition]] = {}
        for queue, batch in picked:
            queue.send(batch, self._calls_made + 1)
            one = queue.topic_partition
            data = batch.encode(self._settings.compression, queue.producer, transactional=self.transactions is not None)
            topics.setdefault(one.topic, []).append(ProducePartition(one.partition, data))
            self._buffer.serve_last(queue)
        message = Produce(
            tuple(ProduceTopic(name, tuple(parts)) for name, parts in topics.items()),
            self._settings.acks,
            self._settings.request_timeout_ms,
            self._settings.transactional_id,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        self._call(message, node, picked)

    def _call(self, message: Message, node: NodeAddress | None, picked: Picked) -> None:
        self._calls_made += 1
        deadline_ms = self._now_ms + self._settings.request_timeout_ms
        self._sent[self._calls_made] = _SentProduce(type(message), node, deadline_ms, picked)
        self._effects.append(SendRequest(self._calls_made, node, message))

    # -- replies

    def _on_reply(self, call: int, reply: Message | None) -> None:
        """Handle a reply; None if there will be none."""
        sent = self._sent.pop(call, None)
        if sent is None:
            return
        if sent.message is Metadata:
            if isinstance(reply, MetadataReply):
                self._topics.on_metadata(reply, self._now_ms)
            else:
                self._topics.ask_later(self._now_ms)
                self._effects.append(HangUp(None))
        elif sent.message is InitProducerId:
            self._on_producer_id(reply, sent.node)
        elif sent.node is not None:
            self._in_flight[sent.node] -= 1
            answers = answers_of(reply)
            for queue, batch in sent.picked:
                self._on_batch(queue, batch, answers(queue.topic_partition))

    def _on_departed(self, call: int) -> None:
        """End a batch with acks=0 that was sent. If its connection was lost before, it is sent again, as with other
        acks."""
        sent = self._sent.pop(call, None)
        if sent is not None and sent.node is not None:
            self._in_flight[sent.node] -= 1
            for queue, batch in sent.picked:
                self._on_batch(queue, batch, ProduceAnswer(ErrorCode.NONE))

    def _on_producer_id(self, reply: Message | None, node: NodeAddress | None) -> None:
        code = getattr(reply, "error_code", ErrorCode.NETWORK_EXCEPTION)
        if isinstance(reply, InitProducerIdReply) and code == ErrorCode.NONE:
            self._producer = ProducerId(reply.producer_id, reply.producer_epoch)
            self._wants_id, self._id_failures = False, 0
        elif code.retriable:
            self._id_at_ms = self._now_ms + self._settings.backoff_ms(self._id_failures)
            self._id_failures += 1
            self._effects.append(HangUp(node))
        else:
            self._wants_id = False
            sentence = (
                f"no producer id was given ({code.name}): the server does not serve idempotent producers, or not this"
                " one. With enable_idempotence=False records are written without"
            )
            for queue, batch in self._without_id():
                self._give_up(queue, batch, Refused(code, sentence))

    def _without_id(self) -> Iterable[tuple[Queue, ProducerBatch]]:
        queues = [queue for queue in self._buffer.busy.values() if queue.producer is NOBODY]
        return [(queue, batch) for queue in queues for batch in queue.batches if not batch.is_over]

    def _on_batch(self, queue: Queue, batch: ProducerBatch, answer: ProduceAnswer) -> None:
        queue.answered(batch)
        code = answer.code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            was_over = batch.is_over
            queue.acknowledged(batch, self._now_ms)
            if not was_over:
                told = Delivered(queue.topic_partition, batch.handles(), answer.base_offset, answer.append_time_ms)
                self._end(queue, batch, told)
        elif not batch.is_over:
            batch.failure = answer.sentence or code.name
            batch.may_be_stored = batch.may_be_stored or code in _SAYS_NOTHING or not code.is_known
            if code.retriable and code not in _SAME_LEADER:
                self._topics.doubt(queue.topic_partition, self._now_ms)
            self._try_again(queue, batch, code)

    def _try_again(self, queue: Queue, batch: ProducerBatch, code: ErrorCode) -> None:
        if code in OUT_OF_SEQUENCE and batch.sequence >= 0:
            # After another unanswered batch, the error only shows that this request did not store the batch.
            if batch.went_first and batch.may_be_stored:
                self._refuse(queue, batch, code)
            elif batch.went_first:
                queue.want_epoch(batch, wants_id=code in _WANTS_ID)
                self._wait(batch)
        elif code in _TOO_LARGE and len(batch.records) > 1:
            self._buffer.split(queue, batch)
        elif code.retriable:
            self._wait(batch)
        else:
            self._refuse(queue, batch, code)

    def _refuse(self, queue: Queue, batch: ProducerBatch, code: ErrorCode) -> None:
        sentence = f"{queue.topic_partition} did not take the records: {batch.failure}"
        if code in _TOO_LARGE:
            sentence += " (max.message.bytes of the topic)"
        may_be = "; what was sent of them before may be stored" if batch.may_be_stored else ""
        self._give_up(queue, batch, Refused(code, sentence + may_be))

    def _wait(self, batch: ProducerBatch) -> None:
        batch.retry_at_ms = self._now_ms + self._settings.backoff_ms(batch.failures)
        batch.failures += 1

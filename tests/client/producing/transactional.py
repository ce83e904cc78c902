"""Brokers with transactions for one producer: the coordinators of its id and of its group, and logs in which a record
is visible once its transaction is committed."""

from typing import Any

from membership.topic_partition import TopicPartition
from muster.core.producing import TransactionalProducing
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import InitProducerId, InitProducerIdReply, Produce, ProducePartitionReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import (
    OffsetCommitPartitionReply,
    OffsetCommitTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
)
from protocol.messages.transactions import (
    AddedPartition,
    AddedTopic,
    AddOffsetsToTxn,
    AddOffsetsToTxnReply,
    AddPartitionsToTxn,
    AddPartitionsToTxnReply,
    EndTxn,
    EndTxnReply,
)
from protocol.record_batch import TRANSACTIONAL, read_header
from tests.client.producing.rig import Brokers, ProducerRig

_ID = 7


class TransactionalBrokers(Brokers):
    """`coordinator` and `group_coordinator` are ports of nodes; `refuse` has errors to return, by request, once
    each."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.coordinator, self.group_coordinator = 1, 2
        self.refuse: dict[type[Message], list[ErrorCode]] = {}
        self.epoch = -1
        self.open: set[object] = set()
        """Partitions and groups of the open transaction."""
        self.state = "Empty"
        self.offsets: dict[TopicPartition, int] = {}
        self._pending: dict[TopicPartition, int] = {}
        self._before: dict[TopicPartition, int] = dict.fromkeys(self.logs, 0)
        self.counting: dict[TopicPartition, list[str]] = {one: [] for one in self.logs}
        """Values of committed transactions."""
        self.commits: list[TxnOffsetCommit] = []
        self._stored: dict[tuple[TopicPartition, int], dict[int, int]] = {}
        self._next: dict[tuple[TopicPartition, int], int] = {}

    def answer(self, node: int, message: Message) -> Message:
        match message:
            case FindCoordinator():
                port = self.coordinator if message.key_type else self.group_coordinator
                (key,) = message.coordinator_keys
                return FindCoordinatorReply((FoundCoordinator(key, port, "host", port),))
            case InitProducerId():
                return self._init(node, message)
            case AddPartitionsToTxn():
                error = self._error(node, message)
                if not error:
                    self._add(
                        TopicPartition(topic.name, index) for topic in message.topics for index in topic.partitions
                    )
                return AddPartitionsToTxnReply(
                    tuple(
                        AddedTopic(topic.name, tuple(AddedPartition(index, error) for index in topic.partitions))
                        for topic in message.topics
                    )
                )
            case AddOffsetsToTxn():
                error = self._error(node, message)
                if not error:
                    self._add([message.group_id])
                return AddOffsetsToTxnReply(error)
            case TxnOffsetCommit():
                return self._commit_offsets(node, message)
            case EndTxn():
                return EndTxnReply(self._end(node, message))
            case Produce():
                assert message.transactional_id == "x"
        return super().answer(node, message)

    def _error(self, node: int, message: Any) -> ErrorCode:
        if self.refuse.get(type(message)):
            return self.refuse[type(message)].pop(0)
        if node != self.coordinator:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if message.producer_epoch == self.epoch else ErrorCode.PRODUCER_FENCED

    def _init(self, node: int, message: InitProducerId) -> InitProducerIdReply:
        if self.refuse.get(InitProducerId):
            return InitProducerIdReply(self.refuse[InitProducerId].pop(0))
        if node != self.coordinator:
            return InitProducerIdReply(ErrorCode.NOT_COORDINATOR)
        if message.producer_id >= 0 and message.producer_epoch not in {self.epoch, self.epoch - 1}:
            return InitProducerIdReply(ErrorCode.PRODUCER_FENCED)
        if message.producer_id < 0 or message.producer_epoch == self.epoch:
            self._decide(is_committed=False)
            self.epoch += 1
            self.state = "Empty"
        return InitProducerIdReply(ErrorCode.NONE, _ID, self.epoch)

    def _add(self, parts: Any) -> None:
        self.open.update(parts)
        self.state = "Ongoing"

    def _commit_offsets(self, node: int, message: TxnOffsetCommit) -> TxnOffsetCommitReply:
        error = ErrorCode.NONE
        if self.refuse.get(TxnOffsetCommit):
            error = self.refuse[TxnOffsetCommit].pop(0)
        elif node != self.group_coordinator:
            error = ErrorCode.NOT_COORDINATOR
        elif message.producer_epoch != self.epoch:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        else:
            assert message.group_id in self.open
            self.commits.append(message)
            for topic in message.topics:
                for part in topic.partitions:
                    self._pending[TopicPartition(topic.name, part.partition_index)] = part.committed_offset
        return TxnOffsetCommitReply(
            tuple(
                OffsetCommitTopicReply(
                    topic.name,
                    tuple(OffsetCommitPartitionReply(one.partition_index, error) for one in topic.partitions),
                )
                for topic in message.topics
            )
        )

    def _end(self, node: int, message: EndTxn) -> ErrorCode:
        if error := self._error(node, message):
            return error
        wanted = "Committed" if message.committed else "Aborted"
        if self.state == wanted:
            return ErrorCode.NONE
        if self.state != "Ongoing":
            return ErrorCode.INVALID_TXN_STATE
        self._decide(is_committed=message.committed)
        self.state = wanted
        return ErrorCode.NONE

    def _decide(self, *, is_committed: bool) -> None:
        for one, log in self.logs.items():
            if is_committed:
                self.counting[one] += log.values[self._before[one] :]
            self._before[one] = len(log.values)
        if is_committed:
            self.offsets.update(self._pending)
        self._pending.clear()
        self.open.clear()

    def _put(self, node: int, one: TopicPartition, data: bytes) -> ProducePartitionReply:
        header = read_header(data)
        assert header.attributes & TRANSACTIONAL and header.producer_id == _ID
        if header.producer_epoch != self.epoch:
            return ProducePartitionReply(one.partition, ErrorCode.INVALID_PRODUCER_EPOCH)
        log = self.logs[one]
        if log.leader != node:
            return ProducePartitionReply(one.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        # Muster's own logs do not check sequences of transactions, so this rig does.
        stored = self._stored.setdefault((one, self.epoch), {})
        if header.base_sequence in stored:
            return ProducePartitionReply(one.partition, ErrorCode.NONE, stored[header.base_sequence])
        if header.base_sequence != self._next.get((one, self.epoch), 0):
            return ProducePartitionReply(one.partition, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert one in self.open, "a record of a partition that was not added"
        put = super()._put(node, one, data)
        stored[header.base_sequence] = put.base_offset
        self._next[one, self.epoch] = header.base_sequence + header.record_count
        return put


class TransactionRig(ProducerRig):
    """The producer of transactional id `x`."""

    brokers: TransactionalBrokers

    def __init__(self, partitions: int = 2, **settings: Any) -> None:
        super().__init__(partitions, transactional_id="x", **settings)
        self.brokers = TransactionalBrokers(partitions)
        self.core: TransactionalProducing = TransactionalProducing(self.settings)
        assert self.core.transactions is not None
        self.transactions = self.core.transactions

    def begin(self) -> "TransactionRig":
        self.transactions.begin()
        self.wake()
        self.answer_all()
        assert self.transactions.ready()
        return self

    def know_topic(self) -> "TransactionRig":
        self.ready()
        return self

    def answer_all(self) -> None:
        """Answer as nodes would, and let pauses pass, until no request is pending."""
        for _ in range(200):
            while self.calls:
                self.answer(type(next(iter(self.calls.values())).message))
            if not self.transactions.wants_request and not self.core.is_writing:
                return
            self.wake(max((self.core.next_deadline_ms or self.now_ms) - self.now_ms, 0))
        raise AssertionError("it never comes to rest")

    def flush_all(self) -> None:
        number = self.core.close_batches()
        self.wake()
        self.answer_all()
        assert self.core.is_flushed(number) or self.transactions.failure is not None

    def end(self, *, commit: bool) -> None:
        self.transactions.end(commit=commit)
        self.wake()
        self.answer_all()

    def counting(self, partition: int = 0) -> list[str]:
        return self.brokers.counting[TopicPartition("t", partition)]

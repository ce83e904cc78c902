"""Clients' transactions in worlds of served nodes: each commits the offset of one group, number after number, in a
transaction of its own, and reads it back. A stable offset is that of the last transaction that was committed, exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coordinator.clock import Moment
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.gateway.cluster.transactions import TransactionCalls
from coordinator.gateway.upstream_requests import BrokerRequest, Continuation, DelayedUpstreamRequest, PendingRequest
from coordinator.node.events import Event
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)
from protocol.messages.transactions import (
    AddedPartition,
    AddedTopic,
    AddOffsetsToTxn,
    AddOffsetsToTxnReply,
    AddPartitionsToTxn,
    AddPartitionsToTxnReply,
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactions,
    DescribeTransactionsReply,
)
from protocol.session import RequestRef
from tests.cluster_log.test_transactions import marker
from tests.simulation.cluster.node import SimNode
from tests.simulation.cluster.partition import Partition
from tests.simulation.cluster.served import TOPIC, ServedNode, ServedWorld, group_of
from tests.simulation.cluster.world import SHARDS, TIMEOUT_MS
from tests.simulation.errors import Broken

_PATIENCE_MS = 3_000
_RETRY_MS = 100
_TRIES = 5


class Answered(Event):
    """An answer of a broker, for the operation that waits in the node."""

    go_on: Callable[[Moment], None]


@dataclass(slots=True)
class Transaction:
    """A producer's present transaction, as its coordinator knows it."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    partitions: set[int] = field(default_factory=set)


class Coordinator:
    """Transaction coordinator of the cluster. It writes markers once partitions have leaders, and again until all
    replicas have them."""

    def __init__(self, world: "TransactedWorld") -> None:
        self._world = world
        self._known: dict[str, Transaction] = {}

    def init(self, name: str) -> Transaction:
        """Return the next epoch; end the open transaction."""
        known = self._known.setdefault(name, Transaction(9_000 + len(self._known)))
        known.epoch += 1
        if known.state == "Ongoing":
            self._end(known, is_committed=False)
        return known

    def end(self, name: str, *, is_committed: bool) -> None:
        self._end(self._known[name], is_committed=is_committed)

    def answer(self, message: Message) -> Message:
        """Answer a node."""
        if isinstance(message, FindCoordinator):
            return FindCoordinatorReply((FoundCoordinator(message.coordinator_keys[0], 1, "b", 1),))
        if isinstance(message, AddPartitionsToTxn):
            known, shard = self._known[message.transactional_id], message.topics[0].partitions[0]
            error = self._add(known, message, shard)
            return AddPartitionsToTxnReply((AddedTopic(OFFSETS_LOG_TOPIC, (AddedPartition(shard, error),)),))
        assert isinstance(message, DescribeTransactions)
        (name,) = message.transactional_ids
        known = self._known[name]
        topics = (DescribedTransactionTopic(OFFSETS_LOG_TOPIC, tuple(known.partitions)),)
        told = DescribedTransaction(ErrorCode.NONE, name, known.state, 1, 1, known.producer_id, known.epoch, topics)
        return DescribeTransactionsReply((told,))

    def _add(self, known: Transaction, message: AddPartitionsToTxn, shard: int) -> ErrorCode:
        if message.producer_epoch != known.epoch:
            return ErrorCode.PRODUCER_FENCED
        if known.state.startswith("Prepare"):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        known.state = "Ongoing"
        known.partitions.add(shard)
        return ErrorCode.NONE

    def _end(self, known: Transaction, *, is_committed: bool) -> None:
        known.state = "PrepareCommit" if is_committed else "PrepareAbort"
        written = marker(is_committed=is_committed, producer_id=known.producer_id)
        for shard in list(known.partitions):
            self._world.after(self._world.marker_ms(), lambda shard=shard: self._mark(known, shard, written))  # type: ignore[misc]
        if not known.partitions:
            known.state = "Empty"

    def _mark(self, known: Transaction, shard: int, written: bytes) -> None:
        partition: Partition = self._world.partition(shard)
        if self._world.now_ms < partition.away_until_ms:
            self._world.after(20, lambda: self._mark(known, shard, written))
            return
        base, leader = partition.end, partition.leader
        partition.mark(written, self._world.now_ms)

        def wait() -> None:
            if partition.leader != leader:
                self._mark(known, shard, written)
            elif partition.committed <= base:
                self._world.after(5, wait)
            else:
                known.partitions.discard(shard)
                if not known.partitions:
                    known.state = "Complete"

        wait()


class TransactedNode(ServedNode):
    """A process with a node that takes commits in transactions."""

    _world: "TransactedWorld"

    def _make_shards(self, *arguments: Any) -> Any:
        shards = super()._make_shards(*arguments)
        calls = TransactionCalls(self.node.core, self._side, self._ask)
        serving = self.node.serving
        serving.handlers = {**serving.handlers, AddOffsetsToTxn: calls.add_offsets, TxnOffsetCommit: calls.commit}
        self.node.handlers[Answered] = lambda event, moment: event.go_on(moment)
        return shards

    def _ask(
        self, request: BrokerRequest, ref: RequestRef, message: Message, moment: Moment, go_on: Continuation
    ) -> bool:
        asked, broker = request
        delayed = DelayedUpstreamRequest(1, {1: PendingRequest(asked, broker, 0)}, 0, ref, message)

        def answered(reply: Message | None) -> None:
            delayed.answers[1] = reply
            self._step(Answered(lambda at: go_on(delayed, at)))
            self._look()

        self._world.ask_coordinator(self, asked, answered)
        return True

    def ask(self, message: Message, answer: Callable[[Message], None]) -> None:
        """Serve a client's request."""
        self._call(message, answer)
        self._look()


class TransactedWorld(ServedWorld):
    """A world of such nodes, with a client of transactions for each shard."""

    make_node = TransactedNode

    def __init__(self, seed: int, *arguments: Any) -> None:
        self._delay = Random(f"markers {seed}")
        self._longest_ms = self._delay.choice((2, 20, 400))
        self.coordinator = Coordinator(self)
        super().__init__(seed, *arguments)
        self.clients = [TransactionalClient(self, shard, Random(f"client {seed} {shard}")) for shard in range(SHARDS)]
        for client in self.clients:
            self.after(500, client.begin)

    def partition(self, shard: int) -> Partition:
        return self._partitions[shard]

    def marker_ms(self) -> int:
        """Return how long the coordinator takes for its next marker."""
        return self._delay.randrange(1, 1 + self._longest_ms)

    def ask_coordinator(self, node: SimNode, message: Message, answer: Callable[[Message | None], None]) -> None:
        """Carry a node's request to the coordinator, and the answer back; None if one of them is lost."""
        is_over = False

        def once(reply: Message | None) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                node.when_awake(lambda: answer(reply))

        def serve() -> None:
            reply = self.coordinator.answer(message)
            if not self._is_lost() and not self._is_cut(node, "from brokers"):
                self.after(self._latency_ms(), lambda: once(reply))

        if not self._is_lost() and not self._is_cut(node, "to brokers"):
            self.after(self._latency_ms(), serve)
        self.after(TIMEOUT_MS, lambda: once(None))

    def _calm(self) -> None:
        super()._calm()
        self._ended_before = [client.ended for client in self.clients]

    def _must_have_settled(self) -> None:
        super()._must_have_settled()
        for client, before in zip(self.clients, self._ended_before, strict=True):
            if client.ended <= before:
                raise Broken(f"transactions of {client.name} do not end any more")


class TransactionalClient:
    """Commits the next number in a transaction, ends it, and reads until the offset is stable."""

    def __init__(self, world: TransactedWorld, shard: int, random: Random) -> None:
        self.name = f"{shard}/txn"
        self.ended = 0
        self._world, self._shard, self._random = world, shard, random
        self._group = group_of(self.name, SHARDS)
        self._number = self._committed = self._asked = 0
        self._transaction = world.coordinator.init(self.name)
        self._was_unanswered = False

    def begin(self) -> None:
        """Begin a transaction, with a new epoch if a request of the one before may still be in flight."""
        if self._was_unanswered:
            self._transaction = self._world.coordinator.init(self.name)
            self._was_unanswered = False
        self._number += 1
        self._add()

    def _add(self) -> None:
        asked = AddOffsetsToTxn(self.name, *self._producer, self._group)

        def added(reply: Message | None) -> None:
            if isinstance(reply, AddOffsetsToTxnReply) and not reply.error_code:
                self._commit(_TRIES)
            else:
                self._was_unanswered = self._was_unanswered or reply is None
                self._world.after(_RETRY_MS, self._add)

        self._send(asked, added)

    @property
    def _producer(self) -> tuple[int, int]:
        return self._transaction.producer_id, self._transaction.epoch

    def _commit(self, tries: int) -> None:
        topics = (TxnOffsetCommitTopic(TOPIC, (TxnOffsetCommitPartition(0, self._number),)),)

        def committed(reply: Message | None) -> None:
            self._was_unanswered = self._was_unanswered or reply is None
            if isinstance(reply, TxnOffsetCommitReply) and not reply.topics[0].partitions[0].error_code:
                self._end(is_committed=self._random.random() < 0.7)
            elif tries:
                self._world.after(_RETRY_MS, lambda: self._commit(tries - 1))
            else:
                self._end(is_committed=False)

        self._send(TxnOffsetCommit(self.name, self._group, *self._producer, topics), committed)

    def _end(self, *, is_committed: bool) -> None:
        world = self._world
        world.mark("transactions committed" if is_committed else "transactions aborted")
        if is_committed:
            self._committed = self._number
        if self._was_unanswered and not is_committed:
            self.begin_anew()
        else:
            world.coordinator.end(self.name, is_committed=is_committed)
        self._read()

    def begin_anew(self) -> None:
        """Fence requests that may still be in flight; the transaction aborts."""
        self._transaction = self._world.coordinator.init(self.name)
        self._was_unanswered = False

    def _read(self) -> None:
        def read(reply: Message | None) -> None:
            part = None
            if isinstance(reply, OffsetFetchReply) and not reply.groups[0].error_code:
                part = reply.groups[0].topics[0].partitions[0]
            if part is None or part.error_code:
                self._world.after(_RETRY_MS, self._read)
                return
            found = max(part.committed_offset, 0)
            if found != self._committed:
                raise Broken(f"{self.name} is {found}, and {self._committed} was committed; {self._number} was tried")
            self.ended += 1
            self._world.rest(self.begin)

        wanted = OffsetFetchGroup(self._group, (OffsetFetchTopic(TOPIC, (0,)),))
        self._send(OffsetFetch((wanted,), require_stable=True), read)

    def _send(self, message: Message, answer: Callable[[Message | None], None]) -> None:
        """Send the request to the owner, or to a node that believes to be; None: there was no answer in time."""
        world, node = self._world, self._world.pick_node(self._random, self._shard, None, 0.0)
        self._asked += 1
        asked = self._asked

        def answered(reply: Message | None) -> None:
            if asked == self._asked:
                self._asked += 1
                answer(None if isinstance(reply, ErrorReply) and not reply.error_code else reply)

        if node is not None:
            assert isinstance(node, TransactedNode)
            world.after(1, lambda: node.when_awake(lambda: node.ask(message, answered)))
        world.after(_PATIENCE_MS, lambda: answered(None))

"""Clients' transactions in front of brokers: what their coordinators are asked, and what clients are told."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.gateway.cluster.transactions import TransactionCalls, error_of
from coordinator.gateway.upstream_requests import BrokerRequest, Continuation, DelayedUpstreamRequest, PendingRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import TxnOffsetCommit
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
    TransactionTopic,
)
from protocol.session import RequestRef
from tests.cluster_log.test_transactions import CLIENT, marker
from tests.cluster_node.rig import Cluster
from tests.cluster_node.test_service import owner
from tests.cluster_node.test_transactions import UNSTABLE, end, in_transaction, seen, stable
from tests.cluster_node.test_transactions import error_of as reply_error
from tests.simulation.cluster.partition import Partition

NOT_NOW = ErrorCode.COORDINATOR_NOT_AVAILABLE
ADD = AddOffsetsToTxn("x", CLIENT, 0, "a")
FOUND = FindCoordinatorReply((FoundCoordinator("x", 3, "b", 9),))


class Front:
    """A node in front of brokers whose answers a test gives. `asked` are the broker and the question of each."""

    def __init__(self) -> None:
        self.cluster, self.node = owner()
        self.asked: list[tuple[int | None, Message]] = []
        self.answers: dict[type[Message], Message | None] = {FindCoordinator: FOUND}
        self.before_answer: Callable[[], None] = lambda: None
        self.is_reachable = True
        calls = TransactionCalls(self.node.node.core, self.node.side, self._ask)
        serving = self.node.node.serving
        serving.handlers = {**serving.handlers, AddOffsetsToTxn: calls.add_offsets, TxnOffsetCommit: calls.commit}

    def _ask(
        self, request: BrokerRequest, ref: RequestRef, message: Message, moment: Moment, go_on: Continuation
    ) -> bool:
        if not self.is_reachable:
            return False
        question, broker = request
        self.asked.append((broker, question))
        delayed = DelayedUpstreamRequest(1, {1: PendingRequest(question, broker, 0)}, 0, ref, message)
        delayed.answers[1] = self.answers.get(type(question))
        self.before_answer()
        go_on(delayed, moment)
        return True

    @property
    def shard(self) -> int:
        return self.node.node.core.placement.shard_of("a")

    def describe(self, **changes: Any) -> None:
        topics = (DescribedTransactionTopic(OFFSETS_LOG_TOPIC, (self.shard,)),)
        found = DescribedTransaction(ErrorCode.NONE, "x", "Ongoing", 1, 1, CLIENT, 0, topics)
        self.answers[DescribeTransactions] = DescribeTransactionsReply((replace(found, **changes),))


def test_offsets_are_added_as_the_partition_of_the_groups_shard() -> None:
    front = Front()
    added = AddedTopic(OFFSETS_LOG_TOPIC, (AddedPartition(front.shard),))
    front.answers[AddPartitionsToTxn] = AddPartitionsToTxnReply((added,))
    assert front.node.ask(ADD) == AddOffsetsToTxnReply()
    topic = TransactionTopic(OFFSETS_LOG_TOPIC, (front.shard,))
    assert front.asked == [(None, FindCoordinator(("x",), 1)), (3, AddPartitionsToTxn("x", CLIENT, 0, (topic,)))]


def test_offsets_are_added_by_a_node_that_does_not_own_the_shard() -> None:
    front = Front()
    front.node.step_down()
    added = AddedTopic(OFFSETS_LOG_TOPIC, (AddedPartition(front.shard),))
    front.answers[AddPartitionsToTxn] = AddPartitionsToTxnReply((added,))
    assert front.node.ask(ADD) == AddOffsetsToTxnReply()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_NOW),
        (None, NOT_NOW),
    ],
)
def test_an_error_of_the_coordinator_is_passed_on(told: ErrorCode | None, expected: ErrorCode) -> None:
    front = Front()
    if told is not None:
        added = AddedTopic(OFFSETS_LOG_TOPIC, (AddedPartition(front.shard, told),))
        front.answers[AddPartitionsToTxn] = AddPartitionsToTxnReply((added,))
    assert front.node.ask(ADD) == AddOffsetsToTxnReply(expected)


def test_a_commit_asks_once_in_a_transaction() -> None:
    front = Front()
    front.describe()
    assert reply_error(front.node.ask(in_transaction(7))) == ErrorCode.NONE
    assert front.asked == [(None, FindCoordinator(("x",), 1)), (3, DescribeTransactions(("x",)))]
    assert reply_error(front.node.ask(in_transaction(8))) == ErrorCode.NONE
    assert len(front.asked) == 2
    assert stable(front.node) == UNSTABLE
    end(front.cluster, front.node)
    assert seen(front.node) == 8
    assert reply_error(front.node.ask(in_transaction(9))) == ErrorCode.NONE
    assert len(front.asked) == 4


def test_a_marker_of_the_transaction_before_is_read_before_the_question() -> None:
    front = Front()
    front.describe()
    partition = front.cluster.partitions[front.shard]
    mark(front.cluster, partition)
    assert reply_error(front.node.ask(in_transaction(7))) == ErrorCode.NONE


def test_a_commit_in_the_next_transaction_is_taken_before_the_marker_of_the_last_was_read() -> None:
    front = Front()
    front.describe()
    assert reply_error(front.node.ask(in_transaction(7))) == ErrorCode.NONE
    mark(front.cluster, front.cluster.partitions[front.shard])
    assert reply_error(front.node.ask(in_transaction(8))) == ErrorCode.NONE
    assert len(front.asked) == 4
    assert (seen(front.node), stable(front.node)) == (7, UNSTABLE)
    end(front.cluster, front.node)
    assert seen(front.node) == stable(front.node) == 8


def mark(cluster: Cluster, partition: Partition) -> None:
    partition.mark(marker(), cluster.now_ms)
    partition.replicate(cluster.now_ms)


def test_a_transaction_that_ends_behind_the_question_takes_no_commit() -> None:
    front = Front()
    front.describe()
    marked = iter([False, True])
    partition = front.cluster.partitions[front.shard]

    def end_before_the_description() -> None:
        if next(marked, False):
            mark(front.cluster, partition)

    front.before_answer = end_before_the_description
    assert reply_error(front.node.ask(in_transaction(7))) == ErrorCode.NOT_COORDINATOR
    assert not front.node.side.services[front.shard].shard.offsets.pending
    assert seen(front.node) == -1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ErrorCode.NONE),
        ({"error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"error_code": ErrorCode.NOT_COORDINATOR}, ErrorCode.NOT_COORDINATOR),
        ({"producer_id": 5}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"transaction_state": "PrepareCommit"}, ErrorCode.TRANSACTION_ABORTABLE),
        ({"topics": ()}, ErrorCode.TRANSACTION_ABORTABLE),
        ({"topics": (DescribedTransactionTopic(OFFSETS_LOG_TOPIC, (99,)),)}, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_only_an_open_transaction_with_the_partition_takes_a_commit(changes: Any, expected: ErrorCode) -> None:
    front = Front()
    front.describe(**changes)
    reply = front.answers[DescribeTransactions]
    assert isinstance(reply, DescribeTransactionsReply)
    assert error_of(in_transaction(7), reply.transactions[0], front.shard) == expected
    told = front.node.ask(in_transaction(7))
    assert (told.error_code if isinstance(told, ErrorReply) else reply_error(told)) == expected


@pytest.mark.parametrize("missing", [FindCoordinator, DescribeTransactions])
def test_without_an_answer_the_client_asks_again(missing: type[Message]) -> None:
    front = Front()
    front.describe()
    front.answers[missing] = None
    assert front.node.ask(in_transaction(7)) == ErrorReply(NOT_NOW)


def test_a_reply_without_a_coordinator_is_none() -> None:
    front = Front()
    front.answers[FindCoordinator] = FindCoordinatorReply(())
    assert front.node.ask(in_transaction(7)) == ErrorReply(NOT_NOW)
    assert front.node.ask(ADD) == ErrorReply(NOT_NOW)


def test_while_no_broker_can_be_asked_the_client_asks_again() -> None:
    front = Front()
    front.is_reachable = False
    assert front.node.ask(in_transaction(7)) == ErrorReply(NOT_NOW)
    assert front.node.ask(ADD) == ErrorReply(NOT_NOW)


def test_another_owners_group_is_refused_without_a_question() -> None:
    front = Front()
    front.node.step_down()
    assert front.node.ask(in_transaction(7)) == ErrorReply(ErrorCode.NOT_COORDINATOR)
    assert front.asked == []


def test_a_shard_that_is_lost_behind_the_question_takes_no_commit() -> None:
    front = Front()
    front.describe()
    lost = False

    def lose() -> None:
        nonlocal lost
        if not lost:
            lost = True
            front.node.step_down()

    front.before_answer = lose
    assert reply_error(front.node.ask(in_transaction(7))) == ErrorCode.NOT_COORDINATOR

"""Transactions of a producer without sockets: what counts, what does not, and who may go on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membership.events import CallFailed, OffsetToCommit, Replied
from muster.core.producing.transaction_requests import OffsetsOfGroup
from muster.core.producing.transactions import TransactionPhase
from muster.errors import MusterError, ProducerFenced, Refused, TransactionFailed
from protocol.errors import ErrorCode
from protocol.messages.data import InitProducerId, Produce
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import TxnOffsetCommit
from protocol.messages.transactions import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn
from tests.client.producing.rig import P0, P1
from tests.client.producing.transactional import TransactionRig
from tests.enumerations import share_of

OFFSETS = OffsetsOfGroup("g", {P0: OffsetToCommit(5), P1: OffsetToCommit(7, "m")}, 3, "member", "instance")


def started(**settings: int) -> TransactionRig:
    rig = TransactionRig(**settings)
    return rig.begin().know_topic()


def test_records_and_offsets_count_together_once_committed() -> None:
    rig = started()
    rig.send("a", "b")
    rig.send("c", partition=1)
    rig.flush_all()
    rig.transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    assert not rig.transactions.has_offsets_to_send
    assert rig.counting() == [] and rig.brokers.offsets == {}
    rig.end(commit=True)
    assert rig.counting() == ["a", "b"] and rig.counting(1) == ["c"]
    assert rig.brokers.offsets == {P0: 5, P1: 7}
    (told,) = rig.brokers.commits
    assert (told.generation_id, told.member_id, told.group_instance_id) == (3, "member", "instance")
    assert set(rig.offsets) == {"a", "b", "c"}


def test_nothing_of_an_aborted_transaction_counts_and_the_next_one_does() -> None:
    rig = started()
    rig.send("a")
    rig.flush_all()
    rig.transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    rig.end(commit=False)
    assert rig.counting() == [] and rig.brokers.offsets == {}
    rig.begin().send("b")
    rig.flush_all()
    rig.end(commit=True)
    assert rig.counting() == ["b"] and rig.brokers.offsets == {}


def test_a_partition_is_added_before_a_record_of_it_goes_and_once_a_transaction() -> None:
    rig = started()
    rig.send("a")
    rig.core.close_batches()
    rig.wake()
    assert rig.waiting(AddPartitionsToTxn) and not rig.waiting(Produce)
    rig.answer(AddPartitionsToTxn)
    assert rig.waiting(Produce)
    rig.answer(Produce)
    rig.send("b")
    rig.core.close_batches()
    rig.wake()
    assert rig.waiting(Produce) and not rig.waiting(AddPartitionsToTxn)
    rig.answer(Produce)
    rig.end(commit=True)
    rig.begin().send("c")
    rig.core.close_batches()
    rig.wake()
    assert rig.waiting(AddPartitionsToTxn) and not rig.waiting(Produce)


def test_a_transaction_without_anything_asks_nobody() -> None:
    rig = started()
    for commit in (True, False):
        rig.transactions.end(commit=commit)
        rig.wake()
        assert not rig.calls and rig.transactions.phase is TransactionPhase.IDLE
        rig.begin()


def test_records_outside_of_a_transaction_are_refused() -> None:
    rig = TransactionRig()
    with pytest.raises(MusterError, match="between begin and commit"):
        rig.send("a")
    rig.begin()
    with pytest.raises(MusterError, match="a transaction is open"):
        rig.transactions.begin()
    rig.end(commit=True)
    with pytest.raises(MusterError, match="between begin and commit"):
        rig.transactions.add_offsets(OFFSETS)


def test_another_producer_of_the_same_id_ends_this_one() -> None:
    rig = started()
    rig.send("a")
    rig.brokers.epoch += 1
    rig.core.close_batches()
    rig.wake()
    rig.answer_all()
    assert isinstance(rig.errors["a"], ProducerFenced)
    for act in (rig.transactions.begin, rig.transactions.check_open, lambda: rig.transactions.end(commit=False)):
        with pytest.raises(ProducerFenced, match="another producer"):
            act()
    assert not rig.calls


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_offsets_that_are_refused_are_to_be_aborted_and_the_next_transaction_may_succeed(error: ErrorCode) -> None:
    rig = started()
    rig.brokers.refuse[TxnOffsetCommit] = [error]
    rig.transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    with pytest.raises(TransactionFailed, match=error.name):
        rig.transactions.end(commit=True)
    rig.end(commit=False)
    rig.begin().transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    rig.end(commit=True)
    assert rig.brokers.offsets == {P0: 5, P1: 7} and rig.brokers.epoch == 1


def test_a_record_that_is_given_up_is_to_be_aborted_and_the_epoch_is_raised() -> None:
    rig = started()
    rig.send("a")
    rig.core.close_batches()
    rig.wake()
    rig.answer(AddPartitionsToTxn)
    rig.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(rig.errors["a"], Refused)
    with pytest.raises(TransactionFailed):
        rig.send("b")
    rig.end(commit=False)
    rig.begin().send("c")
    rig.flush_all()
    rig.end(commit=True)
    assert rig.counting() == ["c"] and rig.brokers.epoch == 1


@pytest.mark.parametrize("kind", [AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn])
@pytest.mark.parametrize(
    "error", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_what_passes_is_asked_again(kind: type, error: ErrorCode) -> None:
    rig = started()
    rig.brokers.refuse[kind] = [error, error]
    rig.send("a")
    rig.flush_all()
    rig.transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    rig.end(commit=True)
    assert rig.counting() == ["a"] and rig.brokers.offsets == {P0: 5, P1: 7} and not rig.brokers.refuse[kind]


def test_coordinators_that_moved_are_found() -> None:
    rig = started()
    rig.brokers.coordinator, rig.brokers.group_coordinator = 2, 0
    rig.transactions.add_offsets(OFFSETS)
    rig.wake()
    rig.answer_all()
    rig.end(commit=True)
    assert rig.brokers.offsets == {P0: 5, P1: 7}


def test_a_commit_without_an_answer_is_asked_again_and_may_not_become_an_abort() -> None:
    rig = started()
    rig.send("a")
    rig.flush_all()
    rig.transactions.end(commit=True)
    rig.wake()
    call = rig.take(EndTxn)
    rig.brokers.answer(1, call.message)
    rig.feed(CallFailed(call.call))
    with pytest.raises(MusterError, match="ending with commit"):
        rig.transactions.end(commit=False)
    rig.transactions.end(commit=True)
    rig.answer_all()
    assert rig.transactions.phase is TransactionPhase.IDLE and rig.counting() == ["a"]


def test_an_abort_that_the_coordinator_knows_nothing_of_is_one() -> None:
    rig = started()
    rig.send("a")
    rig.core.close_batches()
    rig.wake()
    rig.feed(CallFailed(rig.take(AddPartitionsToTxn).call))
    rig.core.abandon(MusterError("aborted"))
    rig.end(commit=False)
    rig.begin().send("b")
    rig.flush_all()
    rig.end(commit=True)
    assert rig.counting() == ["b"]


def test_an_id_that_may_not_be_used_is_told_at_the_beginning() -> None:
    rig = TransactionRig()
    rig.brokers.refuse[InitProducerId] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    rig.transactions.begin()
    rig.wake()
    rig.answer_all()
    with pytest.raises(Refused, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        rig.transactions.raise_fatal()


def test_silence_is_doubted_and_asked_again() -> None:
    rig = TransactionRig(request_timeout_ms=1_000)
    rig.transactions.begin()
    rig.wake()
    rig.answer(FindCoordinator)
    assert rig.waiting(InitProducerId)
    rig.calls.clear()
    rig.wake(1_000)
    assert rig.hung_up and not rig.transactions.ready()
    rig.wake(100)
    rig.answer_all()
    assert rig.transactions.ready()


ACTS = st.sampled_from(["send", "offsets", "commit", "abort", "answer", "lose", "lose answer", "wait", "move", "busy"])


@settings(max_examples=share_of(300), deadline=None)
@given(st.lists(ACTS, max_size=60))
def test_what_was_committed_counts_once_and_in_order_and_nothing_else_does(acts: list[str]) -> None:
    rig = started(linger_ms=0)
    model = Model(rig)
    for act in acts:
        model.act(act)
    model.finish()
    for partition in range(2):
        assert rig.counting(partition) == model.committed[partition]
    assert rig.brokers.offsets.get(P0, 0) == model.committed_offset


class Model:
    """Drives the rig as an application would, and keeps what must count."""

    def __init__(self, rig: TransactionRig) -> None:
        self.rig = rig
        self.committed: list[list[str]] = [[], []]
        self.committed_offset = 0
        self._pending: list[list[str]] = [[], []]
        self._offset = 0
        self._number = 0
        self._is_committing = False

    def act(self, act: str) -> None:
        rig, transactions = self.rig, self.rig.transactions
        self._notice()
        is_open = transactions.phase is TransactionPhase.OPEN and transactions.failure is None
        if act == "send" and is_open:
            self._number += 1
            rig.send(str(self._number), partition=self._number % 2)
            self._pending[self._number % 2].append(str(self._number))
            rig.core.close_batches()
            rig.wake()
        elif act == "offsets" and is_open:
            self._number += 1
            transactions.add_offsets(OffsetsOfGroup("g", {P0: OffsetToCommit(self._number)}))
            self._offset = self._number
            rig.wake()
        elif act == "commit" and is_open:
            self.settle()
            if transactions.failure is None:
                transactions.end(commit=True)
                self._is_committing = True
                rig.wake()
        elif act == "abort" and transactions.phase is TransactionPhase.OPEN:
            self._abort()
        elif act in {"answer", "lose", "lose answer"} and rig.calls:
            self._carry(act)
        elif act == "wait":
            rig.wake(150)
        elif act == "move":
            rig.brokers.coordinator = (rig.brokers.coordinator + 1) % 3
            for log in rig.brokers.logs.values():
                log.leader = (log.leader + 1) % 3
        elif act == "busy":
            rig.brokers.refuse.setdefault(EndTxn, []).append(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _carry(self, how: str) -> None:
        call = next(iter(self.rig.calls.values()))
        del self.rig.calls[call.call]
        node = 0 if call.node is None else call.node.port
        reply = None if how == "lose" else self.rig.brokers.answer(node, call.message)
        self.rig.feed(Replied(call.call, reply) if reply is not None and how == "answer" else CallFailed(call.call))

    def _notice(self) -> None:
        """Note that a commit has been answered, and begin the next transaction."""
        transactions = self.rig.transactions
        if transactions.phase is TransactionPhase.IDLE:
            if self._is_committing:
                for partition, values in enumerate(self._pending):
                    self.committed[partition] += values
                self.committed_offset = self._offset or self.committed_offset
            self._is_committing = False
            self._pending, self._offset = [[], []], 0
            transactions.begin()
            self.rig.wake()
        transactions.ready()

    def _abort(self) -> None:
        self.rig.core.abandon(MusterError("aborted"))
        self.rig.wake()
        while self.rig.core.is_writing:
            self._carry("answer")
        self.rig.transactions.end(commit=False)
        self.rig.wake()

    def settle(self) -> None:
        """Let everything that is under way be answered."""
        for _ in range(50):
            self.rig.answer_all()
            is_flushed = self.rig.core.is_flushed(self.rig.core.close_batches())
            if is_flushed and not self.rig.transactions.has_offsets_to_send:
                return
            self.rig.wake(200)
        assert self.rig.transactions.failure is not None

    def finish(self) -> None:
        self.rig.brokers.refuse.clear()
        self.rig.answer_all()
        self._notice()
        if self.rig.transactions.phase is TransactionPhase.OPEN:
            self._abort()
            self.rig.answer_all()
        self._notice()

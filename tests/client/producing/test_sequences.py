"""Answers that are lost, errors, and what becomes of the numbers (KIP-98, KIP-360)."""

from typing import Any

import pytest

from membership.events import CallFailed, NodeAddress, Replied
from muster.errors import ClientClosed, Refused, RequestTimedOut
from partition_log.producers.expiration import ProducerExpiration
from protocol.errors import ErrorCode
from protocol.messages.data import InitProducerId, InitProducerIdReply, Produce
from protocol.messages.node import ErrorReply as Refusal
from protocol.messages.topics import Metadata
from tests.client.producing.rig import NODES, P0, ProducerRig, batches


def ready(**settings: Any) -> ProducerRig:
    """One record is stored, so that the next ones need not go alone."""
    stage = ProducerRig(1, linger_ms=0, **settings).ready()
    stage.send("first")
    return stage.flush().answer()


def sent(stage: ProducerRig, *values: str) -> ProducerRig:
    """A batch each."""
    for value in values:
        stage.send(value)
        stage.core.close_batches()
    return stage.wake()


def under_way(stage: ProducerRig) -> list[tuple[int, int, int]]:
    return [batches(call)[0] for call in stage.waiting()]


def test_a_batch_whose_answer_was_lost_is_stored_once_and_its_offset_told() -> None:
    stage = sent(ready(), "a").lose(stored=True)
    stage.settle()
    assert stage.values() == ["first", "a"]
    assert stage.offsets["a"] == 1


def test_what_must_be_sent_again_goes_alone_as_the_oldest_and_after_a_pause() -> None:
    stage = sent(ready(), "a", "b", "c")
    stage.lose(stored=False).lose(stored=False).lose(stored=False)
    stage.answer(Metadata)
    assert under_way(stage) == []
    stage.wake(100)
    assert under_way(stage) == [(0, 1, 1)]
    stage.answer()
    assert under_way(stage) == [(0, 2, 1)]
    assert stage.settle().values() == ["first", "a", "b", "c"]


def test_the_pause_grows_up_to_a_second() -> None:
    stage = sent(ready(), "a")
    pauses = []
    for _ in range(6):
        stage.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        before_ms = stage.now_ms
        while not stage.waiting():
            due_ms = stage.core.next_deadline_ms
            assert due_ms is not None
            stage.wake(due_ms - stage.now_ms)
        pauses.append(stage.now_ms - before_ms)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_one_behind_a_batch_that_was_not_stored_is_out_of_order_and_comes_again_under_its_number() -> None:
    stage = sent(ready(), "a", "b")
    stage.refuse(ErrorCode.NOT_ENOUGH_REPLICAS).answer()
    assert stage.errors == {}
    stage.settle()
    assert stage.values() == ["first", "a", "b"]
    assert stage.brokers.logs[P0].producers.get(1).epoch == 0


def test_one_that_was_known_before_is_a_success_whose_place_is_not_known() -> None:
    stage = sent(ready(), "a").refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert stage.offsets["a"] == -1


def test_a_leader_that_moved_is_looked_for() -> None:
    stage = sent(ready(), "a")
    stage.brokers.logs[P0].leader = 2
    stage.answer().answer(Metadata).wake(100)
    assert [call.node for call in stage.waiting()] == [NodeAddress("host", 2, 2)]
    assert stage.settle().values() == ["first", "a"]


def test_metadata_that_still_names_the_old_leader_is_asked_for_again_after_pauses() -> None:
    stage = sent(ready(), "a")
    metadata = 0
    while stage.now_ms < 3_000:
        if stage.waiting(Metadata):
            metadata += 1
            stage.answer(Metadata)
        elif stage.waiting():
            stage.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            stage.wake((stage.core.next_deadline_ms or 0) - stage.now_ms)
    assert 3 <= metadata <= 10
    assert stage.settle().values() == ["first", "a"]


def test_a_request_without_an_answer_is_hung_up_on_and_sent_again() -> None:
    stage = sent(ready(request_timeout_ms=1_000), "a")
    stage.wake(1_000)
    assert stage.hung_up == [NODES[0]]
    late = stage.take(Produce)
    stage.settle()
    stage.feed(Replied(late.call, stage.brokers.answer(0, late.message)))
    assert stage.values() == ["first", "a"]
    assert stage.offsets["a"] == 1


# --- gaps ---


def test_a_log_that_lost_what_it_acknowledged_goes_on_in_a_new_epoch() -> None:
    stage = ready()
    log = stage.brokers.logs[P0]
    before = log.producers.snapshot(1)
    sent(stage, "lost").answer()
    log.records.pop()
    log.producers.restore(before)
    sent(stage, "x").settle()
    assert stage.values() == ["first", "x"]
    assert log.producers.get(1).epoch == 1


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_gap_raises_the_epoch_and_begins_the_numbers_again(code: ErrorCode) -> None:
    stage = sent(ready(), "a", "b", "c")
    stage.refuse(code)
    assert under_way(stage) == [(0, 2, 1), (0, 3, 1)], "nothing new while others are in flight"
    stage.refuse(code).refuse(code)
    stage.wake(100)
    assert under_way(stage) == [(1, 0, 1)], "alone: nobody knows what the broker makes of it"
    stage.settle()
    assert stage.values() == ["first", "a", "b", "c"]
    assert stage.errors == {}


def test_what_may_be_stored_is_not_sent_under_another_number() -> None:
    stage = sent(ready(), "a").lose(stored=True).answer(Metadata).wake(100)
    stage.refuse(ErrorCode.UNKNOWN_PRODUCER_ID)
    assert isinstance(stage.errors["a"], Refused)
    assert "may be stored" in str(stage.errors["a"])
    sent(stage, "b").settle()
    assert stage.values() == ["first", "a", "b"]


def test_a_batch_refused_for_good_fails_and_those_behind_it_go_on_in_a_new_epoch() -> None:
    stage = sent(ready(), "bad", "good")
    stage.refuse(ErrorCode.INVALID_RECORD, sentence="no such thing").answer()
    assert str(stage.errors["bad"]) == "t-0 did not take the records: no such thing"
    stage.settle()
    assert stage.values() == ["first", "good"]
    assert stage.brokers.logs[P0].producers.get(1).epoch == 1


def test_a_batch_before_one_that_is_refused_keeps_its_number() -> None:
    stage = sent(ready(), "a", "bad", "c")
    stage.refuse(ErrorCode.INVALID_RECORD, place=1).lose(stored=True).answer()
    stage.settle()
    assert stage.values() == ["first", "a", "c"]
    assert list(stage.errors) == ["bad"]


def test_an_epoch_that_is_not_ours_any_more_is_left_for_another_id() -> None:
    stage = sent(ready(), "a").refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
    stage.wake(100).answer(InitProducerId)
    assert stage.brokers.ids == 2
    assert under_way(stage) == [(0, 0, 1)]
    assert stage.settle().values() == ["first", "a"]


def test_after_the_last_epoch_comes_another_id() -> None:
    stage = ready()
    queue = stage.core._buffer._queues[P0]
    queue.producer = queue.producer._replace(epoch=32_767)
    sent(stage, "a").refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    stage.settle()
    assert stage.brokers.ids == 2
    assert stage.values() == ["first", "a"]


def test_numbers_begin_again_after_the_largest() -> None:
    stage = ready()
    queue = stage.core._buffer._queues[P0]
    queue._next_sequence = queue._acknowledged_end = 2**31 - 2
    log = stage.brokers.logs[P0]
    log.producers = ProducerExpiration(10).new_producers()
    for _ in range(2):
        stage.send("x", "y", "z")
        stage.flush()
        assert under_way(stage)[0][1] in {2**31 - 2, 1}
        stage.offsets.clear()
        stage.answer()
    assert stage.values() == ["first", *"xyzxyz"]


# --- time ---


def test_what_is_not_acknowledged_in_time_fails_and_says_what_was_heard() -> None:
    stage = sent(ready(delivery_timeout_ms=40_000), "a")
    stage.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, sentence="one of two")
    stage.wake(40_000)
    assert isinstance(stage.errors["a"], RequestTimedOut)
    assert str(stage.errors["a"]) == "t-0: not acknowledged within 40000 ms (one of two)"


def test_one_given_up_while_nobody_knows_its_end_takes_those_behind_it_that_may_be_stored_with_it() -> None:
    stage = sent(ready(delivery_timeout_ms=40_000), "a")
    stage.now_ms += 1_000
    sent(stage, "b", "c")
    stage.lose(stored=True).lose(stored=True).refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    stage.wake(39_000)
    assert list(stage.errors) == ["a", "b"]
    assert "it may be stored or not" in str(stage.errors["a"])
    stage.settle()
    assert stage.values() == ["first", "a", "b", "c"]
    assert stage.brokers.logs[P0].producers.get(1).epoch == 1


def test_one_given_up_that_turns_out_to_be_stored_leaves_the_numbers_as_they_are() -> None:
    stage = sent(ready(delivery_timeout_ms=40_000), "a").refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    stage.wake(20_000)
    sent(stage, "b")
    stage.wake(20_000)
    assert list(stage.errors) == ["a"]
    sent(stage, "c")
    assert under_way(stage) == [(0, 1, 1), (0, 2, 1)], "the numbers may have to begin again: c waits"
    stage.answer().answer()
    assert under_way(stage) == [(0, 3, 1)]
    assert stage.settle().values() == ["first", "a", "b", "c"]


def test_whatever_is_left_can_be_abandoned() -> None:
    stage = sent(ready(), "a", "b")
    stage.core.abandon(ClientClosed("closed"))
    stage.wake()
    assert list(stage.errors) == ["a", "b"]
    assert stage.core._buffer.bytes == 0


# --- too large ---


def test_a_batch_too_large_is_halved_until_it_is_not() -> None:
    stage = ready()
    stage.brokers.logs[P0].most_records = 2
    stage.send(*"abcdefg")
    sent(stage, "h").settle()
    assert stage.values() == ["first", *"abcdefgh"]
    assert [stage.offsets[value] for value in "abcdefgh"] == list(range(1, 9))
    assert stage.core._buffer.bytes == 0


def test_a_record_too_large_fails_alone() -> None:
    stage = sent(ready(), "large", "small")
    stage.refuse(ErrorCode.MESSAGE_TOO_LARGE).settle()
    assert list(stage.errors) == ["large"]
    assert "(max.message.bytes of the topic)" in str(stage.errors["large"])
    assert stage.values() == ["first", "small"]


# --- producer ids ---


def test_a_server_that_gives_no_ids_is_said_with_what_helps() -> None:
    for reply in (InitProducerIdReply(ErrorCode.UNSUPPORTED_VERSION), Refusal(ErrorCode.UNSUPPORTED_VERSION)):
        stage = ProducerRig(1, linger_ms=0).ready()
        stage.send("a")
        stage.wake()
        stage.feed(Replied(stage.take(InitProducerId).call, reply))
        assert isinstance(stage.errors["a"], Refused)
        assert "With enable_idempotence=False" in str(stage.errors["a"])
        sent(stage, "b").answer(InitProducerId).settle()
        assert stage.values() == ["b"], "the next record asks again"


def test_an_id_that_does_not_come_is_asked_for_again_elsewhere() -> None:
    stage = sent(ProducerRig(1, linger_ms=0).ready(), "a")
    stage.feed(CallFailed(stage.take(InitProducerId).call))
    assert stage.hung_up == [None]
    assert not stage.waiting(InitProducerId)
    assert stage.wake(100).settle().values() == ["a"]


def test_metadata_that_does_not_come_is_asked_for_again_elsewhere() -> None:
    stage = sent(ready(), "a").lose(stored=False)
    stage.feed(CallFailed(stage.take(Metadata).call))
    assert stage.hung_up == [None]
    assert stage.settle().values() == ["first", "a"]


@pytest.mark.parametrize("reply", [Refusal(ErrorCode.REQUEST_TIMED_OUT, "busy"), InitProducerIdReply()])
def test_a_whole_request_refused_or_answered_with_something_else_is_sent_again(reply: Any) -> None:
    stage = sent(ready(), "a")
    stage.feed(Replied(stage.take(Produce).call, reply))
    assert stage.settle().values() == ["first", "a"]

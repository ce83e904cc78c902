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
    rig = ProducerRig(1, linger_ms=0, **settings).ready()
    rig.send("first")
    return rig.flush().answer()


def sent(rig: ProducerRig, *values: str) -> ProducerRig:
    """A batch each."""
    for value in values:
        rig.send(value)
        rig.core.close_batches()
    return rig.wake()


def under_way(rig: ProducerRig) -> list[tuple[int, int, int]]:
    return [batches(call)[0] for call in rig.waiting()]


def test_a_batch_whose_answer_was_lost_is_stored_once_and_its_offset_told() -> None:
    rig = sent(ready(), "a").lose(stored=True)
    rig.settle()
    assert rig.values() == ["first", "a"]
    assert rig.offsets["a"] == 1


def test_what_must_be_sent_again_goes_alone_as_the_oldest_and_after_a_pause() -> None:
    rig = sent(ready(), "a", "b", "c")
    rig.lose(stored=False).lose(stored=False).lose(stored=False)
    rig.answer(Metadata)
    assert under_way(rig) == []
    rig.wake(100)
    assert under_way(rig) == [(0, 1, 1)]
    rig.answer()
    assert under_way(rig) == [(0, 2, 1)]
    assert rig.settle().values() == ["first", "a", "b", "c"]


def test_the_pause_grows_up_to_a_second() -> None:
    rig = sent(ready(), "a")
    pauses = []
    for _ in range(6):
        rig.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        before_ms = rig.now_ms
        while not rig.waiting():
            due_ms = rig.core.next_deadline_ms
            assert due_ms is not None
            rig.wake(due_ms - rig.now_ms)
        pauses.append(rig.now_ms - before_ms)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_one_behind_a_batch_that_was_not_stored_is_out_of_order_and_comes_again_under_its_number() -> None:
    rig = sent(ready(), "a", "b")
    rig.refuse(ErrorCode.NOT_ENOUGH_REPLICAS).answer()
    assert rig.errors == {}
    rig.settle()
    assert rig.values() == ["first", "a", "b"]
    assert rig.brokers.logs[P0].producers.get(1).epoch == 0


def test_one_that_was_known_before_is_a_success_whose_place_is_not_known() -> None:
    rig = sent(ready(), "a").refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert rig.offsets["a"] == -1


def test_a_leader_that_moved_is_looked_for() -> None:
    rig = sent(ready(), "a")
    rig.brokers.logs[P0].leader = 2
    rig.answer().answer(Metadata).wake(100)
    assert [call.node for call in rig.waiting()] == [NodeAddress("host", 2, 2)]
    assert rig.settle().values() == ["first", "a"]


def test_metadata_that_still_names_the_old_leader_is_asked_for_again_after_pauses() -> None:
    rig = sent(ready(), "a")
    metadata = 0
    while rig.now_ms < 3_000:
        if rig.waiting(Metadata):
            metadata += 1
            rig.answer(Metadata)
        elif rig.waiting():
            rig.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            rig.wake((rig.core.next_deadline_ms or 0) - rig.now_ms)
    assert 3 <= metadata <= 10
    assert rig.settle().values() == ["first", "a"]


def test_a_request_without_an_answer_is_hung_up_on_and_sent_again() -> None:
    rig = sent(ready(request_timeout_ms=1_000), "a")
    rig.wake(1_000)
    assert rig.hung_up == [NODES[0]]
    late = rig.take(Produce)
    rig.settle()
    rig.feed(Replied(late.call, rig.brokers.answer(0, late.message)))
    assert rig.values() == ["first", "a"]
    assert rig.offsets["a"] == 1


# --- gaps ---


def test_a_log_that_lost_what_it_acknowledged_goes_on_in_a_new_epoch() -> None:
    rig = ready()
    log = rig.brokers.logs[P0]
    before = log.producers.snapshot(1)
    sent(rig, "lost").answer()
    log.records.pop()
    log.producers.restore(before)
    sent(rig, "x").settle()
    assert rig.values() == ["first", "x"]
    assert log.producers.get(1).epoch == 1


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_gap_raises_the_epoch_and_begins_the_numbers_again(code: ErrorCode) -> None:
    rig = sent(ready(), "a", "b", "c")
    rig.refuse(code)
    assert under_way(rig) == [(0, 2, 1), (0, 3, 1)], "nothing new while others are in flight"
    rig.refuse(code).refuse(code)
    rig.wake(100)
    assert under_way(rig) == [(1, 0, 1)], "alone: nobody knows what the broker makes of it"
    rig.settle()
    assert rig.values() == ["first", "a", "b", "c"]
    assert rig.errors == {}


def test_what_may_be_stored_is_not_sent_under_another_number() -> None:
    rig = sent(ready(), "a").lose(stored=True).answer(Metadata).wake(100)
    rig.refuse(ErrorCode.UNKNOWN_PRODUCER_ID)
    assert isinstance(rig.errors["a"], Refused)
    assert "may be stored" in str(rig.errors["a"])
    sent(rig, "b").settle()
    assert rig.values() == ["first", "a", "b"]


def test_a_batch_refused_for_good_fails_and_those_behind_it_go_on_in_a_new_epoch() -> None:
    rig = sent(ready(), "bad", "good")
    rig.refuse(ErrorCode.INVALID_RECORD, sentence="no such thing").answer()
    assert str(rig.errors["bad"]) == "t-0 did not take the records: no such thing"
    rig.settle()
    assert rig.values() == ["first", "good"]
    assert rig.brokers.logs[P0].producers.get(1).epoch == 1


def test_a_batch_before_one_that_is_refused_keeps_its_number() -> None:
    rig = sent(ready(), "a", "bad", "c")
    rig.refuse(ErrorCode.INVALID_RECORD, place=1).lose(stored=True).answer()
    rig.settle()
    assert rig.values() == ["first", "a", "c"]
    assert list(rig.errors) == ["bad"]


def test_an_epoch_that_is_not_ours_any_more_is_left_for_another_id() -> None:
    rig = sent(ready(), "a").refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
    rig.wake(100).answer(InitProducerId)
    assert rig.brokers.ids == 2
    assert under_way(rig) == [(0, 0, 1)]
    assert rig.settle().values() == ["first", "a"]


def test_after_the_last_epoch_comes_another_id() -> None:
    rig = ready()
    queue = rig.core._buffer._queues[P0]
    queue.producer = queue.producer._replace(epoch=32_767)
    sent(rig, "a").refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    rig.settle()
    assert rig.brokers.ids == 2
    assert rig.values() == ["first", "a"]


def test_numbers_begin_again_after_the_largest() -> None:
    rig = ready()
    queue = rig.core._buffer._queues[P0]
    queue._next_sequence = queue._acknowledged_end = 2**31 - 2
    log = rig.brokers.logs[P0]
    log.producers = ProducerExpiration(10).new_producers()
    for _ in range(2):
        rig.send("x", "y", "z")
        rig.flush()
        assert under_way(rig)[0][1] in {2**31 - 2, 1}
        rig.offsets.clear()
        rig.answer()
    assert rig.values() == ["first", *"xyzxyz"]


# --- time ---


def test_what_is_not_acknowledged_in_time_fails_and_says_what_was_heard() -> None:
    rig = sent(ready(delivery_timeout_ms=40_000), "a")
    rig.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, sentence="one of two")
    rig.wake(40_000)
    assert isinstance(rig.errors["a"], RequestTimedOut)
    assert str(rig.errors["a"]) == "t-0: not acknowledged within 40000 ms (one of two)"


def test_one_given_up_while_nobody_knows_its_end_takes_those_behind_it_that_may_be_stored_with_it() -> None:
    rig = sent(ready(delivery_timeout_ms=40_000), "a")
    rig.now_ms += 1_000
    sent(rig, "b", "c")
    rig.lose(stored=True).lose(stored=True).refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    rig.wake(39_000)
    assert list(rig.errors) == ["a", "b"]
    assert "it may be stored or not" in str(rig.errors["a"])
    rig.settle()
    assert rig.values() == ["first", "a", "b", "c"]
    assert rig.brokers.logs[P0].producers.get(1).epoch == 1


def test_one_given_up_that_turns_out_to_be_stored_leaves_the_numbers_as_they_are() -> None:
    rig = sent(ready(delivery_timeout_ms=40_000), "a").refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    rig.wake(20_000)
    sent(rig, "b")
    rig.wake(20_000)
    assert list(rig.errors) == ["a"]
    sent(rig, "c")
    assert under_way(rig) == [(0, 1, 1), (0, 2, 1)], "the numbers may have to begin again: c waits"
    rig.answer().answer()
    assert under_way(rig) == [(0, 3, 1)]
    assert rig.settle().values() == ["first", "a", "b", "c"]


def test_whatever_is_left_can_be_abandoned() -> None:
    rig = sent(ready(), "a", "b")
    rig.core.abandon(ClientClosed("closed"))
    rig.wake()
    assert list(rig.errors) == ["a", "b"]
    assert rig.core._buffer.bytes == 0


# --- too large ---


def test_a_batch_too_large_is_halved_until_it_is_not() -> None:
    rig = ready()
    rig.brokers.logs[P0].most_records = 2
    rig.send(*"abcdefg")
    sent(rig, "h").settle()
    assert rig.values() == ["first", *"abcdefgh"]
    assert [rig.offsets[value] for value in "abcdefgh"] == list(range(1, 9))
    assert rig.core._buffer.bytes == 0


def test_a_record_too_large_fails_alone() -> None:
    rig = sent(ready(), "large", "small")
    rig.refuse(ErrorCode.MESSAGE_TOO_LARGE).settle()
    assert list(rig.errors) == ["large"]
    assert "(max.message.bytes of the topic)" in str(rig.errors["large"])
    assert rig.values() == ["first", "small"]


# --- producer ids ---


def test_a_server_that_gives_no_ids_is_said_with_what_helps() -> None:
    for reply in (InitProducerIdReply(ErrorCode.UNSUPPORTED_VERSION), Refusal(ErrorCode.UNSUPPORTED_VERSION)):
        rig = ProducerRig(1, linger_ms=0).ready()
        rig.send("a")
        rig.wake()
        rig.feed(Replied(rig.take(InitProducerId).call, reply))
        assert isinstance(rig.errors["a"], Refused)
        assert "With enable_idempotence=False" in str(rig.errors["a"])
        sent(rig, "b").answer(InitProducerId).settle()
        assert rig.values() == ["b"], "the next record asks again"


def test_an_id_that_does_not_come_is_asked_for_again_elsewhere() -> None:
    rig = sent(ProducerRig(1, linger_ms=0).ready(), "a")
    rig.feed(CallFailed(rig.take(InitProducerId).call))
    assert rig.hung_up == [None]
    assert not rig.waiting(InitProducerId)
    assert rig.wake(100).settle().values() == ["a"]


def test_metadata_that_does_not_come_is_asked_for_again_elsewhere() -> None:
    rig = sent(ready(), "a").lose(stored=False)
    rig.feed(CallFailed(rig.take(Metadata).call))
    assert rig.hung_up == [None]
    assert rig.settle().values() == ["first", "a"]


@pytest.mark.parametrize("reply", [Refusal(ErrorCode.REQUEST_TIMED_OUT, "busy"), InitProducerIdReply()])
def test_a_whole_request_refused_or_answered_with_something_else_is_sent_again(reply: Any) -> None:
    rig = sent(ready(), "a")
    rig.feed(Replied(rig.take(Produce).call, reply))
    assert rig.settle().values() == ["first", "a"]

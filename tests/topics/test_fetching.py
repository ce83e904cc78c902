"""Reading: at once, or when there is enough."""

import pytest

from coordinator.keys import FetchKey, NewRecordsKey
from coordinator.topics.embedded import TopicSettings
from coordinator.topics.fetch import DelayedFetch, FetchReady
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchReply, FetchTopic
from protocol.session import RequestRef
from tests.simulation.disk import SimDisk
from tests.topics.topic_rig import REF, WALL_MS, TopicRig, asking, batch, parts, records, values


@pytest.fixture
def rig() -> TopicRig:
    rig = TopicRig()
    rig.made("flights", 2)
    return rig


# --- what is there ---


def test_a_reader_gets_whole_batches_from_its_offset_on(rig: TopicRig) -> None:
    rig.store_now("a", "b")
    rig.store_now("c")
    answer = rig.read(2)
    assert [(r.offset, r.value, r.timestamp_ms) for r in records(answer.records)] == [(2, b"c", WALL_MS)]
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (3, 3, 0)


def test_an_offset_within_a_batch_gives_the_batch_it_is_in(rig: TopicRig) -> None:
    rig.store_now("a", "b", "c")
    assert values(rig.read(1).records) == ["a", "b", "c"]


def test_nobody_reads_what_is_not_durable_yet(rig: TopicRig) -> None:
    rig.store_now("durable")
    rig.send(batch("not yet"))
    assert rig.values() == ["durable"]
    assert rig.read(0).high_watermark == 1
    assert rig.read(2).error_code is ErrorCode.NONE, "an offset between the high watermark and the end is only early"
    rig.flush()
    assert rig.values() == ["durable", "not yet"]


@pytest.mark.parametrize("offset", [-1, 2, 1_000])
def test_an_offset_the_log_does_not_have_is_out_of_range_and_the_answer_says_what_it_has(
    rig: TopicRig, offset: int
) -> None:
    rig.store_now("a")
    answer = rig.poll(asking((0, offset)))
    (part,) = parts(answer)
    assert (part.error_code, part.high_watermark, part.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1, 0)


def test_a_topic_or_partition_that_is_not_there_is_answered_at_once_beside_what_is(rig: TopicRig) -> None:
    rig.store_now("a")
    absent, present = parts(rig.poll(asking((2, 0), (0, 0))))
    assert (absent.error_code, absent.partition_index) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2)
    assert values(present.records) == ["a"]
    (nowhere,) = parts(rig.poll(asking((0, 0), topic="nowhere")))
    assert nowhere.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_may_be_named_by_its_id(rig: TopicRig) -> None:
    rig.store_now("a")
    known = Fetch((FetchTopic("", (FetchPartition(0, 0),), (1).to_bytes(16, "big")),))
    (part,) = parts(rig.poll(known))
    assert values(part.records) == ["a"]
    unknown = Fetch((FetchTopic("", (FetchPartition(0, 0),), bytes(15) + b"\x09"),))
    (part,) = parts(rig.poll(unknown))
    assert part.error_code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_reader_that_knows_of_a_later_leader_is_told_that_we_do_not(rig: TopicRig) -> None:
    ahead = Fetch((FetchTopic("flights", (FetchPartition(0, 0, current_leader_epoch=1),)),))
    (part,) = parts(rig.poll(ahead))
    assert part.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


# --- how much of it ---


def test_the_first_partition_with_data_gives_a_batch_however_large_and_the_others_what_fits(rig: TopicRig) -> None:
    rig.store_now("x" * 500, partition=0)
    rig.store_now("y" * 500, partition=1)
    first, second = parts(rig.poll(asking((0, 0), (1, 0), max_bytes=100)))
    assert values(first.records) == ["x" * 500]
    assert second.records == b""
    assert second.high_watermark == 1, "the client sees that there is more, and puts it first the next time"
    (second, first) = parts(rig.poll(asking((1, 0), (0, 0), max_bytes=100)))
    assert values(second.records) == ["y" * 500]
    assert first.records == b""


def test_a_partition_gives_no_more_than_its_own_limit(rig: TopicRig) -> None:
    for value in "abcd":
        rig.store_now(value)
    one = len(batch("a"))
    (part,) = parts(rig.poll(asking((0, 0), partition_max_bytes=2 * one + 1)))
    assert values(part.records) == ["a", "b"]


def test_an_empty_partition_does_not_use_up_the_right_to_one_batch(rig: TopicRig) -> None:
    rig.store_now("x" * 500, partition=1)
    empty, full = parts(rig.poll(asking((0, 0), (1, 0), max_bytes=1)))
    assert empty.records == b""
    assert values(full.records) == ["x" * 500]


def test_the_node_bounds_what_one_answer_holds() -> None:
    rig = TopicRig(settings=TopicSettings(fetch_max_bytes=len(batch("a"))))
    rig.made()
    rig.store_now("a")
    rig.store_now("b")
    assert rig.values() == ["a"]


# --- waiting ---


def test_a_fetch_at_the_end_waits_and_a_durable_record_completes_it(rig: TopicRig) -> None:
    waiting = rig.poll(asking((0, 0), (1, 0)))
    assert isinstance(waiting, DelayedFetch)
    assert waiting.key == FetchKey(7, 42)
    assert waiting.deadline_ms == rig.now_ms + 500
    assert waiting.notified_by == (NewRecordsKey("flights", 0), NewRecordsKey("flights", 1))
    rig.send(batch("here"), partition=1)
    assert not waiting.is_satisfied(), "appended is not durable"
    rig.flush()
    (answer,) = rig.answers
    assert [values(part.records) for part in parts(answer)] == [[], ["here"]]
    assert len(rig.purgatory) == 0


def test_a_fetch_that_waited_long_enough_is_answered_with_nothing(rig: TopicRig) -> None:
    message = asking((0, 0), max_wait_ms=500)
    rig.poll(message)
    assert rig.purgatory.pop_overdue(rig.now_ms + 499) is None
    assert rig.purgatory.pop_overdue(rig.now_ms + 500) == [FetchReady(REF, message)]
    assert [part.records for part in parts(rig.topics.fetch_now(message))] == [b""]


def test_nobody_waits_longer_than_the_node_allows() -> None:
    rig = TopicRig(settings=TopicSettings(fetch_max_wait_ms=1_000))
    rig.made()
    waiting = rig.poll(asking((0, 0), max_wait_ms=2**31 - 1))
    assert isinstance(waiting, DelayedFetch)
    assert waiting.deadline_ms == rig.now_ms + 1_000


@pytest.mark.parametrize("message", [asking((0, 0), max_wait_ms=0), asking((0, 0), min_bytes=0), Fetch(())])
def test_who_does_not_want_to_wait_is_answered_at_once(rig: TopicRig, message: Fetch) -> None:
    assert all(part.records == b"" for part in parts(rig.poll(message)))


def test_a_fetch_waits_until_its_bytes_are_there_over_all_its_partitions(rig: TopicRig) -> None:
    one = len(batch("a"))
    rig.store_now("a")
    waiting = rig.poll(asking((0, 0), (1, 0), min_bytes=3 * one))
    assert isinstance(waiting, DelayedFetch)
    rig.store_now("b", partition=1)
    assert rig.answers == []
    rig.store_now("c")
    (answer,) = rig.answers
    assert [values(part.records) for part in parts(answer)] == [["a", "c"], ["b"]]


def test_bytes_that_were_counted_are_not_read_again(rig: TopicRig) -> None:
    rig.store_now("a" * 100)
    waiting = rig.poll(asking((0, 0), min_bytes=100_000))
    assert isinstance(waiting, DelayedFetch)
    (watch,) = waiting._watches
    assert (watch.counted, watch.counted_to) == (len(batch("a" * 100)), 1)
    rig.store_now("b")
    assert (watch.counted, watch.counted_to) == (len(batch("a" * 100)) + len(batch("b")), 2)


def test_more_than_one_answer_may_hold_is_not_waited_for(rig: TopicRig) -> None:
    rig.store_now("a")
    assert parts(rig.poll(asking((0, 0), min_bytes=1_000_000, max_bytes=10)))[0].records != b""


def test_two_readers_of_one_partition_are_both_answered(rig: TopicRig) -> None:
    rig.poll(asking((0, 0)))
    rig.poll(asking((0, 0)), RequestRef(8, 1))
    rig.store_now("a")
    assert [values(part.records) for answer in rig.answers for part in parts(answer)] == [["a"], ["a"]]


# --- sessions, and a disk that lies ---


def test_no_fetch_session_is_opened_and_none_is_known(rig: TopicRig) -> None:
    rig.store_now("a")
    full = asking((0, 0))
    opening = Fetch(full.topics, session_id=0, session_epoch=0)
    answer = rig.poll(opening)
    assert isinstance(answer, FetchReply)
    assert answer.session_id == 0
    answer = rig.poll(Fetch((), session_id=99, session_epoch=1))
    assert isinstance(answer, FetchReply)
    assert answer.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("min_bytes", [1, 2_000_000])
def test_a_damaged_partition_is_a_storage_error_and_the_other_one_is_read(min_bytes: int) -> None:
    disk = SimDisk()
    rig = TopicRig(disk)
    rig.made()
    for _ in range(3):
        rig.store_now("x" * 3_000)
    rig.store_now("whole", partition=1)
    rig.store.close()
    disk.damage("data/flights-0/00000000000000000000.log", 8, b"\xff\xff\xff\xff")
    rig._open()
    broken, whole = parts(rig.poll(asking((0, 0), (1, 0), min_bytes=min_bytes, max_bytes=4_000_000)))
    assert broken.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(whole.records) == ["whole"]

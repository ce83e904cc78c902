"""Messages that a stream hands out, and when they count as consumed (docs/spec/consumer-client.md#D3, #D4)."""

from typing import Any

import pytest

from muster.core.fetching.records import ConsumerRecord
from muster.errors import (
    CannotDeserialize,
    CommitRefused,
    ConsumerTimeout,
    CorruptRecords,
    MessageTooLarge,
    MusterError,
    OffsetGap,
)
from muster.streams.queue import Chunk, DeliveryLease, NoMessage, PartitionInfo, StreamQueue
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
)
from protocol.record_batch import encode_batch
from tests.client.consumer_rig import Never, P
from tests.client.streams.rig import ConnectorRig, SimApplication


class Queue:
    """A stream's queue, alone."""

    def __init__(self, *, consumed_on_return: bool = False, consumed: int | None = 0) -> None:
        self.lease_from_ms: int | None = 0
        self.reports: list[MusterError] = []
        self.lease = DeliveryLease(lambda: self.lease_from_ms, 6_000)
        self.queue = StreamQueue(self.lease, 2, consumed_on_return=consumed_on_return, report=self.reports.append)
        self.info = PartitionInfo(P[0], 0, 1, consumed)

    def put(self, first: int, end: int, *, epoch: int = 0, is_elsewhere: bool = False, holes: int = 0) -> None:
        records = [ConsumerRecord("t", 0, offset, 1, None, b"") for offset in range(first + holes, end)]
        self.info.waiting += 1
        self.queue.put(Chunk(self.info, epoch, first, end, records, None, is_elsewhere))

    def take(self, now_ms: int = 1_000) -> Any:
        taken = self.queue.take(now_ms)
        return taken.offset if isinstance(taken, ConsumerRecord) else taken


def test_a_message_is_consumed_when_the_next_is_asked_for() -> None:
    queue = Queue()
    queue.put(0, 2)
    assert (queue.take(), queue.info.consumed, queue.queue.in_hand) == (0, 0, queue.info)
    assert (queue.take(), queue.info.consumed) == (1, 1)
    assert (queue.take(), queue.info.consumed, queue.queue.in_hand) == (NoMessage.NOTHING, 2, None)


def test_or_when_it_is_handed_out() -> None:
    queue = Queue(consumed_on_return=True)
    queue.put(0, 2)
    assert (queue.take(), queue.info.consumed, queue.queue.in_hand) == (0, 1, None)


def test_what_compaction_left_out_at_the_end_of_a_chunk_is_consumed_with_it() -> None:
    queue = Queue()
    queue.put(0, 4, holes=3)
    queue.put(4, 9, holes=5)
    assert (queue.take(), queue.take(), queue.info.consumed) == (3, NoMessage.NOTHING, 9)


def test_messages_that_are_consumed_already_are_skipped() -> None:
    queue = Queue(consumed=2)
    queue.put(0, 4)
    assert [queue.take() for _ in range(3)] == [2, 3, NoMessage.NOTHING]


def test_a_gap_is_told_and_passed() -> None:
    queue = Queue()
    queue.put(0, 2)
    queue.put(10, 12, is_elsewhere=True)
    assert [queue.take() for _ in range(4)] == [0, 1, 10, 11]
    (gap,) = queue.reports
    assert isinstance(gap, OffsetGap)
    assert (gap.partition, gap.expected, gap.found) == (P[0], 2, 10)


def test_a_log_that_begins_anew_is_read_from_its_beginning() -> None:
    queue = Queue(consumed=500)
    queue.put(3, 5, is_elsewhere=True)
    assert [queue.take() for _ in range(3)] == [3, 4, NoMessage.NOTHING]
    assert (queue.info.consumed, queue.reports) == (5, [])


def test_a_chunk_of_an_older_epoch_is_never_handed_out() -> None:
    queue = Queue()
    queue.put(0, 2)
    assert queue.take() == 0
    queue.lease.epoch += 1
    queue.put(2, 4)  # of the old one, as a put that came late would be
    assert queue.take() is NoMessage.NOTHING


def test_nothing_is_handed_out_when_the_lease_is_over() -> None:
    queue = Queue()
    queue.put(0, 2)
    assert queue.take(5_999) == 0
    assert queue.take(6_000) is NoMessage.LEASE_OVER
    queue.lease_from_ms = 1_000
    assert queue.take(6_000) == 1
    queue.lease_from_ms = None
    queue.put(2, 3)
    assert queue.take(0) is NoMessage.LEASE_OVER


def test_after_the_marker_nothing_comes() -> None:
    queue = Queue()
    queue.put(0, 2)
    queue.queue.end()
    queue.put(2, 4)
    assert [queue.take(), queue.take()] == [NoMessage.ENDED, NoMessage.ENDED]


def _broken(reads: bytes) -> Any:
    """In place of every answer: these bytes for partition 0, nothing for the others."""

    def script(_who: str, message: Message) -> Message | type[Never] | None:
        if not isinstance(message, Fetch):
            return None
        topics = tuple(
            FetchTopicReply(
                topic.topic,
                tuple(
                    FetchPartitionReply(part.partition, records=reads)
                    for part in topic.partitions
                    if part.partition == 0
                ),
            )
            for topic in message.topics
        )
        return FetchReply(responses=topics) if any(one.partitions for one in topics) else None

    return script


def _one_partition(rig: ConnectorRig, **settings: Any) -> SimApplication:
    rig.make("t", 1)
    return rig.player("C1", consumer_timeout_ms=1_000, **settings)


def test_a_message_that_no_fetch_can_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig, fetch_message_max_bytes=100)
    rig.script = _broken(encode_batch([(None, b"x" * 500)], timestamp_ms=1)[:100])
    player.reads(t=1)
    for _ in range(2):  # it does not go away
        with pytest.raises(MessageTooLarge, match=r"t-0 at offset 0 .* fetch of 100 bytes") as raised:
            next(player.streams[0])
        assert (raised.value.partition, raised.value.offset, raised.value.fetch_bytes) == (P[0], 0, 100)


def test_bytes_that_are_no_records_are_raised_after_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig)
    good = encode_batch([(None, b"a"), (None, b"b")], timestamp_ms=1)
    bad = bytearray(encode_batch([(None, b"c")], base_offset=2, timestamp_ms=1))
    bad[-1] ^= 1
    rig.script = _broken(good + bytes(bad))
    player.reads(t=1)
    assert [next(player.streams[0]).value for _ in range(2)] == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="t-0 at offset 2"):
            next(player.streams[0])


def test_deserializers_are_applied_as_messages_are_handed_out_and_a_refused_one_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch)

    def number(data: bytes) -> int:
        if data == b"1":
            raise ValueError("not this one")
        return int(data)

    player = _one_partition(rig, value_deserializer=number).reads(t=1)
    rig.append(P[0], count=3)
    assert next(player.streams[0]).value == 0
    with pytest.raises(CannotDeserialize, match="offset 1"):
        next(player.streams[0])
    assert next(player.streams[0]).value == 2


def test_committing_counts_what_the_same_thread_has_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig, auto_commit_enable=False).reads(t=1)
    rig.append(P[0], count=3)
    next(player.streams[0])
    assert player.connector.commit_offsets() == {P[0]: 1}
    next(player.streams[0])
    player.leave()  # no commit, since that is not automatic
    again = rig.player("C1", consumer_timeout_ms=1_000).reads(t=1)
    assert next(again.streams[0]).offset == 1


@pytest.mark.parametrize("fails", [False, True])
def test_who_leaves_by_an_exception_was_not_done_with_what_it_had_in_hand(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig).reads(t=1)
    rig.append(P[0], count=3)

    def handles() -> None:
        with player.connector:
            for message in player.streams[0]:
                if message.offset == 1:
                    if fails:
                        raise RuntimeError("cannot handle this")
                    break

    if fails:
        with pytest.raises(RuntimeError):
            handles()
    else:
        handles()
    again = rig.player("C1", consumer_timeout_ms=1_000).reads(t=1)
    assert next(again.streams[0]).offset == (1 if fails else 2)


def test_a_commit_is_tried_again_as_often_as_that_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig, auto_commit_enable=False, offsets_commit_max_retries=3).reads(t=1)
    rig.append(P[0], count=3)
    next(player.streams[0])

    def refuses(_who: str, message: Message) -> Message | None:
        if not isinstance(message, OffsetCommit):
            return None
        part = OffsetCommitPartitionReply(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return OffsetCommitReply((OffsetCommitTopicReply("t", (part,)),))

    rig.script = refuses
    for retry, tries in ((True, 3), (False, 1)):
        rig.log.clear()
        with pytest.raises(CommitRefused, match="COORDINATOR_LOAD_IN_PROGRESS"):
            player.connector.commit_offsets(retry=retry)
        assert len(rig.of("OffsetCommit")) == tries
    rig.script = lambda _who, _message: None
    assert player.connector.commit_offsets() == {P[0]: 1}


def test_largest_is_decided_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that begins at the end commits that, so that no message of a rebalance is passed over."""
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=5)
    first = rig.player("C1", auto_offset_reset="largest", consumer_timeout_ms=1_000).reads(t=1)
    rig.run(1_000)
    first.leave()
    rig.append(P[0], count=2)
    second = rig.player("C2", auto_offset_reset="largest", consumer_timeout_ms=1_000).reads(t=1)
    assert next(second.streams[0]).offset == 5


def test_automatic_commits_come_at_their_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=5)
    player = rig.player("C1", auto_commit_interval_ms=1_000).reads(t=1).iterates()
    rig.run(10_500)
    assert 9 <= len(rig.of("OffsetCommit")) <= 11
    assert [part.owner_epoch for one in rig.of("OffsetCommit") for part in one.about.topics[0].partitions] == [1] * len(
        rig.of("OffsetCommit")
    )
    assert player.errors == []


def test_a_stream_that_timed_out_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    player = _one_partition(rig).reads(t=1)
    with pytest.raises(ConsumerTimeout, match="1000 ms"):
        next(player.streams[0])
    rig.append(P[0], count=1)
    assert next(player.streams[0]).offset == 0

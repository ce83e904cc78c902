"""Reading a range: what transactions hide, and nodes that do not answer for a while."""

from typing import Any

import pytest

from membership.events import NodeAddress
from muster import CannotConnect, RangeReader, Refused, RequestTimedOut
from muster.errors import MusterError
from protocol.errors import ErrorCode
from protocol.messages.data import AbortedTransaction, Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from tests.client.fetching.nodes import Log


class Cluster:
    """Stands in for a `ClusterClient`: one log, and failures that come first."""

    def __init__(self, log: Log, *failures: MusterError, cuts: bool = False, fails_after: int = 1_000) -> None:
        """`cuts`: as nodes did before KIP-74, a batch that does not fit is sent in part. `fails_after` so many answers
        all is refused.
        """
        self.fails_after = fails_after
        self.log = log
        self.cuts = cuts
        self.asked: list[int] = []
        self.failures = list(failures)
        self.isolation: set[int] = set()

    def leader(self, _partition: object, _timeout_s: float) -> NodeAddress:
        return NodeAddress("127.0.0.1", 1, 1)

    def forget_leader(self, _partition: object) -> None:
        """The next answer comes from the same node."""

    def ask(self, message: Fetch, _timeout_s: float, *, node: NodeAddress) -> FetchReply:
        if self.failures:
            raise self.failures.pop(0)
        if len(self.asked) >= self.fails_after:
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no longer")
        asked = message.topics[0].partitions[0]
        self.isolation.add(message.isolation_level)
        self.asked.append(asked.partition_max_bytes)
        records = self.log.read(asked.fetch_offset, asked.partition_max_bytes)
        if self.cuts:
            records = records[: asked.partition_max_bytes]
        aborted = tuple(self.log.aborted) if message.isolation_level else None
        reply = FetchPartitionReply(0, records=records, aborted_transactions=aborted)
        return FetchReply(responses=(FetchTopicReply("flights", (reply,)),))


class Clock:
    """Stands in for the module `time`: a pause is twenty seconds."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, _seconds: float) -> None:
        self._now_s += 20


def transactions() -> Log:
    """Offsets 0 to 2 of producer 1, aborted; 3 and 4 of 2, committed; 6 to 8 of 1, committed; 11 of nobody."""
    log = Log(1)
    log.append(3, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(2, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    log.control(producer_id=1, commits=False)
    log.append(3, producer_id=1, producer_epoch=0, base_sequence=3, transactional=True)
    log.control(producer_id=1)
    log.control(producer_id=2)
    log.append(1)
    log.aborted.append(AbortedTransaction(1, 0))
    return log


def offsets(cluster: Cluster, **settings: Any) -> list[int]:
    return [record.offset for record in reader_of(cluster, 0, cluster.log.end, **settings).records()]


def test_records_of_aborted_transactions_are_left_out_where_only_committed_ones_are_wanted() -> None:
    cluster = Cluster(transactions())
    assert offsets(cluster, isolation_level="read_committed") == [3, 4, 6, 7, 8, 11]
    assert cluster.isolation == {1}
    assert offsets(Cluster(transactions())) == [0, 1, 2, 3, 4, 6, 7, 8, 11]
    with pytest.raises(ValueError, match="isolation_level is 'none'"):
        offsets(cluster, isolation_level="none")


def test_nodes_that_do_not_answer_are_asked_again_for_as_long_as_an_outage_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.blocking.range_reader.time", Clock())
    failures = [
        CannotConnect("refused"),
        RequestTimedOut("no answer"),
    ]
    assert len(offsets(Cluster(transactions(), *failures), timeout_s=5, outage_timeout_s=60)) == 9
    with pytest.raises(RequestTimedOut, match="no answer"):
        offsets(Cluster(transactions(), *failures), timeout_s=5)


def long_log() -> Log:
    log = Log(1)
    for _ in range(300):
        log.append(100)
    return log


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_little_is_fetched_beyond_the_end_of_a_range_once_the_size_of_a_record_is_known(reads_ahead: bool) -> None:
    cluster = Cluster(long_log())
    half = len(cluster.log.read(0, 1 << 30)) // 2
    reader = reader_of(cluster, 0, 20_000, fetch_bytes=half, reads_ahead=reads_ahead)
    assert [record.offset for record in reader.records()] == list(range(20_000))
    (full, *rest) = cluster.asked
    assert full == half
    assert 0 < sum(rest) < 0.6 * half
    size = reader.record_bytes
    assert size is not None
    again = reader_of(cluster, 500, 1_500, record_bytes=size)
    assert [record.offset for record in again.records()] == list(range(500, 1_500))
    assert cluster.asked[-1] < 16 * 1024 + 2 * 1_000 * size


def test_a_batch_larger_than_the_estimate_is_fetched_whole_at_the_second_try() -> None:
    log = Log(1)
    log.append(2_000)
    cluster = Cluster(log, cuts=True)
    assert len(list(reader_of(cluster, 0, 2_000, record_bytes=0.001).records())) == 2_000
    assert cluster.asked == [16 * 1024 + 2, 4 * 1024 * 1024]


def test_what_an_answer_fetched_ahead_raises_comes_once_the_records_before_it_are_handed_out() -> None:
    cluster = Cluster(long_log(), fails_after=2)
    taken: list[int] = []
    with pytest.raises(Refused, match="no longer"):
        take(reader_of(cluster, 0, 30_000, fetch_bytes=64 * 1024, reads_ahead=True), taken)
    assert len(cluster.asked) == 2
    assert taken == list(range(len(taken)))
    assert len(taken) > 2_000


def reader_of(cluster: Cluster, start: int, end: int, **settings: Any) -> RangeReader:
    return RangeReader("b:1", "flights", 0, start, end, cluster=cluster, **settings)  # type: ignore[arg-type]


def take(reader: RangeReader, taken: list[int]) -> None:
    """Put offsets into `taken` one by one, so that those before an error are there."""
    for record in reader.records():
        taken.append(record.offset)  # noqa: PERF401

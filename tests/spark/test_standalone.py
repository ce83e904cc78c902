"""Streams without a group: positions in the checkpoint, first and new partitions, data loss, outages."""

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from muster import CannotConnect, ErrorCode, Refused, TopicPartition
from muster.blocking.cluster import EARLIEST, LATEST
from protocol.messages.topics import MetadataReply, MetadataTopicReply
from pyspark_muster.batch import BatchOptions
from pyspark_muster.control import DRAINED
from pyspark_muster.errors import DataLoss, NoSuchTopic, OptionError
from pyspark_muster.outage import OutageTooLong
from pyspark_muster.source import SCHEMA, DefaultSource
from pyspark_muster.standalone import reader as reader_module
from pyspark_muster.standalone.offsets import from_json, to_json
from pyspark_muster.standalone.reader import StandaloneReader
from pyspark_muster.tasks import RangePartition

P0, P1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
ALL = ReadAllAvailable()


class Cluster:
    """Logs that tests change; the record at offset n has time 1000 + n."""

    def __init__(self) -> None:
        self.logs = {P0: (10, 100), P1: (0, 50)}
        self.open: dict[TopicPartition, int] = {}  # records after the last stable offset
        self.is_away = False

    def ask(self, _message: object) -> MetadataReply:
        return MetadataReply(
            brokers=(), topics=tuple(MetadataTopicReply(name=one) for one in {p.topic for p in self.logs})
        )

    def partition_count(self, topic: str) -> int:
        if self.is_away:
            raise CannotConnect("nobody is there")
        count = sum(one.topic == topic for one in self.logs)
        if not count:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return count

    def offsets(
        self, partitions: list[TopicPartition], timestamp: int, *, isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        if timestamp in (EARLIEST, LATEST):
            beyond = self.open if isolation_level == "read_uncommitted" else {}
            return {one: self.logs[one][timestamp == LATEST] + beyond.get(one, 0) for one in partitions}
        return {one: -1 if timestamp - 1000 >= self.logs[one][1] else timestamp - 1000 for one in partitions}


class Query:
    """Spark's use of the reader: an offset log that outlives it. `read` counts each offset of each batch."""

    def __init__(self, cluster: Cluster, **given: str) -> None:
        self.cluster = cluster
        self.given = {"bootstrap": "b:1", "topics": "flights"} | given
        if "assign" in given or "topicsPattern" in given:
            del self.given["topics"]
        self.log: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.reader = StandaloneReader(BatchOptions.parse(self.given, {}, is_stream=True))
        self.reader._cluster = self.cluster

    def plan(self, limit: ReadLimit = ALL) -> bool:
        """Log the next batch, and return true if there is one."""
        start = self.log[-1] if self.log else self.reader.initialOffset()
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit)))
        if end != start or not self.log:
            self.log.append(end)
        return bool(end != start)

    def last(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the ranges of the newest batch; one that is repeated asks for them again."""
        start = self.log[-2] if len(self.log) > 1 else self.reader.initialOffset()
        tasks = self.reader.partitions(start, self.log[-1])
        assert all(isinstance(task, RangePartition) for task in tasks)
        return {TopicPartition(t.topic, t.partition): (t.start, t.end) for t in tasks if isinstance(t, RangePartition)}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "IDLE_WAIT_S", 0.0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({}, {P0: 100, P1: 50}),
        ({"startingOffsets": "latest"}, {P0: 100, P1: 50}),
        ({"startingOffsets": "Earliest"}, {P0: 10, P1: 0}),
        ({"startingOffsets": '{"flights": {"0": -1, "1": 7}}'}, {P0: 100, P1: 7}),
        ({"startingOffsets": '{"flights": {"0": -2, "1": 7}}'}, {P0: 10, P1: 7}),
        ({"startingTimestamp": "1060"}, {P0: 60, P1: 50}),
        ({"assign": '{"flights": [1]}'}, {P1: 50}),
        ({"topicsPattern": "fl.*"}, {P0: 100, P1: 50}),
    ],
)
def test_the_first_batch_sets_the_positions_and_reads_nothing(
    cluster: Cluster, given: dict[str, str], first: dict[TopicPartition, int]
) -> None:
    query = Query(cluster, **given)
    assert query.plan()
    assert from_json(query.log[-1]) == first
    assert query.last() == {}


def test_a_first_batch_that_is_repeated_later_skips_nothing(cluster: Cluster) -> None:
    query = Query(cluster)
    query.plan()  # logged, and then the query dies
    cluster.logs[P0] = (10, 130)
    query.start()
    assert query.last() == {}
    assert query.plan()
    assert query.last() == {P0: (100, 130)}


def test_a_batch_reads_on_from_the_checkpoint_within_its_limit(cluster: Cluster) -> None:
    query = Query(cluster, startingOffsets="earliest")
    query.plan()
    assert query.plan(ReadMaxRows(40))
    assert sum(end - start for start, end in query.last().values()) == 40
    before = query.last()
    query.start()
    assert query.last() == before
    assert query.plan()
    assert {one: end for one, (_, end) in query.last().items()} == {P0: 100, P1: 50}
    assert query.last() == {P0: (before[P0][1], 100), P1: (before[P1][1], 50)}
    assert not query.plan()


def test_a_new_partition_is_read_from_its_begin(cluster: Cluster) -> None:
    query = Query(cluster)
    query.plan()
    new = TopicPartition("flights", 2)
    cluster.logs[new] = (0, 9)
    assert query.plan()
    assert query.last() == {}
    assert query.plan()
    assert query.last() == {new: (0, 9)}


def test_a_new_partition_whose_first_records_are_deleted_is_data_loss_or_read_from_there(cluster: Cluster) -> None:
    strict, lenient = Query(cluster), Query(cluster, failOnDataLoss="false")
    strict.plan()
    lenient.plan()
    new = TopicPartition("flights", 2)
    cluster.logs[new] = (40, 60)
    with pytest.raises(DataLoss, match=r"flights-2 came after the query began, and its log begins at 40"):
        strict.plan()
    assert lenient.plan()
    assert lenient.plan()
    assert lenient.last() == {new: (40, 60)}


def test_a_start_outside_its_log_is_data_loss_or_moved_into_it(cluster: Cluster) -> None:
    for at, moved in ((3, 10), (500, 100)):
        starts = json.dumps({"flights": {"0": at, "1": 7}})
        with pytest.raises(DataLoss, match=f"startingOffsets has {at} of flights-0, and its log holds 10 to 100"):
            Query(cluster, startingOffsets=starts).plan()
        lenient = Query(cluster, startingOffsets=starts, failOnDataLoss="false")
        assert lenient.plan()
        assert from_json(lenient.log[-1]) == {P0: moved, P1: 7}


def test_what_is_gone_is_data_loss_or_passed_over(cluster: Cluster) -> None:
    strict, lenient = Query(cluster), Query(cluster, failOnDataLoss="false")
    strict.plan()
    lenient.plan()
    cluster.logs = {P0: (0, 60)}  # made anew with one partition
    with pytest.raises(DataLoss, match=r"flights-1 does not exist.*; the log of flights-0 ends at 60.*to 100"):
        strict.plan()
    assert lenient.plan()
    assert lenient.last() == {}
    cluster.logs = {P0: (0, 70)}
    assert lenient.plan()
    assert lenient.last() == {P0: (60, 70)}


def test_a_position_beyond_the_last_stable_offset_waits_and_is_no_loss(cluster: Cluster) -> None:
    query = Query(cluster, startingOffsets='{"flights": {"0": 110, "1": 50}}')
    cluster.open[P0] = 20  # the log ends at 120, and a transaction is open from 100 on
    assert query.plan()
    assert from_json(query.log[-1])[P0] == 110
    assert not query.plan()
    cluster.logs[P0], cluster.open[P0] = (10, 120), 0
    assert query.plan()
    assert query.last() == {P0: (110, 120)}


def test_topics_and_partitions_that_do_not_exist_are_named(cluster: Cluster) -> None:
    with pytest.raises(NoSuchTopic, match="flihgts"):
        Query(cluster, topics="flihgts").plan()
    with pytest.raises(NoSuchTopic, match="'assign' names flights-7"):
        Query(cluster, assign='{"flights": [1, 7]}').plan()
    with pytest.raises(OptionError, match="flights-1 missing"):
        Query(cluster, startingOffsets='{"flights": {"0": 20}}').plan()


def test_a_deleted_topic_among_several_is_passed_over_if_data_may_be_lost(cluster: Cluster) -> None:
    other = TopicPartition("planes", 0)
    cluster.logs[other] = (0, 5)
    query = Query(cluster, topics="flights,planes", failOnDataLoss="false")
    query.plan()
    del cluster.logs[P0], cluster.logs[P1]
    cluster.logs[other] = (0, 8)
    assert query.plan()
    assert query.last() == {other: (5, 8)}


def test_a_run_with_available_now_begins_where_a_topic_was_deleted_if_data_may_be_lost(cluster: Cluster) -> None:
    other = TopicPartition("planes", 0)
    cluster.logs[other] = (0, 5)
    query = Query(cluster, topics="flights,planes", failOnDataLoss="false")
    query.plan()
    del cluster.logs[other]
    cluster.logs[P0] = (10, 120)
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    assert query.plan()
    assert query.last() == {P0: (100, 120)}
    first = Query(cluster, topics="flights,planes", failOnDataLoss="false")
    first.reader.prepareForTriggerAvailableNow()
    with pytest.raises(NoSuchTopic, match="planes"):
        first.plan()
    with pytest.raises(NoSuchTopic, match="planes"):
        Query(cluster, topics="flights,planes").reader.prepareForTriggerAvailableNow()


def test_a_run_with_available_now_ends_where_the_logs_ended_when_it_began(cluster: Cluster) -> None:
    query = Query(cluster, startingOffsets="earliest", minRecordsPerBatch="1000")
    query.reader.prepareForTriggerAvailableNow()
    cluster.logs |= {P0: (10, 130), TopicPartition("flights", 2): (0, 9)}
    while query.plan():
        pass
    assert from_json(query.log[-1]) == {P0: 100, P1: 50}
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    while query.plan():
        pass
    assert from_json(query.log[-1]) == {P0: 130, P1: 50, TopicPartition("flights", 2): 9}


def test_a_batch_waits_for_as_many_records_as_it_was_told(cluster: Cluster) -> None:
    query = Query(cluster, minRecordsPerBatch="20")
    query.plan()
    cluster.logs[P0] = (10, 119)
    assert not query.plan()
    cluster.logs[P1] = (0, 51)
    assert query.plan()


def test_an_outage_is_told_and_endured_and_ends_a_query_at_last(cluster: Cluster) -> None:
    query = Query(cluster)
    query.plan()
    cluster.is_away = True
    assert not query.plan()
    assert "nobody is there" in (query.reader.reportLatestOffset() or {})["state"]
    cluster.is_away = False
    cluster.logs[P0] = (10, 101)
    assert query.plan()
    report = query.reader.reportLatestOffset() or {}
    assert (report["state"], report["maxOffsetsBehindLatest"]) == ("reading", 0)
    assert report["ends"] == {"flights-0": 101, "flights-1": 50}
    brief = Query(cluster, outageTimeoutMs="1")
    brief.reader._outage._since_s = -1.0  # it began long ago
    cluster.is_away = True
    with pytest.raises(OutageTooLong, match="nobody is there"):
        brief.plan()


def test_a_query_is_drained_when_it_is_asked_for_another_batch(cluster: Cluster, tmp_path: Any) -> None:
    drain_file = tmp_path / "drain"
    query = Query(cluster, drainFile=str(drain_file), startingOffsets="earliest")
    query.plan()
    drain_file.touch()
    assert not query.plan()
    assert drain_file.read_text() == DRAINED


def test_options_of_a_stream_without_a_group_are_checked_at_load() -> None:
    theirs = {"kafka.bootstrap.servers": "k1:9092", "subscribe": "flights"}
    assert DefaultSource(theirs | {"startingOffsets": "latest"}).schema() == SCHEMA
    assert DefaultSource(theirs | {"endingOffsets": "latest"}).schema() == SCHEMA
    with pytest.raises(OptionError, match="'startingOffsets' is 'now': it must be 'earliest' or JSON"):
        DefaultSource(theirs | {"startingOffsets": "now"}).schema()
    with pytest.raises(OptionError, match="'endingOffsets' is for batches alone"):
        DefaultSource(theirs | {"endingOffsets": "latest"}).streamReader(SCHEMA)
    with pytest.raises(OptionError, match="must be 'earliest', 'latest' or JSON"):
        DefaultSource(theirs | {"startingOffsets": "now"}).streamReader(SCHEMA)


def test_a_checkpoint_of_a_stream_with_a_group_is_refused() -> None:
    assert to_json({P1: 3, P0: 2}) == {"flights": {"0": 2, "1": 3}}
    with pytest.raises(ValueError, match="needs a new checkpoint"):
        from_json({"seq": 1, "ranges": {"flights-0": [0, 1]}})

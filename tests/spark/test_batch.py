"""`spark.read` without a group: bounds, tasks, and the option names of Spark's own Kafka source."""

import pickle
from typing import Any, ClassVar

import pytest
from pyspark.sql.datasource import InputPartition

from muster import ErrorCode, Refused, TopicPartition
from muster.blocking.cluster import EARLIEST, LATEST
from protocol.messages.topics import MetadataReply, MetadataTopicReply
from pyspark_muster.batch import BatchOptions, BatchReader, plan_ranges
from pyspark_muster.bounds import split
from pyspark_muster.errors import DataLoss, NoSuchTopic, OptionError
from pyspark_muster.options import Options
from pyspark_muster.reader import GroupReader
from pyspark_muster.source import SCHEMA, DefaultSource
from pyspark_muster.standalone.reader import StandaloneReader
from pyspark_muster.synonyms import in_our_names

P0, P1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
NEEDED = {"bootstrap": "127.0.0.1:9390", "topics": "flights"}


class Cluster:
    """Two partitions of `flights`, [10, 100) and [0, 50); the record at offset n has time 1000 + n."""

    logs = {P0: (10, 100), P1: (0, 50)}
    open: ClassVar = {P0: 0, P1: 0}
    """Records after the last stable offset."""

    def ask(self, _message: object) -> MetadataReply:
        names = ("__consumer_offsets", "flights", "planes")
        topics = tuple(MetadataTopicReply(name=name, is_internal=name.startswith("__")) for name in names)
        return MetadataReply(brokers=(), topics=topics)

    def partition_count(self, topic: str) -> int:
        if topic != "flights":
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return 2

    def offsets(
        self, partitions: list[TopicPartition], timestamp: int, *, isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        beyond = self.open if isolation_level == "read_uncommitted" else {}
        return {one: self._offset(*self.logs[one], timestamp) + beyond.get(one, 0) for one in partitions}

    def _offset(self, begin: int, end: int, timestamp: int) -> int:
        if timestamp in (EARLIEST, LATEST):
            return begin if timestamp == EARLIEST else end
        return -1 if timestamp - 1000 >= end else max(begin, timestamp - 1000)


def ranges(**given: str) -> dict[TopicPartition, tuple[int, int]]:
    return plan_ranges(BatchOptions.parse(NEEDED | given, {}), Cluster())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {P0: (10, 100), P1: (0, 50)}),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, {P0: (10, 100), P1: (0, 50)}),
        ({"startingOffsets": '{"flights": {"0": 20, "1": -2}}'}, {P0: (20, 100), P1: (0, 50)}),
        ({"endingOffsets": '{"flights": {"0": 20, "1": -1}}'}, {P0: (10, 20), P1: (0, 50)}),
        ({"endingOffsets": '{"flights": {"0": 10, "1": 7}}'}, {P1: (0, 7)}),
        ({"startingTimestamp": "1030"}, {P0: (30, 100), P1: (30, 50)}),
        ({"startingTimestamp": "1060", "startingOffsets": "earliest"}, {P0: (60, 100)}),
        ({"endingOffsetsByTimestamp": '{"flights": {"0": 1040, "1": 1002}}'}, {P0: (10, 40), P1: (0, 2)}),
        ({"topics": "", "assign": '{"flights": [1]}'}, {P1: (0, 50)}),
        ({"topics": "", "topicsPattern": "fl.*|__.*"}, {P0: (10, 100), P1: (0, 50)}),
    ],
)
def test_a_batch_reads_between_its_bounds(given: dict[str, str], expected: dict[TopicPartition, Any]) -> None:
    if given.get("topics") == "":
        given = {name: text for name, text in given.items() if name != "topics"}
        assert plan_ranges(BatchOptions.parse({"bootstrap": "b:1"} | given, {}), Cluster()) == expected
    else:
        assert ranges(**given) == expected


def test_a_batch_without_records_has_no_task_and_spark_reads_none_in_its_place() -> None:
    reader = BatchReader(BatchOptions.parse(NEEDED, {}))
    assert ranges(startingTimestamp="9999") == {}
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' is 'latest': it must be 'earliest' or JSON"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' is 'earliest': it must be 'latest' or JSON"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "'startingOffsets' has -1 for flights-0"),
        ({"startingOffsets": '{"flights": 7}'}, "'startingOffsets' is .* it must be JSON like"),
        ({"endingOffsets": '{"flights"'}, "'endingOffsets' is .* it must be JSON like"),
        ({"startingTimestamp": "today"}, "'startingTimestamp' is 'today': it must be milliseconds"),
        ({"assign": '{"flights": [0]}'}, "'assign' and 'topics' exclude each other"),
        ({"minPartitions": "some"}, "'minPartitions' is 'some'"),
        ({"group": "delays"}, "a batch joins no group"),
        ({"groupInstanceId": "a"}, "'groupInstanceId' is for members of groups: name a 'group', or omit it"),
        ({"solemember": "true"}, "'soleMember' is for members of groups"),
        ({"newCheckpoint": "startingOffsets"}, "'newCheckpoint' is for members of groups"),
        ({"assignors": "range"}, "'assignors' is for members of groups"),
        ({"sessionTimeoutMs": "20000"}, "'sessionTimeoutMs' is for members of groups"),
        ({"maxPollIntervalMs": "20000"}, "'maxPollIntervalMs' is for members of groups"),
        ({"groupProtocol": "consumer"}, "'groupProtocol' is for members of groups"),
        ({"maxRecordsPerBatches": "7"}, "'maxRecordsPerBatches' is unknown; did you mean 'maxRecordsPerBatch'"),
    ],
)
def test_a_wrong_option_of_a_batch_is_refused_by_name(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        BatchOptions.parse(NEEDED | wrong, {})


def test_bounds_name_all_partitions_and_lie_in_their_logs() -> None:
    with pytest.raises(OptionError, match="flights-1 missing, flights-7 not read"):
        ranges(startingOffsets='{"flights": {"0": 20, "7": 1}}')
    with pytest.raises(DataLoss, match=r"offset 3 of flights-0 was wanted.*10 to 100.*failOnDataLoss"):
        ranges(startingOffsets='{"flights": {"0": 3, "1": 0}}')
    lost = ranges(
        startingOffsets='{"flights": {"0": 3, "1": 0}}',
        endingOffsets='{"flights": {"0": 999, "1": 9}}',
        failOnDataLoss="false",
    )
    assert lost == {P0: (10, 100), P1: (0, 9)}


def test_a_bound_beyond_the_last_stable_offset_is_no_loss_as_long_as_the_log_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(Cluster.open, P0, 20)
    both = ranges(startingOffsets='{"flights": {"0": 110, "1": 0}}')
    assert both == {P1: (0, 50)}, "records of an open transaction are left to another batch"
    until = ranges(endingOffsets='{"flights": {"0": 115, "1": -1}}')
    assert until[P0] == (10, 115), "its task waits for the transaction's end"
    with pytest.raises(DataLoss, match=r"offset 121 of flights-0 was wanted.*10 to 120"):
        ranges(startingOffsets='{"flights": {"0": 121, "1": 0}}')


def test_a_topic_that_does_not_exist_and_a_pattern_without_match_are_errors() -> None:
    with pytest.raises(NoSuchTopic, match="'flihgts'"):
        ranges(topics="flihgts")
    options = BatchOptions.parse({"bootstrap": "b:1", "topicsPattern": "flihg.*"}, {})
    with pytest.raises(NoSuchTopic, match="'flihg"):
        plan_ranges(options, Cluster())


def test_ranges_are_split_into_as_many_tasks_as_wanted() -> None:
    both = {P0: (10, 100), P1: (0, 50), TopicPartition("flights", 2): (5, 5)}
    assert split(both, 0, None) == [(P0, 10, 100), (P1, 0, 50)]
    assert split(both, 2, None) == [(P0, 10, 100), (P1, 0, 50)]
    assert 5 <= len(split(both, 5, None)) <= 6
    assert max(end - start for _, start, end in split(both, 0, 40)) <= 40
    for least in range(20):
        tasks = split(both, least, None)
        assert sum(end - start for _, start, end in tasks) == 140
        assert len(tasks) >= min(least, 140)


def test_the_source_reads_batches_without_a_group_and_streams_with_and_without_one() -> None:
    reader = DefaultSource(NEEDED).reader(SCHEMA)
    assert isinstance(pickle.loads(pickle.dumps(reader)), BatchReader)
    with_group = DefaultSource(NEEDED | {"group": "delays"})
    assert isinstance(with_group.streamReader(SCHEMA), GroupReader)
    with pytest.raises(OptionError, match="a batch joins no group"):
        with_group.reader(SCHEMA)
    assert isinstance(DefaultSource(NEEDED).streamReader(SCHEMA), StandaloneReader)


def test_options_may_have_the_names_of_sparks_own_kafka_source() -> None:
    theirs = {
        "kafka.bootstrap.servers": "k1:9092,k2:9092",
        "subscribe": "flights,planes",
        "kafka.group.id": "delays",
        "maxOffsetsPerTrigger": "7",
        "minOffsetsPerTrigger": "3",
        "maxTriggerDelay": "15m",
        "kafka.security.protocol": "SSL",
        "failOnDataLoss": "false",
    }
    options = Options.parse(in_our_names(theirs, latest=True))
    assert (options.bootstrap, options.group) == ("kafka://k1:9092,k2:9092", "delays")
    assert (options.topics, options.max_records_per_batch) == (("flights", "planes"), 7)
    assert (options.min_records_per_batch, options.max_trigger_delay_ms) == (3, 900_000)
    assert options.starting_offsets == "latest"
    assert options.security is not None
    assert options.security.protocol == "SSL"
    assert Options.parse(in_our_names(NEEDED | {"group": "delays"}, latest=True)).starting_offsets == "earliest"
    earliest = in_our_names(theirs | {"StartingOffsets": "earliest"}, latest=True)
    assert Options.parse(earliest).starting_offsets == "earliest"
    assert isinstance(DefaultSource(theirs).streamReader(SCHEMA), GroupReader)
    pattern = in_our_names({"kafka.bootstrap.servers": "k1", "subscribePattern": "fl.*"}, latest=False)
    assert BatchOptions.parse(pattern, {}).shared.topics_pattern == "fl.*"
    with pytest.raises(OptionError, match="'subscribe' and 'topics' mean the same"):
        in_our_names({"subscribe": "flights", "topics": "flights"}, latest=True)
    with pytest.raises(OptionError, match="'maxTriggerDelay' is 'soon': it must be a number and one of ms, s"):
        in_our_names(theirs | {"maxTriggerDelay": "soon"}, latest=True)
    with pytest.raises(OptionError, match=r"'kafka\.max\.poll\.records' is unknown"):
        Options.parse(in_our_names(theirs | {"kafka.max.poll.records": "5"}, latest=True))

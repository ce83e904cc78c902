"""`maxBytesPerBatch`: how many records fit, by sizes that were sampled."""

import pytest

from muster import TopicPartition
from pyspark_muster.batch import BatchOptions
from pyspark_muster.errors import OptionError
from pyspark_muster.limits.size import SAMPLE_RECORDS, ByteLimit, within_bytes
from pyspark_muster.options import Options
from pyspark_muster.synonyms import in_our_names
from tests.spark.fake_group import FakeGroup
from tests.spark.fake_spark import OPTIONS, FakeQuery, Sink

P0, P1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


def test_the_bytes_of_a_batch_are_shared_among_partitions() -> None:
    positions, ends = {P0: 100, P1: 0}, {P0: 200, P1: 1_000}
    assert within_bytes(positions, ends, {P0: 10.0, P1: 10.0}, 1_000_000) == ends
    assert within_bytes(positions, ends, {P0: 10.0, P1: 10.0}, 400) == {P0: 120, P1: 20}
    assert within_bytes(positions, ends, {P0: 100.0, P1: 10.0}, 400) == {P0: 102, P1: 20}
    assert within_bytes(positions, ends, {P0: 1.0, P1: 10.0}, 2_100) == {P0: 200, P1: 200}


def test_a_record_that_is_larger_than_the_limit_is_read_alone() -> None:
    assert within_bytes({P0: 5, P1: 0}, {P0: 9, P1: 9}, {P0: 1e6, P1: 1e6}, 10) == {P0: 6, P1: 1}


def test_a_partition_without_a_sample_and_one_with_nothing_new_stay_as_they_are() -> None:
    assert within_bytes({P0: 5, P1: 9}, {P0: 9, P1: 9}, {P1: 10.0}, 10) == {P0: 9, P1: 9}


def test_sizes_are_sampled_where_the_batch_begins_and_kept_where_there_is_none() -> None:
    limit = ByteLimit(Options.parse(OPTIONS | {"maxBytesPerBatch": "100"}))
    asked: list[tuple[TopicPartition, int, int]] = []
    sizes: list[float | None] = [10.0, None]

    def measure(one: TopicPartition, start: int, end: int) -> float | None:
        asked.append((one, start, end))
        return sizes.pop(0)

    assert limit.cap({P0: 7, P1: 3}, {P0: 1_000, P1: 3}, measure) == ({P0: 17, P1: 3}, True)
    assert limit.cap({P0: 990}, {P0: 1_000}, measure) == ({P0: 1_000}, False)
    assert asked == [(P0, 7, 7 + SAMPLE_RECORDS), (P0, 990, 1_000)]
    without = ByteLimit(Options.parse(OPTIONS))
    assert without.cap({P0: 7}, {P0: 1_000}, measure) == ({P0: 1_000}, False)


def test_a_query_in_a_group_reads_no_more_than_fits(group: FakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByteLimit, "_measure", lambda *_: 10.0)
    query = FakeQuery(Sink(), maxBytesPerBatch="100", minRecordsPerBatch="1000")
    group.produce(25)
    batches: list[int] = []
    while len(batches) < 20:
        if query.plan():
            tasks = query.tasks()
            batches.append(sum(task.end - task.start for task in tasks))
            query.finish(tasks)
        elif query.sink.rows:
            break
    assert 1 < len(batches) < 20
    assert max(batches) <= 12  # ten, and one for each partition at least
    assert query.sink.rows.total() >= 100 - 10  # what is left is no full batch, and waits for more records
    assert query.sink.repeats == 0


def test_the_option_has_its_name_in_other_sources() -> None:
    options = Options.parse(in_our_names(OPTIONS | {"maxBytesPerTrigger": "4096"}, latest=True))
    assert options.max_bytes_per_batch == 4096
    with pytest.raises(OptionError, match="'maxBytesPerBatch' is '4k': it must be a whole number"):
        BatchOptions.parse({"bootstrap": "b:1", "topics": "t", "maxBytesPerBatch": "4k"}, {}, is_stream=True)

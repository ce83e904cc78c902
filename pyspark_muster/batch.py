"""`spark.read.format("muster")`: a batch of records between two bounds, without a group."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader, InputPartition

from muster import ErrorCode, Refused, TopicPartition
from muster.blocking.cluster import EARLIEST, LATEST, expect
from protocol.messages.topics import Metadata, MetadataReply
from pyspark_muster.bounds import Bound, parse_assign, parse_bound, split
from pyspark_muster.errors import DataLoss, NoSuchTopic, OptionError
from pyspark_muster.options import Options
from pyspark_muster.tasks import RangePartition, ReadSettings, read_task

if TYPE_CHECKING:
    import pyarrow as pa

_OF_BATCHES = (
    "assign",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingTimestamp",
    "endingTimestamp",
    "minPartitions",
)
_IN_LOWER = {name.lower(): name for name in _OF_BATCHES}
Offsets = Mapping[TopicPartition, int]


class BatchOptions(Struct, frozen=True):
    """Options of reading without a group: the applicable ones of reading in a group, and the bounds."""

    shared: Options
    start: Bound
    end: Bound
    assign: tuple[TopicPartition, ...] = ()
    min_partitions: int = 0

    @classmethod
    def parse(
        cls, given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool = False
    ) -> "BatchOptions":
        """Parse Spark's options, names in any case. A stream begins at the logs' ends by default, and has no end.
        Raises `OptionError`.
        """
        own = {_IN_LOWER[name.lower()]: text for name, text in given.items() if name.lower() in _IN_LOWER}
        starts = {name: text for name, text in given.items() if name.lower() == "startingoffsets"}
        rest = {name: text for name, text in given.items() if name.lower() not in {*_IN_LOWER, "startingoffsets"}}
        assign = parse_assign("assign", own["assign"]) if "assign" in own else ()
        if assign:
            for name in rest:
                if name.lower() in ("topics", "topicspattern"):
                    raise OptionError(f"the options 'assign' and {name!r} exclude each other: give one of them")
            rest["topics"] = ",".join({one.topic: None for one in assign})
        least = own.get("minPartitions", "0").strip()
        if not (least.isascii() and least.isdigit()):
            raise OptionError(f"the option 'minPartitions' is {least!r}: it must be a whole number")
        shared = Options.parse(rest, environment, has_group=False)
        if is_stream and (endings := [name for name in own if name.startswith("ending")]):
            raise OptionError(f"the option {endings[0]!r} is for batches alone: a stream has no end, leave it out")
        start, end = parse_bound(own | starts, "starting", is_stream=is_stream), parse_bound(own, "ending")
        return cls(shared, start, end, assign, int(least))


class RequestSender(Protocol):
    """The part of a `ClusterClient` that planning needs."""

    def ask(self, message: Any) -> Any: ...
    def partition_count(self, topic: str) -> int: ...
    def offsets(
        self, partitions: list[TopicPartition], timestamp: int, *, isolation_level: str | None = None
    ) -> Offsets: ...


class BatchReader(DataSourceReader):
    """Plans on the driver, once; reads on executors."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. Raises `NoSuchTopic`, `DataLoss`, `OptionError`, the client's errors."""
        shared = self._options.shared
        with shared.connect() as cluster:
            ranges = plan_ranges(self._options, cluster)
        settings = ReadSettings.of(shared)
        tasks = split(ranges, self._options.min_partitions, shared.max_records_per_task)
        return [RangePartition(settings, *partition, start, end) for partition, start, end in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        if partition.value is None:
            return iter(())  # of a partition that Spark makes if there is none
        return read_task(partition)


def plan_ranges(options: BatchOptions, cluster: RequestSender) -> dict[TopicPartition, tuple[int, int]]:
    """Return the range of each partition; empty ranges are omitted. Raises as `BatchReader.partitions` does."""
    partitions = find_partitions(options.shared, cluster, options.assign)
    options.start.check(partitions, "startingOffsets")
    options.end.check(partitions, "endingOffsets")
    begins, ends = cluster.offsets(partitions, EARLIEST), cluster.offsets(partitions, LATEST)
    starts = resolve(options.start, partitions, begins, ends, cluster)
    stops = resolve(options.end, partitions, begins, ends, cluster)
    ends = high_watermarks(cluster, {one: max(starts[one], stops[one]) for one in partitions}, ends)
    ranges = {}
    for one in partitions:
        lost = [offset for offset in (starts[one], stops[one]) if not begins[one] <= offset <= ends[one]]
        if lost and options.shared.fail_on_data_loss:
            raise DataLoss(
                f"offset {lost[0]} of {one} was wanted, and its log holds {begins[one]} to {ends[one]}; set "
                "failOnDataLoss to false to read what is there"
            )
        start, stop = max(starts[one], begins[one]), min(stops[one], ends[one])
        if start < stop:
            ranges[one] = (start, stop)
    return ranges


def high_watermarks(cluster: RequestSender, offsets: Offsets, ends: Offsets) -> Offsets:
    """Return the ends, and where an offset lies beyond, the high watermark instead: with `read_committed` an end is the
    last stable offset, and a log that ends before an offset has lost records, while one with an open transaction has
    not. Raises the client's errors.
    """
    beyond = [one for one, offset in sorted(offsets.items()) if one in ends and offset > ends[one]]
    if not beyond:
        return ends
    return {**ends, **cluster.offsets(beyond, LATEST, isolation_level="read_uncommitted")}


def find_partitions(
    options: Options,
    cluster: RequestSender,
    assign: tuple[TopicPartition, ...] = (),
    *,
    skips_missing: bool = False,
) -> list[TopicPartition]:
    """Return the partitions to read; with `skips_missing` those of the existing topics, if any exists. Raises
    `NoSuchTopic`, the client's errors.
    """
    pattern = options.topics_pattern
    topics = list(options.topics) if pattern is None else _matching(pattern, cluster)
    found: list[TopicPartition] = []
    missing: list[Refused] = []
    for topic in topics:
        try:
            count = cluster.partition_count(topic)
        except Refused as refused:
            if refused.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            missing.append(refused)
        else:
            found += [TopicPartition(topic, number) for number in range(count)]
    if missing and not (skips_missing and found):
        raise NoSuchTopic(str(missing[0])) from missing[0]
    return _assigned(assign, found, skips_missing=skips_missing) if assign else found


def _assigned(
    assign: tuple[TopicPartition, ...], there: list[TopicPartition], *, skips_missing: bool
) -> list[TopicPartition]:
    missing = [str(one) for one in assign if one not in there]
    if missing and not skips_missing:
        raise NoSuchTopic(f"the option 'assign' names {', '.join(missing)}: there is no such partition")
    return [one for one in assign if one in there]


def _matching(pattern: str, cluster: RequestSender) -> list[str]:
    known = expect(MetadataReply, cluster.ask(Metadata(None))).topics
    names = sorted(topic.name for topic in known if topic.name is not None and not topic.is_internal)
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise NoSuchTopic(f"no topic matches the pattern {pattern!r} (topicsPattern)")
    return found


def resolve(
    bound: Bound, partitions: list[TopicPartition], begins: Offsets, ends: Offsets, cluster: RequestSender
) -> dict[TopicPartition, int]:
    """Return the bound's offset in each partition; its end if all records are older. Raises the client's errors."""
    if bound.offsets is not None:
        logs = {-2: begins, -1: ends}
        return {one: logs[offset][one] if offset in logs else offset for one, offset in bound.offsets.items()}
    times = bound.times_ms
    if bound.time_ms is not None:
        times = dict.fromkeys(partitions, bound.time_ms)
    if times is None:
        return dict(begins if bound.at == "earliest" else ends)
    found: dict[TopicPartition, int] = {}
    for time_ms in sorted(set(times.values())):
        found.update(cluster.offsets([one for one in partitions if times[one] == time_ms], time_ms))
    return {one: offset if offset >= 0 else ends[one] for one, offset in found.items()}

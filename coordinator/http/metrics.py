"""Views -> Prometheus metrics. Names that dashboards for kafka_exporter look for are the same (`kafka_consumergroup_*`,
`kafka_topic_*`, `kafka_brokers`); the others begin with `muster_`. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from coordinator import build_info
from coordinator.core.timings import BOUNDS_MS
from coordinator.http.lag.partitions import PartitionLag
from diagnosis.assignments import Key
from protocol.messages.node import DescribeNodeReply, GroupTally, MeasuredDurations

_MEANINGS: Final = {
    "log_problems": "What is unsafe about the topic that keeps groups and offsets, and its brokers; 0 for nothing.",
    "shards_to_read": "Shards whose logs a started node must read before it is ready; 0 once it has read them.",
    "unowned_shards": "Shards of the offsets log that none of the nodes has.",
    "upstream_reachable": "1 while brokers of the Kafka cluster answer this node, else 0.",
    "upstream_brokers": "Brokers of the Kafka cluster that have a listener here.",
    "upstream_age_ms": "For how long none of its brokers has answered, in milliseconds; 0 while they do.",
    "upstream_topics_missed": "Topics that the cluster does not name any more, and whose offsets are still kept.",
}
"""Help texts of metrics whose names do not explain them."""
_OF_PROBLEM: Final = ("group", "kind")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")


class TopicSum(msgspec.Struct, frozen=True):
    """Sums over a group's partitions of one topic. None, not 0, if there is nothing to add, since alerts must
    distinguish the two."""

    committed: int | None = None
    lag: int | None = None
    committed_lag: int | None = None
    """Lag of only the partitions with a commit, as Kafka's tool counts it."""
    uncommitted: int = 0
    """Partitions without a commit."""

    def plus(self, line: PartitionLag) -> "TopicSum":
        lag = line.lag
        return TopicSum(
            self.committed if line.current_offset is None else (self.committed or 0) + line.current_offset,
            self.lag if lag is None else (self.lag or 0) + lag,
            self.committed_lag if lag is None or line.current_offset is None else (self.committed_lag or 0) + lag,
            self.uncommitted + (line.current_offset is None),
        )


class MeasuredGroup(msgspec.Struct, frozen=True):
    """A group's numbers. `sums`: by topic; `oldest_ms`: the age of the oldest end in them, None if all are current;
    `lag_ms`: its largest lag in time; `commit_age_ms`: time since its last commit."""

    group_id: str
    members: int
    sums: Mapping[str, TopicSum] = {}
    oldest_ms: int | None = None
    lag_ms: int | None = None
    commit_age_ms: int | None = None


class GroupLine(msgspec.Struct, frozen=True):
    """A partition of a group, with series of its own."""

    group_id: str
    line: PartitionLag
    lag_ms: int | None = None

    def order(self) -> tuple[int, str, str, int]:
        """Sort key: the largest lag first, unknown lags last."""
        lag = self.line.lag
        return (1 if lag is None else -lag, self.group_id, self.line.topic, self.line.partition)


class Measured(msgspec.Struct, frozen=True):
    """All numbers of one scrape. `left_out` counts partitions of groups and topics without series of their own."""

    node: DescribeNodeReply
    groups: tuple[MeasuredGroup, ...] = ()
    lines: tuple[GroupLine, ...] = ()
    partition_counts: Mapping[str, int] = {}
    ends: Mapping[Key, int] = {}
    left_out: int = 0
    nodes: int = 1
    problems: tuple[tuple[str, str], ...] = ()
    """Groups and kinds of their open problems."""
    tallies: tuple[GroupTally, ...] = ()
    durations: tuple[MeasuredDurations, ...] = ()
    groups_to_look_at: int = 0
    """Groups that were due for a check, but not checked in this round."""


def exposition(measured: Measured, accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type: OpenMetrics if the client accepts it, else Prometheus' text format, as also
    for a version of either that is none."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(measured))
    ProcessCollector(registry=registry)
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:  # it compares the parts of a version that is none with numbers
        encode, content_type = choose_encoder("")
    return encode(registry), content_type


class _Collector(Collector):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        yield from _node_metrics(self._measured)
        yield from _group_metrics(self._measured)
        yield from _topic_metrics(self._measured)
        yield from _duration_metrics(self._measured)


def _node_metrics(measured: Measured) -> Iterator[Metric]:
    node = measured.node
    info = GaugeMetricFamily("muster_info", "Always 1.", labels=("cluster_id", "node_id", "version"))
    info.add_metric((node.cluster_id, str(node.node_id), node.version), 1)
    yield info
    build = GaugeMetricFamily("muster_build_info", "Always 1.", labels=("version", "build", "interpreter"))
    build.add_metric((node.version, build_info.build(), build_info.interpreter()), 1)
    yield build
    yield _gauge("muster_start_time_seconds", "When the process started.", node.started_wall_ms / 1000)
    yield _gauge("muster_shards", "Shards of the offsets log.", node.shards_total)
    yield _gauge("muster_shards_loaded", "Shards that answer.", node.shards_loaded)
    yield _gauge(
        "muster_metrics_left_out", "Partitions without series of their own; sums count them.", measured.left_out
    )
    states = GaugeMetricFamily("muster_groups", "Groups by state.", labels=("state",))
    for state, count in sorted(node.group_states.items()):
        states.add_metric((state,), count)
    yield states
    causes = CounterMetricFamily("muster_rebalances", "Rebalances begun, by what caused them.", labels=("cause",))
    for cause, count in sorted(node.rebalances_by_cause.items()):
        causes.add_metric((cause,), count)
    yield causes
    waiting = GaugeMetricFamily(
        "muster_purgatory_operations", "Operations that wait for an event or their deadline, by kind.", labels=("kind",)
    )
    for kind, count in sorted(node.waiting.items()):
        waiting.add_metric((kind,), count)
    yield waiting
    taken = {states.name, causes.name, "muster_info", "muster_build_info", "muster_shards", "muster_shards_loaded"}
    for name, value in sorted(node.gauges.items()):
        if (own := _own_name(name)) not in taken:
            taken.add(own)
            yield _gauge(own, _MEANINGS.get(name) or f"{_in_words(name)} now.", value)
    for name, value in sorted(node.counters.items()):
        if (own := _own_name(name).removesuffix("_total")) not in taken:
            taken.add(own)
            yield CounterMetricFamily(own, f"{_in_words(name)} since the process started.", value=value)


def _group_metrics(measured: Measured) -> Iterator[Metric]:
    of_group, of_partition = ("consumergroup",), ("consumergroup", "topic", "partition")
    of_topic = ("consumergroup", "topic")
    prefix = "kafka_consumergroup"
    members = GaugeMetricFamily(f"{prefix}_members", "Members of the group.", labels=of_group)
    current = GaugeMetricFamily(f"{prefix}_current_offset", "Committed offset.", labels=of_partition)
    lag = GaugeMetricFamily(f"{prefix}_lag", "Records between commit and end.", labels=of_partition)
    current_sum = GaugeMetricFamily(f"{prefix}_current_offset_sum", "Committed offsets together.", labels=of_topic)
    lag_sum = GaugeMetricFamily(f"{prefix}_lag_sum", "Lag of all partitions together.", labels=of_topic)
    age = GaugeMetricFamily(
        "muster_consumergroup_end_age_ms", "How old the oldest end behind the group's lag is.", labels=of_group
    )
    for group in measured.groups:
        members.add_metric((group.group_id,), group.members)
        if group.oldest_ms is not None:
            age.add_metric((group.group_id,), group.oldest_ms)
        for topic, total in group.sums.items():
            if total.committed is not None:
                current_sum.add_metric((group.group_id, topic), total.committed)
            if total.lag is not None:
                lag_sum.add_metric((group.group_id, topic), total.lag)
    for one in measured.lines:
        line, labels = one.line, (one.group_id, one.line.topic, str(one.line.partition))
        if line.current_offset is not None:
            current.add_metric(labels, line.current_offset)
        if line.lag is not None:
            lag.add_metric(labels, line.lag)
    yield from (members, current, lag, current_sum, lag_sum)
    yield from _progress_metrics(measured)
    yield from _tally_metrics(measured)
    problems = GaugeMetricFamily(
        "muster_group_problem", "1 while a problem of this kind is open; /v1/problems says more.", labels=_OF_PROBLEM
    )
    for group_id, kind in sorted(set(measured.problems)):
        problems.add_metric((group_id, kind), 1)
    yield problems
    yield _gauge(
        "muster_groups_to_look_at", "Groups due for a look for problems, not yet looked at.", measured.groups_to_look_at
    )
    if age.samples:
        yield age


def _progress_metrics(measured: Measured) -> Iterator[Metric]:
    """Yield lag in time, and lag as Kafka's tool counts it."""
    of_group, of_topic = ("consumergroup",), ("consumergroup", "topic")
    prefix = "muster_consumergroup"
    seconds = GaugeMetricFamily(
        f"{prefix}_lag_seconds",
        "Time since the committed offset was the end.",
        labels=("consumergroup", "topic", "partition"),
    )
    largest = GaugeMetricFamily(f"{prefix}_max_lag_seconds", "Largest lag in time of the group.", labels=of_group)
    age = GaugeMetricFamily(f"{prefix}_commit_age_seconds", "Time since the group's last commit.", labels=of_group)
    committed = GaugeMetricFamily(
        f"{prefix}_committed_lag_sum", "Lag of partitions with a commit, as Kafka's tool counts it.", labels=of_topic
    )
    without = GaugeMetricFamily(f"{prefix}_uncommitted_partitions", "Partitions without a commit.", labels=of_topic)
    for group in measured.groups:
        if group.lag_ms is not None:
            largest.add_metric((group.group_id,), group.lag_ms / 1_000)
        if group.commit_age_ms is not None:
            age.add_metric((group.group_id,), group.commit_age_ms / 1_000)
        for topic, total in group.sums.items():
            if total.committed_lag is not None:
                committed.add_metric((group.group_id, topic), total.committed_lag)
            without.add_metric((group.group_id, topic), total.uncommitted)
    for one in measured.lines:
        if one.lag_ms is not None:
            seconds.add_metric((one.group_id, one.line.topic, str(one.line.partition)), one.lag_ms / 1_000)
    yield from (seconds, largest, age, committed, without)


def _tally_metrics(measured: Measured) -> Iterator[Metric]:
    """Yield counts by group since the start."""
    of_group = ("group",)
    rebalances = CounterMetricFamily("muster_group_rebalances", "Rebalances begun.", labels=of_group)
    takeovers = CounterMetricFamily("muster_group_takeovers", "Static members that were replaced.", labels=of_group)
    refusals = CounterMetricFamily("muster_group_refusals", "Joins and members refused.", labels=of_group)
    fenced = CounterMetricFamily(
        "muster_group_fenced_commits", "Commits of members that were members no more.", labels=of_group
    )
    phases = CounterMetricFamily(
        "muster_group_state_seconds", "Time in each state, when it ended.", labels=("group", "state")
    )
    for one in measured.tallies:
        rebalances.add_metric((one.group_id,), one.rebalances)
        takeovers.add_metric((one.group_id,), one.takeovers)
        refusals.add_metric((one.group_id,), one.refusals)
        fenced.add_metric((one.group_id,), one.fenced_commits)
        for state, ms in sorted(one.phase_ms.items()):
            phases.add_metric((one.group_id, state), ms / 1_000)
    yield from (rebalances, takeovers, refusals, fenced, phases)


def _duration_metrics(measured: Measured) -> Iterator[Metric]:
    requests = HistogramMetricFamily(
        "muster_request_seconds", "From reading a request to its answer; heartbeats are not counted.", labels=("api",)
    )
    syncs = HistogramMetricFamily("muster_sync_seconds", "Flushes of the write-ahead log.")
    lag = HistogramMetricFamily("muster_loop_lag_seconds", "Lateness of the event loop, measured each second.")
    families = {"request": requests, "sync": syncs, "loop lag": lag}
    for one in measured.durations:
        families[one.what].add_metric((one.api,) if one.api else (), _buckets(one.counts), one.sum_ms / 1_000)
    yield from (requests, syncs, lag)


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    bounds = [*(f"{bound / 1_000:g}" for bound in BOUNDS_MS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))


def _topic_metrics(measured: Measured) -> Iterator[Metric]:
    yield _gauge("kafka_brokers", "Nodes or brokers clients may connect to.", measured.nodes)
    counts = GaugeMetricFamily("kafka_topic_partitions", "Partitions of the topic.", labels=("topic",))
    for topic, count in measured.partition_counts.items():
        counts.add_metric((topic,), count)
    ends = GaugeMetricFamily(
        "kafka_topic_partition_current_offset", "End of the partition.", labels=("topic", "partition")
    )
    for (topic, partition), end in measured.ends.items():
        ends.add_metric((topic, str(partition)), end)
    yield from (counts, ends)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _in_words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _own_name(name: str) -> str:
    return "muster_" + _NOT_IN_A_NAME.sub("_", name).lower()

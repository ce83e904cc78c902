"""Metrics of clients: what is measured, under Kafka's names, and what prometheus-client makes of it."""

import subprocess
import sys
from math import isnan
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from membership.events import CallFailed, MemberEffect, MemberEvent, Replied, SendRequest, TimePassed
from muster import Consumer, Producer
from muster.core.metrics.consumer import ConsumerMetrics
from muster.core.metrics.measured import MeasuredCore
from muster.core.metrics.measurements import Measurements
from muster.metrics import collector
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply, Produce
from protocol.messages.groups import JoinGroup, JoinGroupReply, SyncGroup, SyncGroupReply
from protocol.messages.offsets import OffsetCommit
from tests.client.consumer_rig import ConsumerRig, P

# -------------------------------------------------------------------------------------------------------- measurements


def test_statistics_are_of_the_last_minute_and_totals_of_all_time() -> None:
    values = Measurements()
    assert isnan(values.mean(0)) and isnan(values.largest(0)) and values.rate(0) == 0.0
    values.record(100, 0)
    values.record(300, 10_000)
    assert (values.mean(10_000), values.largest(10_000)) == (200, 300)
    values.record(50, 30_000)
    assert (values.mean(30_000), values.largest(30_000)) == (150, 300), "the sample before counts still"
    values.record(10, 60_000)
    assert (values.mean(60_000), values.largest(60_000)) == (30, 50), "the first sample is a minute old"
    assert isnan(values.mean(120_000)) and values.rate(120_000) == 0.0
    assert (values.count, values.total) == (4, 460)


def test_rates_are_by_the_second_and_a_sample_that_has_just_begun_counts_as_a_whole_one() -> None:
    values = Measurements()
    for _ in range(30):
        values.record(4, 1_000)
    assert values.rate(1_000) == 1.0 and values.rate(1_000, of_values=True) == 4.0
    values.record(4, 31_000)
    assert values.rate(41_000) == 31 / 40


def test_a_thousand_measurements_keep_two_samples() -> None:
    values = Measurements()
    for number in range(1_000):
        values.record(1, number * 1_000)
    assert len(values._samples) == 2 and values.count == 1_000


# ------------------------------------------------------------------------------------------------------ measured cores


class Scripted:
    """A core that asks what it is told to."""

    next_deadline_ms = 7

    def __init__(self) -> None:
        self.effects: list[MemberEffect] = []
        self.events: list[MemberEvent] = []

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        self.events.append(event)
        effects, self.effects = self.effects, []
        return effects


class Steps:
    def __init__(self) -> None:
        self.core, self.metrics = Scripted(), ConsumerMetrics()
        self.measured = MeasuredCore(self.core, self.metrics)
        self.calls = 0

    def ask(self, message: Message, now_ms: int) -> int:
        self.calls += 1
        self.core.effects = [SendRequest(self.calls, None, message)]
        assert len(self.measured.step(TimePassed(), now_ms)) == 1
        return self.calls

    def answer(self, call: int, reply: Message | None, now_ms: int) -> None:
        self.measured.step(CallFailed(call) if reply is None else Replied(call, reply), now_ms)


def test_a_measured_core_does_what_it_does_unmeasured() -> None:
    steps = Steps()
    assert steps.measured.next_deadline_ms == 7
    call = steps.ask(Fetch(()), 0)
    steps.answer(call, FetchReply(), 5)
    assert [type(event) for event in steps.core.events] == [TimePassed, Replied]


def test_latency_size_and_throttle_time_of_fetches_are_measured_where_they_are_answered() -> None:
    steps = Steps()
    records = FetchTopicReply(
        "t", (FetchPartitionReply(0, records=b"x" * 70), FetchPartitionReply(1, records=b"y" * 30))
    )
    slow, fast, lost = steps.ask(Fetch(()), 0), steps.ask(Fetch(()), 10), steps.ask(Fetch(()), 10)
    steps.answer(fast, FetchReply(), 20)
    steps.answer(slow, FetchReply(responses=(records,), throttle_time_ms=40), 90)
    steps.answer(lost, None, 5_000)
    steps.answer(fast, FetchReply(), 6_000)  # doubled
    read = steps.metrics.of_fetching(10_000)
    assert {name: read[name] for name in read if not name.endswith("rate")} == {
        "fetch-latency-avg": 50,
        "fetch-latency-max": 90,
        "fetch-total": 2,
        "fetch-size-avg": 50,
        "fetch-size-max": 100,
        "bytes-consumed-total": 100,
        "fetch-throttle-time-avg": 20,
        "fetch-throttle-time-max": 40,
    }


def test_a_rebalance_lasts_from_its_first_join_to_its_last_sync() -> None:
    steps = Steps()
    assert steps.metrics.of_membership(0)["last-rebalance-seconds-ago"] == -1
    join, sync = JoinGroup("g", 1, "", "consumer", ()), SyncGroup("g", 1, "m")
    steps.answer(steps.ask(join, 1_000), JoinGroupReply(error_code=ErrorCode.MEMBER_ID_REQUIRED), 1_010)
    steps.answer(steps.ask(join, 1_010), JoinGroupReply(), 4_010)
    steps.answer(steps.ask(sync, 4_010), SyncGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 4_020)
    steps.answer(steps.ask(join, 4_020), JoinGroupReply(), 4_520)
    steps.answer(steps.ask(sync, 4_520), SyncGroupReply(), 4_620)
    read = steps.metrics.of_membership(10_620)
    assert {name: read[name] for name in read if "rebalance" in name and "rate" not in name} == {
        "rebalance-latency-avg": 3_620,
        "rebalance-latency-max": 3_620,
        "rebalance-latency-total": 3_620,
        "rebalance-total": 1,
        "failed-rebalance-total": 1,
        "last-rebalance-seconds-ago": 6.0,
    }
    assert (read["join-total"], read["join-time-max"]) == (2, 3_000)
    assert (read["sync-total"], read["sync-time-avg"]) == (1, 100)
    steps.answer(steps.ask(join, 20_000), None, 20_010)
    assert steps.metrics.of_membership(20_010)["failed-rebalance-total"] == 2


# ------------------------------------------------------------------------------------------------------------- clients


def lately(rig: ConsumerRig, kind: str) -> list[int]:
    return [one.at_ms for one in rig.requests if one.kind == kind]


def test_a_consumer_says_what_it_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 2)
    consumer = rig.consumer("A", "t")
    new = consumer.metrics()
    assert new["fetch-total"] == new["rebalance-total"] == new["assigned-partitions"] == 0
    assert isnan(new["fetch-latency-avg"]) and isnan(new["records-lag-max"])
    rig.steady_again(consumer)
    joined, synced = lately(rig, "JoinGroup")[0], lately(rig, "SyncGroup")[-1]
    read = consumer.metrics()
    assert (read["rebalance-total"], read["assigned-partitions"]) == (1, 2)
    assert read["rebalance-latency-avg"] >= synced - joined > 0
    assert 0 <= read["last-rebalance-seconds-ago"] < 1

    rig.latency_ms = lambda message: 20 if isinstance(message, OffsetCommit) else 1
    rig.append(P[0], count=30)
    rig.append(P[1], count=3)
    rig.polls(consumer, for_ms=2_000)
    rig.append(P[0], count=5)  # not polled
    rig.run(1_000)
    before = rig.node.now_ms
    consumer.commit()
    assert consumer.metrics()["commit-latency-max"] == rig.node.now_ms - before >= 21
    read = consumer.metrics()
    assert (read["records-consumed-total"], read["commit-total"]) == (33, 1)
    assert read["bytes-consumed-total"] > 33 and read["fetch-size-max"] <= read["bytes-consumed-total"]
    assert read["records-lag-max"] == 5 and read["records-lead-min"] == 3
    assert consumer.metrics(P[0]) == {"records-lag": 5, "records-lead": 30}
    assert consumer.metrics(P[1]) == {"records-lag": 0, "records-lead": 3}
    assert 2 <= read["fetch-latency-avg"] <= read["fetch-latency-max"] <= 502
    with pytest.raises(ValueError, match="t-7 is not assigned"):
        consumer.metrics(P[7])
    consumer.close(5.0)
    assert consumer.metrics()["records-consumed-total"] == 33


def test_throttled_fetches_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    rig.script = lambda _who, message: FetchReply(throttle_time_ms=250) if isinstance(message, Fetch) else None
    rig.polls(consumer, for_ms=2_000)
    assert consumer.metrics()["fetch-throttle-time-max"] == 250


def test_records_count_as_consumed_when_they_are_handed_out_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def consumed() -> float:
        return consumer.metrics()["records-consumed-total"]

    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = rig.consumer("A", "t", max_poll_records=10)
    rig.steady(consumer)
    rig.append(P[0], count=25)
    rig.run(1_000)
    for record in consumer:
        assert consumed() == record.offset + 1
        if record.offset == 3:
            break
    assert consumed() == 4, "the rest of the ten goes back"
    assert len(consumer.poll(1.0)) == 10 and consumed() == 14
    consumer.seek(P[0], 20)
    assert len(consumer.poll(1.0)) == 5 and consumed() == 19


def test_without_a_group_there_is_nothing_of_rebalances(monkeypatch: pytest.MonkeyPatch) -> None:
    ConsumerRig(monkeypatch)
    read = Consumer("node:9").metrics()
    assert "fetch-total" in read and "rebalance-total" not in read and "commit-total" not in read


def test_a_producer_says_what_it_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    producer = Producer("node:9", max_block_ms=1_000, buffer_memory_bytes=1 << 20, delivery_timeout_ms=31_000)
    rig.latency_ms = lambda message: 20 if isinstance(message, Produce) else 1
    for _ in range(3):
        producer.send("t", b"x" * 100, timestamp_ms=7)
    waiting = producer.metrics()
    assert (waiting["record-send-total"], waiting["buffer-total-bytes"]) == (0, 1 << 20)
    assert waiting["buffer-available-bytes"] < (1 << 20) - 300
    producer.flush(5.0)
    read = producer.metrics()
    assert (read["record-send-total"], read["record-error-total"], read["requests-in-flight"]) == (3, 0, 0)
    assert read["buffer-available-bytes"] == 1 << 20
    assert 21 <= read["request-latency-avg"] <= 25
    assert 300 < read["batch-size-max"] == read["byte-total"] < 1_000
    rig.is_up = False
    producer.send("t", b"y")
    rig.run(40_000)
    assert producer.metrics()["record-error-total"] == 1
    with pytest.raises(Exception, match="not acknowledged"):
        producer.close(1.0)


# ---------------------------------------------------------------------------------------------------------- prometheus


def samples(*clients: Any) -> dict[tuple[str, ...], float]:
    """Samples as a metrics server reads them, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector(*clients))
    text = generate_latest(registry).decode()
    names = ("client_id", "topic", "partition")
    return {
        (sample.name, *(sample.labels[name] for name in names if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_clients_have_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 2)
    one, two = rig.consumer("A", "t"), rig.consumer("B", "t")
    rig.steady(one, two)
    rig.append(P[0], P[1], count=4)
    rig.polls(one, two, for_ms=1_000)
    rig.append(*one.assignment, count=2)
    producer = Producer("node:9", client_id="A")
    rig.run(1_000)
    read = samples(one, two, producer)
    assert read["muster_consumer_records_consumed_total", "A"] == 4
    assert read["muster_consumer_records_consumed_total", "B"] == 4
    assert read["muster_consumer_rebalance_total", "A"] == one.metrics()["rebalance-total"]
    assert read["muster_consumer_fetch_latency_avg", "B"] == two.metrics()["fetch-latency-avg"]
    of_partitions = {labels: value for labels, value in read.items() if labels[0] == "muster_consumer_records_lag"}
    assert sorted((labels[1:], value) for labels, value in of_partitions.items()) == sorted(
        ((client, "t", str(mine.partition)), lag)
        for client, lag, held in (("A", 2, one.assignment), ("B", 0, two.assignment))
        for mine in held
    )
    assert read["muster_producer_record_send_total", "A"] == 0
    kinds = {family.name: family.type for family in collector(one, producer).collect()}
    assert kinds["muster_consumer_fetch"] == kinds["muster_producer_record_send"] == "counter"
    assert kinds["muster_consumer_fetch_rate"] == "gauge"


def test_clients_that_could_not_be_told_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ConsumerRig(monkeypatch)
    with pytest.raises(ValueError, match="two consumers have the client_id 'muster': give each its own"):
        collector(Consumer("node:9"), Consumer("node:9"))
    collector(Consumer("node:9"), Producer("node:9"))


def test_prometheus_client_is_imported_by_nobody_who_does_not_want_it() -> None:
    program = "import muster, muster.aio, muster.metrics, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

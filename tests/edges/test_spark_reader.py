"""The reader of a Spark query against a real `musterd`, without Spark: it is called as Spark calls it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from muster import Consumer, ErrorCode, Producer, TopicPartition
from muster.blocking import ClusterClient
from protocol.messages.groups import (
    ApplyOffsets,
    ApplyOffsetsReply,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsReply,
    OffsetChange,
    ReportedFact,
)
from protocol.messages.reports import DrainMembers, DrainMembersReply
from protocol.messages.topics import DeletableTopic, DeleteTopics
from pyspark_muster import member as member_module
from pyspark_muster import reader as reader_module
from pyspark_muster.control import Finished, send_finished
from pyspark_muster.errors import Drained, NoSuchTopic
from pyspark_muster.options import Options
from pyspark_muster.reader import GroupReader
from tests.edges.musterd import Daemon, running, within
from tests.edges.test_client import create, members_of

PARTITIONS = 4
HELD_S = 4
"""Time that a batch is under way, many times what a service may pause."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path_factory.mktemp("musterd") / "data", *settings) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers have a process of their own under Spark; here outages are noticed sooner, too."""
    monkeypatch.setattr(member_module, "ANSWER_S", 0.5)
    monkeypatch.setattr(reader_module, "_leave_on_sigterm", lambda: None)


class Query:
    """The checkpoint of a query, and what its tasks read."""

    def __init__(self, reader: GroupReader) -> None:
        self.reader = reader
        self.offset: dict[str, Any] = reader.initialOffset()
        self.rows: list[tuple[str, int, int, bytes]] = []

    def plan(self) -> list[Any]:
        """Ask for a batch; its tasks."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, ReadAllAvailable())))
        tasks = self.reader.partitions(self.offset, end)
        self.offset = end
        return tasks

    def run(self, tasks: list[Any]) -> int:
        before = len(self.rows)
        for task in tasks:
            for batch in self.reader.read(task):
                self.rows += [
                    (row["topic"], row["partition"], row["offset"], row["value"]) for row in batch.to_pylist()
                ]
        return len(self.rows) - before

    def batch(self) -> int:
        return self.run(self.plan())

    @property
    def report(self) -> dict[str, Any]:
        return self.reader.reportLatestOffset() or {}


@contextmanager
def query(daemon: Daemon, group: str, topics: str, **options: str) -> Iterator[Query]:
    given = {"bootstrap": daemon.bootstrap, "group": group, "topics": topics}
    given |= {"sessionTimeoutMs": "1000", "heartbeatIntervalMs": "200"}
    reader = GroupReader(Options.parse(given | options))
    try:
        yield Query(reader)
    finally:
        reader.stop()


def write(daemon: Daemon, topic: str, records: int) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(records):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def test_between_two_triggers_a_rebalance_is_served_once_the_driver_says_that_the_batch_is_finished(
    daemon: Daemon, name: str
) -> None:
    create(daemon, name, PARTITIONS)
    write(daemon, name, 100)
    with query(daemon, name, name) as slow, query(daemon, name, name) as other:
        assert slow.batch() == 100
        generation = slow.report["generation"]
        joining = threading.Thread(target=other.plan)
        joining.start()
        assert within(30, lambda: members_of(daemon, name) == 2)
        assert slow.report["generation"] == generation, "a batch may be under way"
        send_finished(slow.report["control"], Finished(slow.offset["seq"]))
        joining.join(60)
        assert not joining.is_alive()
        write(daemon, name, 100)
        assert other.batch() + slow.batch() == 100
        assert len(set(slow.rows) | set(other.rows)) == 200


def test_a_member_that_left_because_its_trigger_is_slow_reads_in_every_trigger_all_the_same(
    daemon: Daemon, name: str
) -> None:
    create(daemon, name, PARTITIONS)
    with query(daemon, name, name, maxPollIntervalMs="300") as slow:
        for _ in range(3):
            write(daemon, name, 40)
            assert slow.batch() == 40
            assert within(10, lambda: members_of(daemon, name) == 0)  # left: nobody polled
        assert "maxPollIntervalMs" in slow.report["state"]
    assert len(set(slow.rows)) == len(slow.rows) == 120


def test_a_query_endures_a_daemon_that_is_away_and_so_does_a_task(tmp_path: Path, name: str) -> None:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        create(daemon, name, PARTITIONS)
        write(daemon, name, 40)
        with query(daemon, name, name, assignmentTimeoutMs="1000", sessionTimeoutMs="6000") as one:
            assert one.batch() == 40
            write(daemon, name, 40)
            tasks = one.plan()
            daemon.kill()
            reading = threading.Thread(target=one.run, args=(tasks,))
            reading.start()
            reading.join(0.5)
            daemon.start()
            reading.join(60)
            assert len(one.rows) == 80
            daemon.kill()
            assert one.batch() == 0
            assert within(30, lambda: one.batch() == 0 and "no answer" in one.report["state"])
            daemon.start()
            write(daemon, name, 40)
            assert within(30, lambda: one.batch() == 40)
        assert len(set(one.rows)) == len(one.rows) == 120


def test_a_misspelt_topic_and_a_pattern_without_match_are_errors_that_name_them(daemon: Daemon, name: str) -> None:
    with query(daemon, name, f"{name}-x") as one, pytest.raises(NoSuchTopic, match=f"{name}-x"):
        one.plan()
    with query(daemon, name, "", topicsPattern=f"{name}-x.*") as one, pytest.raises(NoSuchTopic, match=f"{name}-x"):
        one.plan()


def test_a_pattern_reads_all_topics_that_match(daemon: Daemon, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        create(daemon, topic, PARTITIONS)
        write(daemon, topic, 20)
    with query(daemon, name, "", topicsPattern=f"{name}-[ab]") as one:
        assert one.batch() == 40


def test_a_topic_deleted_among_several_does_not_end_a_query_that_may_lose_data(daemon: Daemon, name: str) -> None:
    kept, deleted = f"{name}-a", f"{name}-b"
    for topic in (kept, deleted):
        create(daemon, topic, PARTITIONS)
        write(daemon, topic, 20)
    with query(daemon, name, f"{kept},{deleted}", failOnDataLoss="false") as one:
        assert one.batch() == 40
        write(daemon, kept, 20)
        write(daemon, deleted, 20)
        tasks = one.plan()
        with ClusterClient(daemon.bootstrap) as client:
            reply: Any = client.ask(DeleteTopics((DeletableTopic(deleted),), 5_000))
            assert [answer.error_code for answer in reply.responses] == [ErrorCode.NONE]
        assert 20 <= one.run(tasks) <= 40
        write(daemon, kept, 20)
        assert within(20, lambda: one.batch() == 20)
        assert one.report["deletedTopics"] == [deleted]


def test_a_service_beside_a_slow_query_goes_on_where_all_are_cooperative(daemon: Daemon, name: str) -> None:
    create(daemon, name, PARTITIONS)
    heard: list[float] = []
    stopped = threading.Event()

    def serve() -> None:
        with Consumer(
            daemon.bootstrap, name, assignors=["cooperative-sticky"], auto_offset_reset="earliest", client_id="service"
        ) as consumer:
            consumer.subscribe([name])
            while not stopped.is_set():
                if consumer.poll(0.05):
                    heard.append(time.monotonic())

    def produce() -> None:
        with Producer(daemon.bootstrap) as producer:
            while not stopped.wait(0.02):
                for number in range(PARTITIONS):
                    producer.send(name, b"x", partition=number)

    threads = [threading.Thread(target=work, daemon=True) for work in (serve, produce)]
    for thread in threads:
        thread.start()
    try:
        with query(daemon, name, name, assignors="cooperative-sticky") as slow:
            assert within(10, lambda: heard)
            assert within(20, lambda: slow.batch() > 0)
            assert within(10, lambda: members_of(daemon, name) == 2)
            began = len(heard)
            with Consumer(daemon.bootstrap, name, assignors=["cooperative-sticky"]) as third:
                third.subscribe([name])
                third.poll(0.1)  # a rebalance begins, and the query has a batch under way
                slow.plan()
                generation = slow.report["generation"]
                held_until_s = time.monotonic() + HELD_S
                assert within(30, lambda: heard[-1] > held_until_s), "it goes on while the query's batch is under way"
                assert slow.report["generation"] == generation, "the rebalance waits for the batch"
                pauses = [later - earlier for earlier, later in zip(heard[began:], heard[began + 1 :], strict=False)]
                print(f"the service's longest pause beside a batch of {HELD_S} s: {max(pauses):.2f} s")
                assert max(pauses) < 1
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_a_batch_has_about_as_many_bytes_as_it_may(daemon: Daemon, name: str) -> None:
    create(daemon, name, PARTITIONS)
    with Producer(daemon.bootstrap) as producer:
        for number in range(400):
            producer.send(name, bytes(1_000), partition=number % PARTITIONS)
    with query(daemon, name, name, maxBytesPerBatch="100000") as one:
        assert within(10, lambda: one.batch() > 0)
        assert 40 <= len(one.rows) <= 110
        assert within(10, lambda: one.batch() >= 0 and len(one.rows) == 400)
    assert len(set(one.rows)) == 400


def test_a_run_with_available_now_that_has_nothing_to_read_does_not_join(daemon: Daemon, name: str) -> None:
    create(daemon, name, PARTITIONS)
    write(daemon, name, 40)
    for expected in (40, 0):
        with query(daemon, name, name) as one:
            one.reader.prepareForTriggerAvailableNow()
            assert one.batch() == expected
            assert one.batch() == 0
            assert one.report["ends"] == {str(TopicPartition(name, number)): 10 for number in range(PARTITIONS)}
            assert one.report["generation"] == (1 if expected else -1)


def test_operators_see_what_a_query_does_and_drain_it_without_loss(daemon: Daemon, name: str) -> None:
    create(daemon, name, PARTITIONS)
    write(daemon, name, 40)
    with ClusterClient(daemon.bootstrap) as operator, query(daemon, name, name) as one:

        def member() -> DescribedMember:
            (group,) = operator.ask_coordinator(
                DescribeGroupsReply, name, DescribeGroups((name,), with_facts=True)
            ).groups
            (found,) = group.members
            return found

        assert one.batch() == 40
        send_finished(one.report["control"], Finished(one.offset["seq"], facts={"query": "sums", "batch": "0"}))
        told = (ReportedFact("query", "sums"), ReportedFact("batch", "0"), ReportedFact("state", "reading"))
        assert within(30, lambda: member().reported == told)
        write(daemon, name, 40)
        assert one.batch() == 40  # under way, until the driver says otherwise
        request = DrainMembers(name, (member().member_id,))
        (answer,) = operator.ask_coordinator(DrainMembersReply, name, request).members
        assert not answer.error_code
        assert within(30, lambda: one.reader._is_asked_to_drain)
        assert member().is_draining
        send_finished(one.report["control"], Finished(one.offset["seq"]))
        assert within(30, lambda: members_of(daemon, name) == 0), "it leaves before its next trigger"
        with pytest.raises(Drained):
            one.plan()
    with query(daemon, name, name) as after:
        assert after.batch() == 0, "all it read is committed"
        write(daemon, name, 8)
        assert within(30, lambda: after.batch() == 8)


def test_a_query_starts_again_where_an_operator_has_set_its_group(daemon: Daemon, name: str) -> None:
    create(daemon, name, PARTITIONS)
    write(daemon, name, 40)
    with query(daemon, name, name) as first:
        assert first.batch() == 40
        first.plan()  # its end is logged, so it is committed
    assert within(30, lambda: members_of(daemon, name) == 0)
    back = tuple(OffsetChange(name, number, 10, 4) for number in range(PARTITIONS))
    with ClusterClient(daemon.bootstrap) as operator:
        assert operator.ask_coordinator(ApplyOffsetsReply, name, ApplyOffsets(name, back, "reset")).number >= 0
    with query(daemon, name, name) as again:
        again.offset = first.offset  # of the checkpoint
        assert again.batch() == 4 * 6
        assert min(offset for _, _, offset, _ in again.rows) == 4

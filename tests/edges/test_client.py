"""The blocking client against a real `musterd`: sockets, threads, processes that die."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import (
    CommitRefused,
    Consumer,
    ConsumerRecord,
    Fenced,
    GroupMember,
    GroupRefused,
    NoOffset,
    OffsetOutOfRange,
    Producer,
    RangeReader,
    Refused,
    TopicPartition,
)
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import Daemon, running, within

Partitions = tuple[TopicPartition, ...]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path_factory.mktemp("client") / "data", *settings) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    return shared.revived()


@pytest.fixture
def topic(daemon: Daemon, name: str) -> str:
    """One of four partitions, and the name of a group too."""
    create(daemon, name, 4)
    return name


@pytest.fixture
def every(topic: str) -> Partitions:
    return tuple(TopicPartition(topic, number) for number in range(4))


def create(daemon: Daemon, topic: str, partitions: int) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(CreateTopics((CreatableTopic(topic, partitions),)))
    assert isinstance(reply, CreateTopicsReply)
    assert reply.topics[0].error_code == ErrorCode.NONE


def members_of(daemon: Daemon, group: str) -> int:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(DescribeGroups((group,)))
    assert isinstance(reply, DescribeGroupsReply)
    return len(reply.groups[0].members)


def poll_all(*members: GroupMember, until: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll them in turns, as their applications would."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for member in members:
            member.poll(0.02)
        if until():
            return True
    return False


def produce(daemon: Daemon, count: int, topic: str, partition: int | None = 0) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)


# ------------------------------------------------------------------------------------------------------------- members


def test_one_member_gets_everything_and_two_share(daemon: Daemon, topic: str, every: Partitions) -> None:
    with GroupMember(daemon.bootstrap, topic, [topic]) as first:
        assert first.poll(10)
        assert first.assignment == every
        with GroupMember(daemon.bootstrap, topic, [topic]) as second:
            assert poll_all(
                first, second, until=lambda: bool(second.assignment) and second.is_steady and first.is_steady
            )
            assert first.assignment + second.assignment in {every, every[2:] + every[:2]}
            assert first.generation_id == second.generation_id
        assert poll_all(first, until=lambda: first.assignment == every)
    assert members_of(daemon, topic) == 0


def test_callbacks_come_in_order_and_in_poll_and_close_alone(daemon: Daemon, topic: str) -> None:
    told: list[str] = []
    thread = threading.get_ident()

    def note(word: str) -> Callable[[tuple[TopicPartition, ...]], None]:
        def noted(partitions: tuple[TopicPartition, ...]) -> None:
            assert threading.get_ident() == thread
            told.append(f"{word} {len(partitions)}")

        return noted

    first = GroupMember(daemon.bootstrap, topic, [topic], on_assigned=note("+"), on_revoked=note("-"))
    assert first.poll(10)
    second = GroupMember(daemon.bootstrap, topic, [topic])
    second.poll(0.3)
    assert within(5, lambda: first.needs_poll)  # pushed, long before the next heartbeat
    assert told == ["+ 4"]
    assert poll_all(first, second, until=lambda: first.is_steady and second.is_steady and len(told) == 3)
    first.close()
    second.close()
    assert told == ["+ 4", "- 4", "+ 2", "- 2"]


def test_what_is_committed_in_on_revoked_is_where_the_next_owner_begins(
    daemon: Daemon, topic: str, every: Partitions
) -> None:
    progress = {one: 7 + one.partition for one in every}
    found: dict[TopicPartition, int | None] = {}

    def commit(ones: tuple[TopicPartition, ...]) -> None:
        assert first.commit({one: progress[one] for one in ones}) == {one: progress[one] for one in ones}

    first = GroupMember(daemon.bootstrap, topic, [topic], on_revoked=commit)
    second = GroupMember(
        daemon.bootstrap, topic, [topic], on_assigned=lambda ones: found.update(second.committed(ones))
    )
    assert first.poll(10)
    assert poll_all(first, second, until=lambda: len(second.assignment) == 2)
    assert found == {one: progress[one] for one in second.assignment}
    first.close()
    second.close()


def test_an_application_that_stumbles_in_a_callback_still_leaves(daemon: Daemon, topic: str) -> None:
    def stumble(_partitions: tuple[TopicPartition, ...]) -> None:
        raise RuntimeError("the sink is full")

    member = GroupMember(daemon.bootstrap, topic, [topic], on_revoked=stumble)
    assert member.poll(10)
    with pytest.raises(RuntimeError, match="the sink is full"):
        member.close()
    assert members_of(daemon, topic) == 0


def test_a_commit_leaves_out_what_is_not_held_and_a_stranger_may_not_commit(
    daemon: Daemon, topic: str, every: Partitions
) -> None:
    other = TopicPartition("elsewhere", 0)
    with GroupMember(daemon.bootstrap, topic, [topic]) as member:
        with pytest.raises(CommitRefused) as refused:
            member.commit({every[0]: 1})
        assert refused.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert member.poll(10)
        assert member.commit({every[0]: 1, other: 5}) == {every[0]: 1}
        assert member.committed([every[0], other]) == {every[0]: 1, other: None}
        with pytest.raises(ValueError, match="cannot commit -5"):
            member.commit({every[0]: -5})


def test_a_member_nobody_polls_leaves_and_its_commit_is_refused(daemon: Daemon, topic: str, every: Partitions) -> None:
    lost: list[TopicPartition] = []
    settings: dict[str, Any] = {"session_timeout_ms": 5_000, "heartbeat_interval_ms": 100, "max_poll_interval_ms": 600}
    member = GroupMember(daemon.bootstrap, topic, [topic], on_lost=lost.extend, **settings)
    assert member.poll(10)
    assert within(5, lambda: members_of(daemon, topic) == 0)
    with pytest.raises(CommitRefused, match="poll was not called for 600 ms"):
        member.commit({every[0]: 1})
    assert member.poll(10)
    assert tuple(lost) == every
    assert member.assignment == every
    member.close()


def test_a_killed_member_is_replaced_after_its_session(daemon: Daemon, topic: str) -> None:
    program = f"""
        import time
        from muster import GroupMember
        timing = {{"session_timeout_ms": 1000, "heartbeat_interval_ms": 200}}
        member = GroupMember({daemon.bootstrap!r}, {topic!r}, [{topic!r}], **timing)
        while not member.poll(1): pass
        print("in", flush=True)
        while member.poll(1): time.sleep(0.05)
        while True: member.poll(1)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        with GroupMember(daemon.bootstrap, topic, [topic]) as member:
            assert poll_all(member, until=lambda: len(member.assignment) == 2)
            other.send_signal(signal.SIGKILL)
            assert poll_all(member, until=lambda: len(member.assignment) == 4)


def test_a_daemon_killed_and_started_again_keeps_its_members(daemon: Daemon, topic: str, every: Partitions) -> None:
    settings: dict[str, Any] = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 100}
    with GroupMember(daemon.bootstrap, topic, [topic], **settings) as member:
        assert member.poll(10)
        before = (member.member_id, member.generation_id)
        member.commit({every[0]: 11})
        daemon.kill()
        time.sleep(0.5)
        daemon.start()
        assert member.committed([every[0]]) == {every[0]: 11}
        member.commit({every[0]: 12})
        assert member.poll(10)
        assert (member.member_id, member.generation_id) == before


def test_a_commit_waits_for_a_daemon_that_comes_back(daemon: Daemon, topic: str, every: Partitions) -> None:
    with GroupMember(daemon.bootstrap, topic, [topic]) as member:
        assert member.poll(10)
        daemon.kill()
        threading.Timer(0.6, daemon.start).start()
        assert member.commit({every[0]: 3}, timeout_s=20) == {every[0]: 3}


def test_a_second_member_of_the_same_instance_fences_the_first(daemon: Daemon, topic: str, every: Partitions) -> None:
    settings: dict[str, Any] = {"group_instance_id": "one", "heartbeat_interval_ms": 100}
    first = GroupMember(daemon.bootstrap, topic, [topic], **settings)
    assert first.poll(10)
    second = GroupMember(daemon.bootstrap, topic, [topic], **settings)
    assert second.poll(10)
    assert second.assignment == every
    assert within(5, lambda: first.needs_poll)
    with pytest.raises(Fenced, match="instance id 'one'"):
        first.poll(0)
    first.close()
    second.close()
    assert members_of(daemon, topic) == 1  # static members do not leave


def test_a_member_of_another_kind_is_not_admitted(daemon: Daemon, topic: str) -> None:
    with GroupMember(daemon.bootstrap, topic, [topic], assignors=["range"]) as first:
        assert first.poll(10)
        with GroupMember(daemon.bootstrap, topic, [topic], assignors=["roundrobin"]) as second:
            with pytest.raises(GroupRefused) as refused:
                second.poll(10)
            assert refused.value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_topic_made_later_is_found(daemon: Daemon, topic: str) -> None:
    with GroupMember(daemon.bootstrap, topic, [f"{topic}-later"]) as member:
        assert member.poll(10)
        assert member.assignment == ()
        create(daemon, f"{topic}-later", 2)
        assert poll_all(member, until=lambda: len(member.assignment) == 2)


# ------------------------------------------------------------------------------------------------------ ranges, offsets


def test_a_range_is_exactly_what_was_asked_for(daemon: Daemon, topic: str) -> None:
    for _ in range(5):
        produce(daemon, 10, topic)  # batches of ten
    with RangeReader(daemon.bootstrap, topic, 0, 13, 37) as reader:
        assert [record.offset for record in reader.records()] == list(range(13, 37))
        assert [(header.base_offset, header.record_count) for header, _ in reader.batches()] == [
            (10, 10),
            (20, 10),
            (30, 10),
        ]


def test_a_range_beyond_the_log_says_so(daemon: Daemon, topic: str) -> None:
    produce(daemon, 3, topic)
    with RangeReader(daemon.bootstrap, topic, 0, 50, 60) as reader, pytest.raises(OffsetOutOfRange) as raised:
        next(reader.records())
    assert raised.value.position == 50
    with (
        RangeReader(daemon.bootstrap, "nowhere", 0, 0, 5) as reader,
        pytest.raises(Refused, match="no topic 'nowhere'"),
    ):
        next(reader.records())


def test_begin_and_end_offsets(daemon: Daemon, topic: str, every: Partitions) -> None:
    produce(daemon, 9, topic)
    with GroupMember(daemon.bootstrap, topic, [topic]) as member:
        assert member.begin_offsets(every) == dict.fromkeys(every, 0)
        assert member.end_offsets(every) == {**dict.fromkeys(every, 0), every[0]: 9}


def test_a_node_can_be_asked_anything(daemon: Daemon) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    assert reply.shards_total == 50


# ---------------------------------------------------------------------------------------------- consumers and producers


def read(consumer: Consumer, count: int, seconds: float = 10.0) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + seconds
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(0.5)
    return records


def test_what_is_produced_is_consumed_in_order_with_its_key(daemon: Daemon, topic: str) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(1_000):
            producer.send(topic, f"value {number}", key=f"key {number % 7}")
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 1_000)
        assert consumer.poll(0.2) == []
    assert len(records) == 1_000
    by_key: dict[bytes, list[int]] = {}
    for record in records:
        assert record.value is not None
        assert record.key is not None
        by_key.setdefault(record.key, []).append(int(record.value.split()[1]))
    assert sorted(by_key) == [b"key %d" % number for number in range(7)]
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert all(len({record.partition for record in records if record.key == key}) == 1 for key in by_key)


def test_a_record_that_arrives_while_polling_is_returned_at_once(daemon: Daemon, topic: str) -> None:
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        consumer.poll(1)
        started = time.monotonic()
        threading.Timer(0.3, produce, (daemon, 1, topic)).start()
        assert len(consumer.poll(120)) == 1
        assert 0.2 < time.monotonic() - started < 60


def test_a_consumer_closed_and_opened_again_goes_on_where_it_was(daemon: Daemon, topic: str) -> None:
    produce(daemon, 10, topic)
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest", max_poll_records=4) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 4)] == [0, 1, 2, 3]
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 6)] == [4, 5, 6, 7, 8, 9]


def test_without_automatic_commits_what_was_not_committed_comes_again(
    daemon: Daemon, topic: str, every: Partitions
) -> None:
    produce(daemon, 6, topic)
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 6)) == 6
        assert consumer.commit({every[0]: 2}) == {every[0]: 2}
    with Consumer(daemon.bootstrap, topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 4)] == [2, 3, 4, 5]
        assert consumer.commit()[every[0]] == 6


def test_automatic_commits_are_made_while_polling(daemon: Daemon, topic: str, every: Partitions) -> None:
    produce(daemon, 5, topic)
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest", auto_commit_interval_ms=100) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 5)) == 5
        assert within(5, lambda: consumer.poll(0.05) == [] and consumer.committed([every[0]]) == {every[0]: 5})


def test_the_end_of_the_log_is_where_latest_begins(daemon: Daemon, topic: str, every: Partitions) -> None:
    produce(daemon, 5, topic)
    with Consumer(daemon.bootstrap, topic) as consumer:
        consumer.subscribe([topic])
        assert within(10, lambda: consumer.poll(0.1) == [] and consumer.positions().get(every[0]) == 5)
        produce(daemon, 1, topic)
        assert [record.offset for record in read(consumer, 1)] == [5]


def test_no_offset_and_no_policy_is_an_error(daemon: Daemon, topic: str) -> None:
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffset, match=rf"no offset is committed for {topic}-0, {topic}-1"):
            read(consumer, 1)


def test_two_consumers_share_while_records_flow_and_nothing_is_missing(daemon: Daemon, topic: str) -> None:
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def consume() -> None:
        with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest", auto_commit_interval_ms=100) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                seen.extend((record.partition, record.offset) for record in consumer.poll(0.1))

    threads = [threading.Thread(target=consume) for _ in range(3)]
    with Producer(daemon.bootstrap, batch_bytes=2_000) as producer:
        for number in range(3_000):
            if number % 1_000 == 0:
                threads[number // 1_000].start()
                time.sleep(0.3)
            producer.send(topic, b"%d" % number, partition=number % 4)
    assert within(15, lambda: len(set(seen)) == 3_000)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert len(set(seen)) == 3_000
    assert len(seen) == 3_000, "graceful rebalances repeat nothing"


def test_a_consumer_outlives_its_daemon(daemon: Daemon, topic: str) -> None:
    produce(daemon, 5, topic)
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest", heartbeat_interval_ms=200) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 5)) == 5
        daemon.kill()
        assert consumer.poll(0.5) == []
        daemon.start()
        produce(daemon, 5, topic)
        assert [record.offset for record in read(consumer, 5)] == [5, 6, 7, 8, 9]


def test_other_topics_can_be_subscribed_to_later(daemon: Daemon, topic: str) -> None:
    create(daemon, f"{topic}-trains", 1)
    produce(daemon, 2, topic)
    produce(daemon, 3, f"{topic}-trains")
    with Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert {record.topic for record in read(consumer, 2)} == {topic}
        consumer.subscribe([f"{topic}-trains"])
        assert {record.topic for record in read(consumer, 3)} == {f"{topic}-trains"}
        assert consumer.assignment == (TopicPartition(f"{topic}-trains", 0),)


def test_a_partition_that_is_not_there_is_refused(daemon: Daemon, topic: str) -> None:
    with Producer(daemon.bootstrap) as producer:
        with pytest.raises(ValueError, match="partitions 0 to 3, not 9"):
            producer.send(topic, b"", partition=9)
        with pytest.raises(Refused, match="no topic 'nowhere'"):
            producer.send("nowhere", b"")

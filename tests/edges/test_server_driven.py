"""Our clients in groups that a real musterd balances (KIP-848), over both dialects and on both edges."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from muster import Consumer, GroupMember, Producer, Refused, TopicPartition, aio
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupDescribeReply
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within

SETTINGS = (
    "group.consumer.min.heartbeat.interval.ms=1",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.min.session.timeout.ms=1",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.assignment.interval.ms=0",
)
DIALECTS = ("native", "kafka")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("server-driven") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield daemon


def address(daemon: Daemon, dialect: str) -> str:
    return daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"


@pytest.fixture
def topic(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """One of four partitions, with forty records."""
    name = f"t{abs(hash(request.node.name))}-{os.getpid()}"
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic(name, 4, 1),)))
    with Producer(daemon.bootstrap) as producer:
        for number in range(40):
            producer.send(name, b"%d" % number, partition=number % 4)
    return name


def consumer(daemon: Daemon, dialect: str, topic: str, **settings: object) -> Consumer:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_protocol": "consumer"}
    made = Consumer(address(daemon, dialect), topic, **{**given, **settings})  # type: ignore[arg-type]
    made.subscribe([topic])
    return made


def poll_until(holds: object, *consumers: Consumer, seconds: float = 20.0) -> list[bytes]:
    values: list[bytes] = []

    def poll() -> bool:
        for one in consumers:
            values.extend(record.value or b"" for record in one.poll(0.02))
        return bool(holds())  # type: ignore[operator]

    assert within(seconds, poll, every_s=0), [one.assignment for one in consumers]
    return values


@pytest.mark.parametrize(("stays", "leaves"), [("native", "kafka"), ("kafka", "native")])
def test_two_share_a_topic_and_the_one_that_stays_goes_on(daemon: Daemon, topic: str, stays: str, leaves: str) -> None:
    first = consumer(daemon, stays, topic)
    values = poll_until(lambda: len(first.assignment) == 4, first)
    while len(values) < 40:
        values += poll_until(lambda: True, first)
    first.commit()
    second = consumer(daemon, leaves, topic)
    values += poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
    assert sorted(first.assignment + second.assignment) == [(topic, number) for number in range(4)]
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(ConsumerGroupDescribe((topic,)))
    assert isinstance(reply, ConsumerGroupDescribeReply)
    assert len(reply.groups[0].members) == 2
    assert {member.member_epoch for member in reply.groups[0].members} == {reply.groups[0].group_epoch}
    second.close()
    values += poll_until(lambda: len(first.assignment) == 4, first)
    assert sorted(values) == sorted(b"%d" % number for number in range(40)), "each once: all was committed"
    first.close()


def test_a_member_that_dies_is_replaced_after_its_session(daemon: Daemon, topic: str) -> None:
    first = consumer(daemon, "kafka", topic)
    poll_until(lambda: len(first.assignment) == 4, first)
    second = consumer(daemon, "kafka", topic)
    poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
    second.driver.stop()
    poll_until(lambda: len(first.assignment) == 4, first)
    first.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_static_member_that_returns_has_its_partitions_at_once(daemon: Daemon, topic: str, dialect: str) -> None:
    other = consumer(daemon, dialect, topic)
    first = consumer(daemon, dialect, topic, group_instance_id="one")
    poll_until(lambda: len(first.assignment) == len(other.assignment) == 2, first, other)
    had, kept = first.assignment, other.assignment
    first.close()
    again = consumer(daemon, dialect, topic, group_instance_id="one")
    poll_until(lambda: len(again.assignment) == 2, again, other)
    assert (again.assignment, other.assignment) == (had, kept)
    again.close()
    other.close()


def test_a_member_of_an_instance_that_is_there_is_refused(daemon: Daemon, topic: str) -> None:
    first = consumer(daemon, "native", topic, group_instance_id="one")
    poll_until(lambda: len(first.assignment) == 4, first)
    second = consumer(daemon, "native", topic, group_instance_id="one")
    with pytest.raises(Refused, match="has instance id 'one'") as refused:
        poll_until(lambda: False, second)
    assert refused.value.error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    second.close()
    first.close()


async def test_the_client_for_event_loops_shares_a_group_with_threads(daemon: Daemon, topic: str) -> None:
    first = aio.Consumer(
        address(daemon, "native"), topic, auto_offset_reset="earliest", enable_auto_commit=False, group_protocol="auto"
    )
    first.subscribe([topic])
    while len(first.assignment) < 4:
        await first.poll(0.02)
    second = consumer(daemon, "native", topic)

    def share() -> None:
        poll_until(lambda: len(second.assignment) == 2, second)

    sharing = asyncio.create_task(asyncio.to_thread(share))
    while not sharing.done():
        await first.poll(0.02)
    await sharing
    assert len(first.assignment) == 2
    await first.close()
    second.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_group_member_commits_and_goes_on_there(daemon: Daemon, topic: str, dialect: str) -> None:
    with GroupMember(address(daemon, dialect), topic, [topic], group_protocol="consumer") as member:
        assert member.poll(10.0)
        assert len(member.assignment) == 4
        member.commit({TopicPartition(topic, 0): 7})
        assert member.committed(member.assignment)[TopicPartition(topic, 0)] == 7

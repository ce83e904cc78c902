"""Our clients in groups that a real musterd balances (KIP-848), over both dialects and on both edges."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from muster import Consumer, GroupMember, Producer, Refused, TopicPartition, aio
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupDescribeReply
from protocol.messages.groups import ListGroups, ListGroupsReply
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
PATIENCE_S = 120.0


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


# ------------------------------------------------------------------------------------------------------------ patterns


def make_topics(daemon: Daemon, *names: str) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics(tuple(CreatableTopic(name, 1, 1) for name in names)))


@pytest.mark.long
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_coordinator_matches_a_pattern_for_a_consumer_in_threads(daemon: Daemon, dialect: str) -> None:
    name = f"re-{dialect}-{os.getpid()}"
    make_topics(daemon, f"{name}-a", f"x-{name}-a")
    one = Consumer(address(daemon, dialect), name, auto_offset_reset="earliest", group_protocol="auto")
    one.subscribe_pattern(rf"{name}-\pL")  # letters: RE2 knows them, Python's re does not
    poll_until(lambda: one.assignment == ((f"{name}-a", 0),), one, seconds=PATIENCE_S)
    make_topics(daemon, f"{name}-b")
    with Producer(daemon.bootstrap) as producer:
        producer.send(f"{name}-b", b"new").result()
    values: list[bytes] = []
    while values != [b"new"]:
        values += poll_until(lambda: len(one.assignment) == 2, one, seconds=PATIENCE_S)
    one.unsubscribe()
    one.subscribe_pattern(f"{name}-(")
    with pytest.raises(Refused, match="is no regular expression of RE2") as refused:
        poll_until(lambda: False, one, seconds=PATIENCE_S)
    assert refused.value.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    one.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_coordinator_matches_a_pattern_for_a_loop(daemon: Daemon, dialect: str) -> None:
    name = f"aio-re-{dialect}-{os.getpid()}"
    make_topics(daemon, f"{name}-a")
    async with aio.Consumer(address(daemon, dialect), name, group_protocol="consumer") as one:
        one.subscribe_pattern(f"{name}-.")
        async with asyncio.timeout(PATIENCE_S):
            while not one.assignment:
                await one.poll(0.05)
    async with aio.GroupMember(address(daemon, dialect), name, (), group_protocol="consumer") as member:
        member.subscribe_pattern(f"{name}-.")
        async with asyncio.timeout(PATIENCE_S):
            while not member.assignment:
                await member.poll(0.05)
        assert member.assignment == ((f"{name}-a", 0),)


# ---------------------------------------------------------------------------------------------- which protocol is taken


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that serves classic groups alone."""
    settings = ("group.coordinator.rebalance.protocols=classic", "group.initial.rebalance.delay.ms=0")
    with running(tmp_path_factory.mktemp("classic") / "data", *settings, with_kafka=True) as daemon:
        yield daemon


def kind_of(daemon: Daemon, group: str) -> str:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(ListGroups())
    assert isinstance(reply, ListGroupsReply)
    return next(one.group_type for one in reply.groups if one.group_id == group)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("assignors", [None, "range"])
async def test_auto_takes_what_is_offered_unless_assignors_are_given(
    daemon: Daemon, classic: Daemon, dialect: str, assignors: str | None
) -> None:
    options = {} if assignors is None else {"assignors": assignors}
    for server, expected in ((daemon, "consumer" if assignors is None else "classic"), (classic, "classic")):
        name = f"auto-{dialect}-{assignors}-{os.getpid()}"
        make_topics(server, name)
        with GroupMember(address(server, dialect), name, [name], group_protocol="auto", **options) as member:  # type: ignore[arg-type]
            assert within(PATIENCE_S, lambda member=member: member.poll(0.05) and bool(member.assignment), every_s=0)
            assert kind_of(server, name) == expected
        async with (
            asyncio.timeout(PATIENCE_S),
            aio.Consumer(address(server, dialect), f"{name}-aio", group_protocol="auto", **options) as one,  # type: ignore[arg-type]
        ):
            one.subscribe([name])
            while not one.assignment:
                await one.poll(0.05)
            assert kind_of(server, f"{name}-aio") == expected


# ------------------------------------------------------------------------------------------------------- being told


SLOW = (
    "group.coordinator.rebalance.protocols=classic,consumer",
    "group.consumer.max.heartbeat.interval.ms=900000",
    "group.consumer.heartbeat.interval.ms=900000",
    "group.consumer.max.session.timeout.ms=1800000",
    "group.consumer.session.timeout.ms=1800000",
    "group.consumer.assignment.interval.ms=0",
)
"""Settings by which no heartbeat comes of itself while a test runs."""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("slow") / "data", *SLOW) as daemon:
        yield daemon


@pytest.mark.parametrize("first", ["threads", "loop"])
async def test_a_new_target_reaches_native_members_without_a_heartbeat_of_theirs(slow: Daemon, first: str) -> None:
    """The coordinator says `AssignmentChanged`, and the member asks at once, and gives up what is somebody else's."""
    topic = f"told-{first}-{os.getpid()}"
    with ClusterClient(slow.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic(topic, 4, 1),)))
    threads = Consumer(slow.bootstrap, topic, group_protocol="consumer")
    loop = aio.Consumer(slow.bootstrap, topic, group_protocol="consumer")

    async def poll_until_holding(one: Consumer | aio.Consumer, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(one.assignment) != count:
                if isinstance(one, Consumer):
                    await asyncio.to_thread(one.poll, 0.02)
                else:
                    await one.poll(0.02)

    told, joining = (threads, loop) if first == "threads" else (loop, threads)
    told.subscribe([topic])
    await poll_until_holding(told, 4)
    joining.subscribe([topic])
    async with asyncio.TaskGroup() as both:
        both.create_task(poll_until_holding(told, 2))
        while len(told.assignment) > 2:
            await (asyncio.to_thread(joining.poll, 0.02) if isinstance(joining, Consumer) else joining.poll(0.02))
    await loop.close()
    await asyncio.to_thread(threads.close)

"""A bare member of a group in an event loop, against a real `musterd`, in both dialects."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from muster import CannotConnect, ClientClosed, CommitRefused, ConcurrentUse, TopicPartition, WokenUp
from muster import GroupMember as BlockingMember
from muster.aio import GroupMember
from tests.edges.musterd import Daemon, free_port, running
from tests.edges.test_aio import SETTINGS, create

ALL = tuple(TopicPartition("shops", number) for number in range(4))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("member") / "data", *SETTINGS, with_kafka=True) as daemon:
        create(daemon, "shops")
        yield daemon


@pytest.fixture(params=["native", "kafka"])
def bootstrap(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    return daemon.bootstrap if request.param == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"


@pytest.fixture
def group() -> str:
    return secrets.token_hex(4)


async def steady(*members: GroupMember) -> None:
    """Polled in turns until each has its share."""
    async with asyncio.timeout(60):
        while not all([await member.poll(0.02) for member in members]):
            pass


async def test_members_share_hand_over_what_they_counted_and_leave(bootstrap: str, group: str) -> None:
    told: list[tuple[str, int]] = []

    def made(name: str) -> GroupMember:
        async def given(partitions: tuple[TopicPartition, ...]) -> None:
            await asyncio.sleep(0)
            told.append((f"{name} was given", len(partitions)))

        async def gone(partitions: tuple[TopicPartition, ...]) -> None:
            await member.commit(dict.fromkeys(partitions, 7))
            told.append((f"{name} gave up", len(partitions)))

        member = GroupMember(bootstrap, group, ["shops"], on_assigned=given, on_revoked=gone, heartbeat_interval_ms=200)
        return member

    a, b = made("a"), made("b")
    await steady(a)
    assert a.assignment == ALL
    assert (a.generation_id, a.is_steady, a.needs_poll) == (1, True, False)
    assert a.member_id
    await steady(a, b)
    assert sorted(a.assignment + b.assignment) == list(ALL)
    assert await b.committed(ALL) == dict.fromkeys(ALL, 7)
    await b.close()
    await b.close()
    await a.poll(1)
    async with asyncio.timeout(60):
        while a.assignment != ALL:
            await a.poll(0.1)
    await a.close()
    assert told[:2] == [("a was given", 4), ("a gave up", 4)]
    assert sorted(told[2:4]) == [("a was given", 2), ("b was given", 2)]
    assert told[-1] == ("a gave up", 4)
    with pytest.raises(ClientClosed):
        await a.poll()


async def test_it_shares_a_group_with_a_member_of_threads(daemon: Daemon, bootstrap: str, group: str) -> None:
    with BlockingMember(daemon.bootstrap, group, ["shops"], heartbeat_interval_ms=200) as other:
        async with GroupMember(bootstrap, group, ["shops"], heartbeat_interval_ms=200) as member:
            async with asyncio.timeout(60):
                while not (member.is_steady and other.is_steady and len(member.assignment) == 2):
                    await asyncio.to_thread(other.poll, 0.02)
                    await member.poll(0.02)
            assert sorted(member.assignment + other.assignment) == list(ALL)


async def test_it_commits_now_or_later_and_what_others_hold_is_left_out(bootstrap: str, group: str) -> None:
    heard: list[str] = []
    async with GroupMember(bootstrap, group, ["shops"]) as member:
        with pytest.raises(CommitRefused):
            await member.commit({ALL[0]: 1})
        await steady(member)
        assert await member.commit({ALL[0]: 1, TopicPartition("else", 0): 5}) == {ALL[0]: 1}
        member.commit_later({ALL[0]: 2}, lambda done: heard.append(done.error_code.name))
        async with asyncio.timeout(60):
            while not heard:
                await member.poll()
        assert heard == ["NONE"]
        assert await member.committed(ALL[:2]) == {ALL[0]: 2, ALL[1]: None}
        assert await member.end_offsets(ALL) == dict.fromkeys(ALL, 0)
        assert await member.begin_offsets(ALL[:1]) == {ALL[0]: 0}


async def test_one_task_polls_and_is_woken_or_closed_upon(group: str) -> None:
    nobody = GroupMember(f"127.0.0.1:{free_port()}", group, ["shops"])
    polling = asyncio.create_task(nobody.poll(20))
    await asyncio.sleep(0.05)
    with pytest.raises(ConcurrentUse):
        await nobody.poll()
    nobody.wakeup()
    with pytest.raises(WokenUp):
        await polling
    with pytest.raises(CannotConnect, match="cannot connect"):
        await nobody.poll(0.3)
    polling = asyncio.create_task(nobody.poll(20))
    await asyncio.sleep(0.05)
    await nobody.close(1)
    with pytest.raises(ClientClosed):
        await polling


async def test_other_topics_can_be_subscribed_to_later(daemon: Daemon, bootstrap: str, group: str) -> None:
    topic = f"more-{group}"
    create(daemon, topic, 2)
    async with GroupMember(bootstrap, group, ["shops"]) as member:
        await steady(member)
        member.subscribe([topic])
        async with asyncio.timeout(60):
            while {one.topic for one in member.assignment} != {topic}:
                await member.poll(0.1)


def test_topics_are_a_list_of_names_and_settings_make_sense() -> None:
    with pytest.raises(ValueError, match="a list of names is wanted"):
        GroupMember("x:1", "g", "shops")
    with pytest.raises(ValueError, match="heartbeat_interval_ms is 9"):
        GroupMember("x:1", "g", ["shops"], heartbeat_interval_ms=9, session_timeout_ms=9)

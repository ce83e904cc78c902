"""Members that the bench plays in server-driven groups, at a real daemon: over Kafka's protocol, and natively."""

import asyncio
from collections.abc import Iterator

import pytest

from bench import consumer_groups, peers
from bench.balanced_members import Asking, BalancedGroup, KafkaAsking, NativeAsking
from bench.peers import Peer

TOPICS = {"a": 5, "b": 5}
NEVER_S = 600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with peers.musterd(tmp_path_factory.mktemp("bench"), consumer_groups.SETTINGS) as server:
        peers.make_topics(server.port, TOPICS)
        yield server


def test_members_are_added_until_everybody_owns_its_share(server: Peer) -> None:
    async def played() -> None:
        connections: list[Asking] = [await KafkaAsking.open(server.port) for _ in range(2)]
        group = BalancedGroup(TOPICS, connections)
        await group.add(3)
        assert sorted(member.count for member in group.members) == [3, 3, 4]
        before = group.members[0].epoch
        await group.add(1)
        assert sorted(member.count for member in group.members) == [2, 2, 3, 3]
        assert {member.epoch for member in group.members} == {before + 1}
        newest = group.make(1)
        assert not group.is_balanced, "it has not joined"
        await newest.beat(connections[0])
        for connection in connections:
            connection.close()

    asyncio.run(played())


def test_natively_a_push_and_no_heartbeats_turn_brings_the_share(server: Peer) -> None:
    async def played() -> None:
        assert server.native_port is not None
        own = [await NativeAsking.open(server.native_port) for _ in range(3)]
        group = BalancedGroup(TOPICS, own)
        await group.add(2)
        living = [
            asyncio.create_task(one.live(connection, NEVER_S))
            for one, connection in zip(group.members, own, strict=False)
        ]
        newest = group.make(1)
        await newest.beat(own[2])
        living.append(asyncio.create_task(newest.live(own[2], NEVER_S)))
        await group.until_owned()
        assert sorted(member.count for member in group.members) == [3, 3, 4]
        for task in living:
            task.cancel()
        for connection in own:
            connection.close()

    asyncio.run(played())


def test_there_is_a_ratio_where_both_have_a_figure() -> None:
    assert consumer_groups.ratio({peers.PURE: 2.0, peers.KAFKA: None}) is None
    assert consumer_groups.ratio({peers.PURE: 2.0}) is None
    assert consumer_groups.ratio({peers.PURE: 2.0, peers.KAFKA: 4.0}) == 0.5

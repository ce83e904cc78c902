"""Nodes at a cluster of brokers, whole: topics, the proof, the nodes' group, shards that are claimed and written."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordinator.cluster_log.effects import AskProducerId
from coordinator.cluster_log.events import ProducerIdAnswered
from coordinator.cluster_log.settings import NOTES_TOPIC, OFFSETS_LOG_TOPIC, ClusterLogSettings
from coordinator.cluster_node.effects import ShardRequest
from coordinator.cluster_node.events import ShardChanged
from coordinator.cluster_node.nodes import NodeView
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.cluster.log_topics import PROOF_TOPIC
from coordinator.gateway.cluster.nodes_group import FollowedShards
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster import predecessor
from coordinator.gateway.io.cluster.cluster_edge import ClusterEdge, ClusterPlan
from coordinator.gateway.io.cluster.log_check import LogCheck, check_no_nodes
from coordinator.gateway.io.cluster.nodes_members import count_members
from coordinator.gateway.io.cluster.predecessor import Predecessor
from coordinator.node.effects import Effect
from coordinator.node.events import Event
from interop.log_node import LogNode
from partition_log.store.recovery import LOCK_FILE
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup
from protocol.messages.topics import CreateTopics
from tests.edges.fake_kafka import FakeKafka, fake_kafka, until
from tests.edges.musterd import Daemon, free_port
from tests.edges.test_cluster_log_requests import link_to

SHARDS = 4
SETTINGS = ClusterLogSettings(session_ms=30_000)
LEAVES_WITHIN_S = 8.0
_PATIENCE_S = 90


class Staged:
    """A node and its edge, and what the node said."""

    def __init__(
        self, kafka: FakeKafka, node_id: int, settings: ClusterLogSettings = SETTINGS, folder: Path | None = None
    ) -> None:
        self.said: list[str] = []
        self.node = LogNode(SHARDS, settings, self.said.append)
        plan = ClusterPlan(
            node_id, SHARDS, 3, "__muster_nodes", 100, FollowedShards.ALL, settings, LEAVES_WITHIN_S, folder=folder
        )
        self.edge = ClusterEdge(self.node, plan, link_to(kafka))
        self.view = NodeView(node_id, {"kafka": ("127.0.0.1", node_id)})

    @property
    def serves(self) -> set[int]:
        return {shard.core.index for shard in self.node.shards if shard.core.is_serving}

    async def die(self) -> None:
        """End as after `kill -9`: without leaving the group."""
        self.edge._has_left = True
        await self.edge.stop()
        self.node.stop()

    def numbers(self) -> list[int]:
        return [shard.number for shard in self.node.shards]


@contextlib.asynccontextmanager
async def nodes(kafka: FakeKafka, *ids: int) -> AsyncIterator[list[Staged]]:
    made = [Staged(kafka, node_id) for node_id in ids]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for one in made:
                await one.edge.start(one.view)
        yield made
    finally:
        for one in made:
            await one.edge.stop()
            one.node.stop()


async def _soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        await until(holds)


async def test_a_node_makes_the_topics_proves_the_brokers_and_serves_every_shard() -> None:
    async with fake_kafka(brokers=3) as kafka, nodes(kafka, 1) as (one,):
        await _soon(lambda: len(one.serves) == SHARDS and min(one.numbers()) > 3)
        (_, _, asked), (_, _, notes) = kafka.all_asked(CreateTopics)
        assert isinstance(asked, CreateTopics) and isinstance(notes, CreateTopics)
        assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in asked.topics] == [
            (OFFSETS_LOG_TOPIC, SHARDS, 3),
            (PROOF_TOPIC, 1, 3),
        ]
        assert [topic.name for topic in notes.topics] == [NOTES_TOPIC]
        assert not [line for line in one.said if line.startswith("problem")]


async def test_a_node_logs_how_the_shards_are_shared_out() -> None:
    with capture_logs() as logged:
        async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1, 2) as (one, two):
            await _soon(lambda: len(two.serves) == SHARDS // 2 and len(one.serves) == SHARDS // 2)
            await two.edge.leave()
            await _soon(lambda: len(one.serves) == SHARDS)
    told = [
        (line["nodes"], line["shards"]) for line in logged if line["event"] == "the nodes have shared out the shards"
    ]
    assert told[0] == ([1], SHARDS) and told[-1] == ([1], SHARDS)
    assert ([1, 2], SHARDS // 2) in told


async def test_a_second_node_gets_its_share_and_gives_it_back_when_it_leaves() -> None:
    async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1, 2) as (one, two):
        await _soon(lambda: len(two.serves) == SHARDS // 2 and len(one.serves) == SHARDS // 2)
        await _soon(lambda: min(two.node.shards[shard].number for shard in two.serves) > 5)
        theirs = two.serves
        await two.edge.leave()
        assert not two.serves
        told = [two.node.shards[shard].number for shard in sorted(theirs)]
        await _soon(lambda: len(one.serves) == SHARDS)
        assert all(one.node.shards[shard].number >= told[at] for at, shard in enumerate(sorted(theirs)))
        assert "lost" not in {line.split()[0] for line in one.said + two.said}


async def test_a_node_that_leaves_answers_until_the_others_serve_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.cluster_edge._TAKEN_WITHIN_S", _PATIENCE_S)
    async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1, 2) as (one, two):
        await _soon(lambda: len(two.serves) == SHARDS // 2 and len(one.serves) == SHARDS // 2)
        await two.edge.leave()
        assert len(one.serves) == SHARDS


async def test_a_node_that_has_left_goes_on_answering_clients_that_it_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.cluster_edge._REDIRECTS_S", _PATIENCE_S)
    async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1, 2) as (one, two):
        await _soon(lambda: len(two.serves) == SHARDS // 2 and len(one.serves) == SHARDS // 2)
        leaving = asyncio.ensure_future(two.edge.leave())
        await _soon(lambda: len(one.serves) == SHARDS and not two.serves)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(leaving, 2.0)
        await asyncio.wait_for(one.edge.leave(), LEAVES_WITHIN_S)  # nobody is left that clients could be sent to


async def test_a_second_node_of_an_id_leaves_the_group_before_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next rebalance of the others does not wait for the end of its session; it has no clients to wait for."""
    async with fake_kafka() as kafka, nodes(kafka, 1):
        again = Staged(kafka, 1, ClusterLogSettings(session_ms=6_000))
        async with asyncio.timeout(_PATIENCE_S):
            with monkeypatch.context() as patched:
                patched.setattr("coordinator.gateway.io.cluster.cluster_edge._REDIRECTS_S", 10 * _PATIENCE_S)
                with pytest.raises(ConfigError, match=r"node\.id 1 is that of a musterd which lives"):
                    await again.edge.start(again.view)
        assert len(kafka.all_asked(LeaveGroup)) == 1
        await again.edge.stop()
        again.node.stop()


async def test_the_next_process_of_a_killed_node_ends_its_membership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LOCK_FILE).touch()
    async with fake_kafka(brokers=3) as kafka, nodes(kafka, 2) as (other,):
        killed = Staged(kafka, 1, folder=tmp_path)
        await killed.edge.start(killed.view)
        await _soon(lambda: len(killed.serves) == 2)
        member_id = killed.edge._member.group.member_id if killed.edge._member else ""
        await killed.die()
        link = link_to(kafka)
        await Predecessor(Path(shutil.copytree(tmp_path, tmp_path / "copy")), "__muster_nodes").evict(link)
        await Predecessor(tmp_path, "other_nodes").evict(link)
        with monkeypatch.context() as patch:
            patch.setattr(predecessor, "_KERNEL", tmp_path / "boot_id")
            (tmp_path / "boot_id").write_text("another machine")
            await Predecessor(tmp_path, "__muster_nodes").evict(link)
        await link.stop()
        assert not kafka.all_asked(LeaveGroup), "only the process that held the lock of this very folder has ended"
        again = Staged(kafka, 1, folder=tmp_path)
        await again.edge.start(again.view)
        ((_, _, left),) = kafka.all_asked(LeaveGroup)
        assert isinstance(left, LeaveGroup) and [one.member_id for one in left.members] == [member_id]
        try:
            async with asyncio.timeout(SETTINGS.session_ms / 2_000):
                await until(lambda: len(again.serves) == 2 == len(other.serves))
        finally:
            await again.edge.stop()
            again.node.stop()


async def test_a_record_of_the_last_process_that_cannot_be_read_is_of_no_account(tmp_path: Path) -> None:
    (tmp_path / "upstream-nodes-member").write_bytes(b'{"half a rec\xff')
    async with fake_kafka(brokers=3) as kafka:
        one = Staged(kafka, 1, folder=tmp_path)
        await one.edge.start(one.view)
        await _soon(lambda: len(one.serves) == SHARDS)
        assert not kafka.all_asked(LeaveGroup)
        await one.edge.stop()
        one.node.stop()


async def test_nodes_keep_their_shards_when_the_coordinator_and_leaders_move() -> None:
    async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1, 2) as (one, two):
        await _soon(lambda: len(one.serves) == len(two.serves) == SHARDS // 2)
        kafka.coordinator = 2
        for index in range(SHARDS):
            kafka.leaders[OFFSETS_LOG_TOPIC, index] = 2
        asked = len(kafka.asked)
        numbers = [max(pair) for pair in zip(one.numbers(), two.numbers(), strict=True)]

        def go_on() -> bool:
            beats = {broker for broker, _, message in kafka.asked[asked:] if isinstance(message, Heartbeat)}
            now = [max(pair) for pair in zip(one.numbers(), two.numbers(), strict=True)]
            return 2 in beats and all(after > before + 3 for after, before in zip(now, numbers, strict=True))

        await _soon(go_on)
        assert not [message for _, _, message in kafka.asked[asked:] if isinstance(message, JoinGroup)]
        assert "lost" not in {line.split()[0] for line in one.said + two.said}


async def test_a_broker_that_stands_still_holds_up_its_own_shards_alone() -> None:
    async with fake_kafka(brokers=2) as kafka, nodes(kafka, 1) as (one,):
        await _soon(lambda: len(one.serves) == SHARDS and min(one.numbers()) > 3)
        kafka.silent.add(2)
        still = [
            index for (topic, index), broker in kafka.leaders.items() if topic == OFFSETS_LOG_TOPIC and broker == 2
        ]
        before = one.numbers()
        await _soon(lambda: all(one.numbers()[index] > before[index] + 20 for index in set(range(SHARDS)) - set(still)))
        assert all(one.numbers()[index] <= before[index] + 1 for index in still)
        kafka.silent.clear()
        await _soon(lambda: all(one.numbers()[index] > before[index] + 3 for index in still))
        assert "lost" not in {line.split()[0] for line in one.said}


@pytest.mark.long
async def test_a_node_whose_last_write_is_not_answered_gives_up_leaving_after_a_while_and_once() -> None:
    async with fake_kafka() as kafka, nodes(kafka, 1) as (one,):
        await _soon(lambda: len(one.serves) == SHARDS)
        kafka.slow.add((OFFSETS_LOG_TOPIC, 0))
        sent: list[bytes] = []

        def is_stuck() -> bool:
            sent[:] = [part.records for part in kafka.writes_to(OFFSETS_LOG_TOPIC, 0)]
            return sent[-1:] == sent[-2:-1]

        await _soon(is_stuck)
        await one.edge.leave()
        assert [shard.core.index for shard in one.node.shards if shard.core.claim is not None] == [0]
        begun = asyncio.get_running_loop().time()
        await one.edge.stop()
        assert asyncio.get_running_loop().time() - begun < LEAVES_WITHIN_S


async def test_what_is_unsafe_is_said_once_and_told_the_node() -> None:
    async with fake_kafka() as kafka:
        with capture_logs() as logs:
            async with nodes(kafka, 1) as (one,):
                await _soon(lambda: any(line.startswith("problem") for line in one.said))
        (problem,) = [line for line in one.said if line.startswith("problem")]
        assert "the cluster has one broker" in problem
        assert len([entry for entry in logs if "not safe" in entry["event"]]) == 1


async def test_a_request_of_a_shard_comes_back_as_an_event_of_that_shard() -> None:
    async with fake_kafka() as kafka:
        kafka.make_topic(OFFSETS_LOG_TOPIC, SHARDS)
        heard: list[Event] = []
        carried: dict[type[Effect], Callable[[Any], None]] = {}

        class Heard:
            def carry_out(self, kind: type[Effect], how: Callable[[Any], None]) -> None:
                carried[kind] = how

            def happen(self, event: Event) -> None:
                heard.append(event)

        edge = ClusterEdge(
            Heard(), ClusterPlan(1, SHARDS, 3, "nodes", 100, FollowedShards.ALL, SETTINGS), link_to(kafka)
        )
        carried[ShardRequest](ShardRequest(AskProducerId(2, 17)))
        assert not heard  # a node is never stepped in the middle of a step
        await _soon(lambda: bool(heard))
        (event,) = heard
        assert isinstance(event, ShardChanged) and event.shard == 2
        assert isinstance(event.event, ProducerIdAnswered) and event.event.number == 17
        await edge.stop()


async def test_a_cluster_that_does_not_fence_is_refused_with_a_sentence() -> None:
    async with fake_kafka(brokers=3) as kafka:
        kafka.fences = False
        with pytest.raises(ConfigError, match=r"do not fence a former owner.*offsets\.log=local"):
            async with nodes(kafka, 1):
                pass


async def test_a_topic_of_another_size_is_refused_with_a_sentence() -> None:
    async with fake_kafka(brokers=3) as kafka:
        kafka.make_topic(OFFSETS_LOG_TOPIC, SHARDS + 1, **{"cleanup.policy": "compact"})
        with pytest.raises(ConfigError, match=r"has 5 partitions, and offsets\.topic\.num\.partitions is 4"):
            async with nodes(kafka, 1):
                pass


async def test_a_node_with_a_log_of_its_own_is_refused_while_others_share_the_clusters(tmp_path: Path) -> None:
    async with fake_kafka(brokers=1) as kafka:
        settings = f"upstream.servers=127.0.0.1:{kafka.ports[1]}", f"upstream.listener.ports={free_port()}"
        alone = Daemon(tmp_path / "alone", *settings, with_kafka=True)
        async with nodes(kafka, 1, 2) as (one, two):
            await _soon(lambda: len(two.serves) == SHARDS // 2)
            with pytest.raises(AssertionError, match=r"2 nodes of the group __muster_nodes already serve this cluster"):
                await asyncio.to_thread(alone.start)
            await asyncio.to_thread(alone.kill)
            await two.edge.leave()
            await one.edge.leave()
        try:
            await asyncio.to_thread(alone.start)
        finally:
            await asyncio.to_thread(alone.kill)
        assert "log of offsets that offsets.log=local does not read" in (tmp_path / "alone.log").read_text()


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED])
async def test_an_error_is_no_number_of_members(error: ErrorCode) -> None:
    async with fake_kafka(brokers=1) as kafka:
        kafka.finds = error
        link = link_to(kafka)
        with pytest.raises(RequestFailed, match=error.name):
            await count_members(link, "__muster_nodes", patience_s=0)
        await link.stop()


async def test_brokers_that_do_not_answer_do_not_know_whether_nodes_share_the_clusters_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fake_kafka(brokers=1) as kafka:
        link = link_to(kafka)
        with capture_logs() as logs:
            await check_no_nodes(Config(data_dir="unused"), link)
            assert not logs
            monkeypatch.setattr("coordinator.gateway.io.cluster.log_check._PATIENCE_S", 0.1)
            kafka.silent.add(1)
            with pytest.raises(RequestFailed, match="no broker answers in time"):
                await check_no_nodes(Config(data_dir="unused"), link)
        await link.stop()


async def test_a_coordinator_that_is_not_there_does_not_know_whether_nodes_share_the_clusters_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.log_check._PATIENCE_S", 0.5)
    async with fake_kafka(brokers=1) as kafka:
        kafka.make_topic(OFFSETS_LOG_TOPIC, SHARDS)
        kafka.finds = ErrorCode.COORDINATOR_NOT_AVAILABLE
        link = link_to(kafka)
        with pytest.raises(RequestFailed, match="COORDINATOR_NOT_AVAILABLE"):
            await check_no_nodes(Config(data_dir="unused"), link)
        await link.stop()


class ScriptedCheck(LogCheck):
    """Answers the script, whose last word stays."""

    def __init__(self, *script: bool | Exception) -> None:
        super().__init__(Config(data_dir="unused", upstream_nodes_session_timeout_ms=20), cast("Any", "brokers"))
        self.script = list(script)
        self.asked = 0

    async def _check(self) -> bool:
        self.asked += 1
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_nodes_that_join_again_after_an_outage_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.log_check._AGAIN_S", 0.005)
    unknown, nodes = RequestFailed("COORDINATOR_NOT_AVAILABLE"), ConfigError("2 nodes already serve")
    late = ScriptedCheck(unknown, unknown, True, nodes, True, nodes)
    with capture_logs() as logs:
        await late.at_start(is_reached=True)
        with pytest.raises(ConfigError, match="2 nodes"):
            await late.until_known()
        assert late.asked > 6, "nodes must have been there for a session"
        assert [one["why"] for one in logs] == ["COORDINATOR_NOT_AVAILABLE"]

    alone = ScriptedCheck(unknown, nodes, True)
    with capture_logs() as logs:
        await alone.at_start(is_reached=False)
        await alone.until_known()
        assert [one["event"][:12] for one in logs] == ["unknown whet", "the cluster "]
    assert alone.asked > 4
    asked = alone.asked
    await alone.until_known()
    assert alone.asked == asked, "what is known is not asked again"


async def test_a_node_that_started_while_nobody_knew_ends_with_the_sentence_once_nodes_are_found(
    tmp_path: Path,
) -> None:
    async with fake_kafka(brokers=1) as kafka:
        kafka.finds = ErrorCode.COORDINATOR_NOT_AVAILABLE
        kafka.make_topic(OFFSETS_LOG_TOPIC, SHARDS, **{"cleanup.policy": "compact"})
        settings = f"upstream.servers=127.0.0.1:{kafka.ports[1]}", f"upstream.listener.ports={free_port()}"
        alone = Daemon(tmp_path / "alone", *settings, with_kafka=True)
        await asyncio.to_thread(alone.start)
        assert alone.process is not None
        try:
            kafka.finds = ErrorCode.NONE
            async with nodes(kafka, 1):
                code = await asyncio.to_thread(alone.process.wait, 60)
        finally:
            await asyncio.to_thread(alone.kill)
        assert code == 2
        said = (tmp_path / "alone.log").read_text()
        assert "unknown whether other nodes serve this cluster" in said
        assert "1 node of the group __muster_nodes already serve this cluster" in said, said


async def test_a_start_waits_for_a_cluster_that_cannot_be_reached_and_says_so() -> None:
    async with fake_kafka(brokers=1) as kafka:
        kafka.silent.add(1)
        one = Staged(kafka, 1)
        with capture_logs() as logs:
            starting = asyncio.ensure_future(one.edge.start(one.view))
            await _soon(lambda: any("cannot be prepared" in entry["event"] for entry in logs))
            kafka.silent.clear()
            async with asyncio.timeout(_PATIENCE_S):
                await starting
        await _soon(lambda: len(one.serves) == SHARDS)
        await one.edge.stop()
        one.node.stop()

"""Two musterd over the log of one cluster: each answers for the groups of both, over HTTP and to the command."""

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from membership.events import NodeAddress
from muster.blocking.cluster import ClusterClient
from muster.errors import CannotConnect, MusterError, RequestTimedOut
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigs, DescribeConfigsReply, DescribeConfigsResource, ResourceType
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.edges.certificates import Folder
from tests.edges.fake_kafka import FakeKafka, fake_kafka
from tests.edges.musterd import Daemon, free_port, running
from tests.edges.tcp import tcp_server

GROUPS = tuple(f"g{number}" for number in range(8))
WHOLE = {"groups": list(GROUPS)}
SHARDS = 4
_PATIENCE_S = 120


def daemon(kafka: FakeKafka, folder: Path, node_id: int, *settings: str) -> Daemon:
    return Daemon(
        folder / f"node{node_id}",
        f"node.id={node_id}",
        "offsets.log=cluster",
        f"offsets.topic.num.partitions={SHARDS}",
        f"upstream.servers=127.0.0.1:{kafka.ports[1]}",
        f"upstream.listener.ports={free_port()}",
        "upstream.offsets=ignore",
        *settings,
        with_http=True,
        with_kafka=True,
    )


def served(node: Daemon) -> int:
    """Return the number of shards that the node serves."""
    with ClusterClient(node.bootstrap) as cluster:
        told = cluster.ask(DescribeNode())
    assert isinstance(told, DescribeNodeReply)
    return told.shards_loaded


@asynccontextmanager
async def two(folder: Path, *settings: str) -> AsyncIterator[tuple[Daemon, Daemon]]:
    async with fake_kafka(brokers=1) as kafka:
        kafka.make_topic("orders", 1)
        nodes = daemon(kafka, folder, 1, *settings), daemon(kafka, folder, 2, *settings)
        try:
            for one in nodes:
                await asyncio.to_thread(one.start)
            for one in nodes:
                await soon(partial(asyncio.to_thread, served, one), SHARDS // 2)
            yield nodes
        finally:
            for one in nodes:
                await asyncio.to_thread(one.kill)


async def get(node: Daemon, path: str, tls: ssl.SSLContext | None = None) -> Any:
    address = f"{'http' if tls is None else 'https'}://127.0.0.1:{node.http_port}{path}"
    async with ClientSession() as session, session.get(address, ssl=tls or True) as answer:
        return await answer.json(content_type=None)


async def soon(answer: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Wait for an answer: a busy machine may make a node late, which is said."""
    async with asyncio.timeout(_PATIENCE_S):
        while await answer() != wanted:  # noqa: ASYNC110  (another process answers)
            await asyncio.sleep(0.1)


def commit(node: Daemon) -> None:
    """Commit for each group where it is: the first node says where."""
    topics = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
    with ClusterClient(node.bootstrap) as cluster:
        for group_id in GROUPS:
            reply = cluster.ask_coordinator(OffsetCommitReply, group_id, OffsetCommit(group_id, topics))
            assert not reply.topics[0].partitions[0].error_code


async def offsets(node: Daemon, group_id: str) -> list[int]:
    found = await get(node, f"/v1/groups/{group_id}/offsets")
    return [one["offset"] for one in found.get("offsets", ())]


def listed(node: Daemon) -> tuple[list[str], str]:
    """Return the groups that the command lists, and what it says besides."""
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", node.bootstrap, "groups", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
    return [one["group_id"] for one in json.loads(done.stdout)], done.stderr


def log_of(node: Daemon, group_id: str) -> str:
    """Return the log of the group's shard, as the command names it."""
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", node.bootstrap, "groups", "describe", group_id]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
    found = json.loads(done.stdout)["log"]
    assert isinstance(found, str)
    return found


@pytest.mark.long
async def test_any_node_answers_for_all_groups_and_hides_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups"), {"groups": []})
        await asyncio.to_thread(commit, one)
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups"), WHOLE)
            for group_id in GROUPS:
                await soon(partial(offsets, node, group_id), [1])
            await soon(partial(asyncio.to_thread, listed, node), (list(GROUPS), ""))
            assert (await asyncio.to_thread(log_of, node, "g0")).startswith("__muster_offsets-")
            assert (await get(node, "/v3/clusters"))["data"][0]["cluster_id"] == "fake"
        await asyncio.to_thread(other.kill)
        async with asyncio.timeout(_PATIENCE_S):
            while (found := await get(one, "/v1/groups")) != WHOLE:
                assert "unavailable" in found
                await asyncio.sleep(0.1)


def join(node: Daemon, group_id: str) -> None:
    """Join as the one member, and be assigned something."""
    asked = JoinGroup(group_id, 60_000, "", "consumer", (JoinProtocol("range"),), 60_000, wants_member_id_first=False)
    with ClusterClient(node.bootstrap) as cluster:
        reply = cluster.ask_coordinator(JoinGroupReply, group_id, asked)
        assert not reply.error_code
        share = (SyncGroupAssignment(reply.member_id, b"share"),)
        synced = SyncGroup(group_id, reply.generation_id, reply.member_id, assignments=share)
        assert not cluster.ask_coordinator(SyncGroupReply, group_id, synced).error_code


def explained(node: Daemon, group_id: str) -> list[str]:
    """Return what `muster explain` says happened."""
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", node.bootstrap, "explain", group_id, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    return [note["sentence"] for note in json.loads(done.stdout)["notes"]] if not done.returncode else []


async def test_a_group_whose_node_was_killed_is_explained_from_its_beginning_and_so_is_the_move(tmp_path: Path) -> None:
    async with two(tmp_path, "group.initial.rebalance.delay.ms=0") as (one, other):
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups"), {"groups": []})
        for group_id in GROUPS:
            await asyncio.to_thread(join, one, group_id)
        theirs = [group_id for group_id in GROUPS if group_id not in await own_groups(one)]
        before: dict[str, list[str]] = {}
        async with asyncio.timeout(_PATIENCE_S):
            for group_id in theirs:
                while not (told := await asyncio.to_thread(explained, other, group_id)):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                before[group_id] = told
        assert before
        await asyncio.to_thread(other.kill)
        await soon(partial(get, one, "/v1/groups"), WHOLE)
        moved = re.compile(r"No rebalance needed: coordinator moved, from node 2 to node 1, [0-9.]+ s, node 2 ended\.")
        for group_id in theirs:
            told = await asyncio.to_thread(explained, one, group_id)
            assert told[: len(before[group_id])] == before[group_id]
            assert any(moved.fullmatch(sentence) for sentence in told[len(before[group_id]) :]), told


async def own_groups(node: Daemon) -> list[str]:
    """Return the groups that the node has itself."""
    with ClusterClient(node.bootstrap) as cluster:
        reply = await asyncio.to_thread(cluster.ask, ListGroups())
    assert isinstance(reply, ListGroupsReply)
    return [group.group_id for group in reply.groups]


def alter(node: Daemon, group_id: str, value: str) -> None:
    """Change the size that the group may have, by the command."""
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", node.bootstrap]
    command += ["groups", "alter", group_id, "--config", f"group.max.size={value}"]
    subprocess.run(command, check=True, timeout=_PATIENCE_S)


def sizes(node: Daemon) -> dict[str, str | None]:
    """Return the size that each group may have, from whoever has it; as far as that is known."""
    found = {}
    with ClusterClient(node.bootstrap) as cluster, suppress(MusterError):  # a node that is named has died
        for group_id in GROUPS:
            wanted = DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, group_id, ("group.max.size",)),))
            (result,) = cluster.ask_coordinator(DescribeConfigsReply, group_id, wanted).results
            found[group_id] = result.configs[0].value if result.configs else None
    return found


@pytest.mark.long
async def test_settings_of_groups_are_changed_through_any_node_and_outlive_the_one_that_had_them(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as (one, other):
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups"), {"groups": []})
        for number, group_id in enumerate(GROUPS):
            await asyncio.to_thread(alter, (one, other)[number % 2], group_id, str(number + 2))
        wanted = {group_id: str(number + 2) for number, group_id in enumerate(GROUPS)}
        await soon(partial(asyncio.to_thread, sizes, other), wanted)
        await asyncio.to_thread(other.kill)
        await soon(partial(asyncio.to_thread, sizes, one), wanted)


async def test_nodes_that_ask_for_certificates_show_each_other_their_own(tmp_path: Path) -> None:
    files = Folder(tmp_path / "files")
    tls = files.trusting(shows=True)
    async with two(tmp_path, *files.listening(clients_show=True), "tls.listeners=http") as (one, other):
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups", tls), {"groups": []})
        await asyncio.to_thread(commit, one)
        for node in (one, other):
            await soon(partial(get, node, "/v1/groups", tls), WHOLE)


async def test_nodes_reach_each_other_at_the_advertised_address(tmp_path: Path) -> None:
    port = free_port()

    async def why() -> list[str]:
        found = await get(one, "/v1/groups")
        return [node["why"] for node in found.get("unavailable", {}).get("nodes", ())]

    async with two(tmp_path, f"advertised.http=localhost:{port}") as (one, _other):
        await soon(why, [f"it cannot be reached at localhost:{port}: Connection refused"])


async def test_nodes_are_asked_at_once_and_one_that_is_silent_or_away_holds_up_no_other(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    def ask(node: Daemon, silent_port: int) -> list[Message | MusterError]:
        ports = (silent_port, free_port(), node.port)
        with ClusterClient(node.bootstrap) as cluster:
            answers = cluster.ask_each(ListGroups(), [NodeAddress("127.0.0.1", port) for port in ports], 3.0)
            assert isinstance(cluster.ask(ListGroups()), ListGroupsReply), "the client goes on"
        return [answers[NodeAddress("127.0.0.1", port)] for port in ports]

    with running(tmp_path / "node") as node:
        async with tcp_server(silent) as port:
            late, away, told = await asyncio.to_thread(ask, node, port)
    assert isinstance(late, RequestTimedOut | CannotConnect) and f"127.0.0.1:{port}" in str(late)
    assert isinstance(away, CannotConnect) and "Connection refused" in str(away)
    assert isinstance(told, ListGroupsReply)

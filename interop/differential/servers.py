"""The two servers, alike in all that groups depend on, with the topics that histories commit to."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import peers
from interop.differential.connections import Connections
from interop.differential.consumer.orders import order
from interop.differential.exchanges import Server
from interop.differential.suites import Suite
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import ApiVersions, ApiVersionsReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.topics import DeletableTopic, DeleteTopics, Metadata, MetadataReply, MetadataTopic

_READY_S = 60.0
_TRIES = 2_000
_HEAP = "512m"
_GROUPS_OF_ALL_PARTITIONS = tuple([f"ready-{number}" for number in range(400)])
"""So many that each partition of the offsets topic has some."""


@contextmanager
def running(folder: Path, suite: Suite) -> Iterator[tuple[Server, Server]]:
    """An Apache Kafka and a musterd. Raises `bench.builds.NotHere`."""
    with (
        peers.apache_kafka(folder, may_fetch=True, settings=suite.kafka, heap=_HEAP) as kafka,
        peers.musterd(folder, suite.muster) as muster,
    ):
        wanted = None
        found = []
        for peer in (kafka, muster):
            server = asyncio.run(_with_topics(peer.port, suite.topics))
            if suite.orders_topics:
                server = _ordered(server, suite.topics, wanted)
                wanted = order(server.topic_ids)
            found.append(server)
        yield found[0], found[1]


async def _with_topics(port: int, topics: Mapping[str, int]) -> Server:
    peers.make_topics(port, topics)
    return await _server(port, topics)


def _ordered(server: Server, topics: Mapping[str, int], wanted: object) -> Server:
    """Make its topics anew until their ids are in the wanted order, or, where there is none to want, in any one."""
    for _ in range(_TRIES):
        found = order(server.topic_ids)
        if found is not None and wanted in {None, found}:
            return server
        asyncio.run(_delete_topics(server.port, topics))
        server = asyncio.run(_with_topics(server.port, topics))
    raise TimeoutError(f"no {_TRIES} sets of topics at port {server.port} are in the order {wanted}")


async def _delete_topics(port: int, topics: Mapping[str, int]) -> None:
    connections = Connections(("127.0.0.1", port))
    try:
        await connections.call("ready", DeleteTopics(tuple([DeletableTopic(name) for name in topics])), 6)
    finally:
        connections.close()


async def _server(port: int, topics: Mapping[str, int]) -> Server:
    """Once it coordinates groups and has told the ids of the topics."""
    connections = Connections(("127.0.0.1", port))
    ends = time.monotonic() + _READY_S
    try:
        while time.monotonic() < ends:
            with contextlib.suppress(ConnectionError):
                found = await connections.call("ready", FindCoordinator(("differential",)), 4)
                groups = await connections.call("ready", DescribeGroups(_GROUPS_OF_ALL_PARTITIONS), 4)
                told = await connections.call("ready", Metadata(tuple(MetadataTopic(name) for name in topics)), 12)
                assert isinstance(found, FindCoordinatorReply)
                assert isinstance(groups, DescribeGroupsReply)
                assert isinstance(told, MetadataReply)
                whole = [topic for topic in told.topics if len(topic.partitions) == topics[topic.name or ""]]
                errors = [one.error_code for one in found.coordinators] + [one.error_code for one in groups.groups]
                if not any(errors) and len(whole) == len(topics):
                    return Server("127.0.0.1", port, {topic.name or "": topic.topic_id for topic in whole})
            await asyncio.sleep(0.2)
    finally:
        connections.close()
    raise TimeoutError(f"the server at port {port} does not coordinate groups after {_READY_S:g} s")


async def spoken(server: Server) -> Mapping[int, range]:
    """The versions of each API that it speaks."""
    connections = Connections((server.host, server.port))
    try:
        told = await connections.call("versions", ApiVersions("differential", "1"), 3)
    finally:
        connections.close()
    assert isinstance(told, ApiVersionsReply)
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in told.api_keys}

"""The two servers, alike in all that groups depend on, with the topics that histories commit to."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import peers
from interop.differential.connections import Connections
from interop.differential.exchanges import Server
from interop.differential.views import TOPICS
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import ApiVersions, ApiVersionsReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "5",
}
KAFKA_SETTINGS: Mapping[str, str] = {**SETTINGS, "group.coordinator.append.linger.ms": "0"}
_READY_S = 60.0
_GROUPS_OF_ALL_PARTITIONS = tuple([f"ready-{number}" for number in range(400)])
"""So many that each partition of the offsets topic has some."""


@contextmanager
def running(folder: Path) -> Iterator[tuple[Server, Server]]:
    """An Apache Kafka and a musterd. Raises `bench.builds.NotHere`."""
    with (
        peers.apache_kafka(folder, may_fetch=True, settings=KAFKA_SETTINGS) as kafka,
        peers.musterd(folder, SETTINGS) as muster,
    ):
        for peer in (kafka, muster):
            peers.make_topics(peer.port, TOPICS)
        yield asyncio.run(_server(kafka.port)), asyncio.run(_server(muster.port))


async def _server(port: int) -> Server:
    """Once it coordinates groups and has told the ids of the topics."""
    connections = Connections(("127.0.0.1", port))
    ends = time.monotonic() + _READY_S
    try:
        while time.monotonic() < ends:
            with contextlib.suppress(ConnectionError):
                found = await connections.call("ready", FindCoordinator(("differential",)), 4)
                groups = await connections.call("ready", DescribeGroups(_GROUPS_OF_ALL_PARTITIONS), 4)
                told = await connections.call("ready", Metadata(tuple(MetadataTopic(name) for name in TOPICS)), 12)
                assert isinstance(found, FindCoordinatorReply)
                assert isinstance(groups, DescribeGroupsReply)
                assert isinstance(told, MetadataReply)
                whole = [topic for topic in told.topics if len(topic.partitions) == TOPICS[topic.name or ""]]
                errors = [one.error_code for one in found.coordinators] + [one.error_code for one in groups.groups]
                if not any(errors) and len(whole) == len(TOPICS):
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

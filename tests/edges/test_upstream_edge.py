"""The supervisor of brokers with pretended ones: discovery, their listeners, and many requests at once."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from struct import pack, unpack, unpack_from
from typing import Any, cast

import pytest
import uvloop
from structlog.testing import capture_logs

from coordinator.config.config import Address
from coordinator.config.keys import Ports
from coordinator.gateway.effects import UpstreamRequest
from coordinator.gateway.events import BrokersFound, UpstreamReply, UpstreamUnreachable
from coordinator.gateway.io.broker_client import MAX_IN_FLIGHT, BrokerClient, RequestFailed
from coordinator.gateway.io.listeners import Listeners
from coordinator.gateway.io.supervisor import GatewayPlan, Supervisor
from coordinator.io.server import Server
from coordinator.node.events import Event
from protocol.apis import WIRE_APIS
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import ApiVersion, ApiVersionsReply
from protocol.messages.topics import (
    CreatableTopic,
    CreateTopics,
    CreateTopicsReply,
    Metadata,
    MetadataBroker,
    MetadataReply,
)
from tests.edges.musterd import free_port, is_free
from tests.edges.tcp import tcp_server

Answer = Callable[[int], Awaitable[Message]]
HEARTBEAT, METADATA, API_VERSIONS, CREATE_TOPICS = 12, 3, 18, 19


class Cluster:
    """One socket for all brokers. `told` is who there is, at its port where theirs is 0; it is slow by `delay_s`, for
    each request but those for versions and topology. As Kafka, it does one after the other of what comes over a
    connection. Answers leave `in_bursts_of` so many."""

    def __init__(self, *told: MetadataBroker, delay_s: float = 0, slow: int = HEARTBEAT, in_bursts_of: int = 1) -> None:
        self.told = told
        self.slow = slow
        self.in_bursts_of = in_bursts_of
        self.delay_s = delay_s
        self.port = 0
        self.connections = 0
        self.heard = 0
        self.is_silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        held: list[bytes] = []
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                (size,) = unpack(">i", await reader.readexactly(4))
                key, version, number = unpack_from(">hhi", await reader.readexactly(size))
                self.heard += 1
                if self.is_silent and key == HEARTBEAT:
                    continue
                if key == self.slow:
                    await asyncio.sleep(self.delay_s)
                held.append(VersionCodec(WIRE_APIS[key], version).frame(number, self.reply(key)))
                if key != HEARTBEAT or len(held) == self.in_bursts_of:
                    writer.write(b"".join(held))
                    held.clear()

    def reply(self, key: int) -> Message:
        if key == API_VERSIONS:
            return ApiVersionsReply(
                api_keys=tuple(ApiVersion(one, 0, 2) for one in (METADATA, HEARTBEAT, CREATE_TOPICS))
            )
        if key == METADATA:
            return MetadataReply(
                tuple(MetadataBroker(one.node_id, one.host, one.port or self.port) for one in self.told)
            )
        return CreateTopicsReply() if key == CREATE_TOPICS else HeartbeatReply()


class Heard:
    """In a server's place: what the edge tells the node."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.happened = asyncio.Event()
        self.carried: dict[type, Callable[[Any], None]] = {}

    def carry_out(self, kind: type, how: Callable[[Any], None]) -> None:
        self.carried[kind] = how

    def client(self, number: int) -> None:
        return None

    def happen(self, event: Event) -> None:
        self.events.append(event)
        self.happened.set()

    def last_found(self) -> dict[int, int]:
        """The listeners' ports, by broker."""
        found = [event for event in self.events if isinstance(event, BrokersFound)]
        return {broker.node_id: broker.advertised_port for broker in found[-1].brokers} if found else {}

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self.happened.clear()
                await self.happened.wait()

    async def found(self, *brokers: int) -> dict[int, int]:
        await self.until(lambda: set(self.last_found()) == set(brokers))
        return self.last_found()

    def answers(self) -> list[UpstreamReply]:
        return [event for event in self.events if isinstance(event, UpstreamReply)]


@contextlib.asynccontextmanager
async def beside(
    cluster: Cluster,
    ports: Ports,
    *,
    timeout_s: float = 5,
    advertised_host: str = "127.0.0.1",
    advertised_port: int = 0,
) -> AsyncIterator[tuple[Heard, int]]:
    """Run a supervisor; yield its events and the port of the bootstrap listener."""
    async with tcp_server(cluster.serve) as cluster.port:
        heard = Heard()
        servers = (Address("127.0.0.1", cluster.port),)
        plan = GatewayPlan(
            servers, ports, "127.0.0.1", advertised_host, 0.05, timeout_s, advertised_port=advertised_port
        )
        edge = Supervisor(cast(Server, heard), plan)
        _, first = await edge.listen(free_port())
        await edge.start()
        try:
            yield heard, first
        finally:
            await edge.stop()


def some_ports(count: int) -> Ports:
    """Neighbours, all of them free."""
    while True:
        first = free_port()
        if all(is_free(port) for port in range(first, first + count)):
            return Ports(first, first + count - 1)


def broker(node_id: int, host: str = "127.0.0.1", port: int = 0) -> MetadataBroker:
    return MetadataBroker(node_id, host, port)


async def test_brokers_whose_ids_fall_on_the_same_port_have_a_port_each() -> None:
    async with beside(Cluster(broker(10), broker(20), broker(30)), some_ports(10)) as (heard, _):
        ports = await heard.found(10, 20, 30)
        assert len(set(ports.values())) == 3
        for port in ports.values():
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()


async def test_two_brokers_of_the_same_id_have_one_listener_that_is_accepted_at() -> None:
    async with beside(Cluster(broker(10), broker(10)), some_ports(10)) as (heard, _):
        (port,) = (await heard.found(10)).values()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


async def test_brokers_replaced_one_after_the_other_never_run_out_of_ports() -> None:
    cluster = Cluster(broker(1), broker(2))
    async with beside(cluster, some_ports(3)) as (heard, _):
        await heard.found(1, 2)
        for node_id in range(3, 12):
            cluster.told = (broker(1), broker(node_id))
            ports = await heard.found(1, node_id)
            assert len(set(ports.values())) == 2


async def test_a_broker_that_comes_back_has_its_port_again_while_others_are_free() -> None:
    cluster = Cluster(broker(1), broker(2))
    async with beside(cluster, some_ports(4)) as (heard, _):
        before = await heard.found(1, 2)
        cluster.told = (broker(1), broker(6))  # its port would be that of 2
        assert (await heard.found(1, 6))[6] != before[2]
        cluster.told = (broker(1), broker(2), broker(6))
        assert (await heard.found(1, 2, 6))[2] == before[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "LocalHost", "127.1"])
async def test_a_broker_said_to_be_at_a_listener_of_ours_is_left_out_with_one_line(host: str) -> None:
    cluster = Cluster(broker(1))
    async with beside(cluster, some_ports(5)) as (heard, first):
        await heard.found(1)
        with capture_logs() as lines:
            cluster.told = (broker(1), broker(2, host, first), broker(3))
            await heard.found(1, 3)
            count = len(heard.events)
            await heard.until(lambda: len(heard.events) >= count + 3)
        assert set(heard.last_found()) == {1, 3}
        assert [line["broker"] for line in lines if "lead back here" in line["event"]] == [2]


async def test_a_known_broker_that_moves_to_its_own_listener_is_known_no_more() -> None:
    cluster = Cluster(broker(1), broker(2))
    async with beside(cluster, some_ports(5)) as (heard, _):
        ports = await heard.found(1, 2)
        cluster.told = (broker(1), broker(2, "127.0.0.1", ports[1]))
        await heard.found(1)


async def test_a_broker_at_the_address_that_clients_are_told_is_our_own() -> None:
    cluster = Cluster(broker(1), broker(2, "front.example", 9_192))
    with capture_logs() as lines:
        async with beside(cluster, some_ports(5), advertised_host="front.example", advertised_port=9_192) as (heard, _):
            await heard.found(1)
    assert [line["broker"] for line in lines if "lead back here" in line["event"]] == [2]


async def test_a_listener_on_one_address_is_not_taken_for_a_broker_on_another() -> None:
    listeners = Listeners("127.0.0.1", "front.example", some_ports(1))
    _, port = await listeners.open_bootstrap(lambda: pytest.fail("nobody comes"), 0)
    assert listeners.owns_address(("localhost", port))
    assert listeners.owns_address(("front.example", port))
    assert not listeners.owns_address(("broker.example", port))
    assert not listeners.owns_address(("127.0.0.1", port + 1))
    assert listeners.owns_connection(("127.0.0.1", 1), ("::ffff:127.0.0.1", port))
    assert not listeners.owns_connection(("10.0.0.5", 1), ("10.0.0.5", port))
    listeners.close()
    of_any = Listeners("0.0.0.0", "front.example", some_ports(1))
    _, port = await of_any.open_bootstrap(lambda: pytest.fail("nobody comes"), 0)
    assert of_any.owns_connection(("10.0.0.5", 1), ("10.0.0.5", port))
    assert not of_any.owns_connection(("10.0.0.5", 1), ("10.0.0.6", port))
    of_any.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_port_that_somebody_else_takes_before_it_is_served_at_is_given_up_for_another(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        taken, instead = runner.run(_taken_meanwhile())
    assert taken is not None
    assert instead not in {None, taken}


async def _taken_meanwhile() -> tuple[int | None, int | None]:
    listeners = Listeners("127.0.0.1", "127.0.0.1", some_ports(5))
    taken = await listeners.open(1, lambda: pytest.fail("nobody comes"))
    with socket.create_server(("127.0.0.1", taken or 0)):
        await listeners.serve()
        instead = await listeners.open(1, lambda: pytest.fail("nobody comes"))
        await listeners.serve()
    listeners.close()
    return taken, instead


async def test_hundreds_who_ask_at_once_are_answered_and_the_cluster_is_never_away() -> None:
    cluster = Cluster(broker(1), delay_s=0.001)
    async with beside(cluster, some_ports(1)) as (heard, _):
        await heard.found(1)
        for number in range(300):
            heard.carried[UpstreamRequest](UpstreamRequest(number, Heartbeat("g", 1, "m"), 1))
        await heard.until(lambda: len(heard.answers()) == 300)
        assert [one.reason for one in heard.answers() if one.reply is None] == []
        assert not any(isinstance(event, UpstreamUnreachable) for event in heard.events)
        assert cluster.connections == 2


async def test_who_looks_for_brokers_does_not_wait_behind_questions() -> None:
    cluster = Cluster(broker(1), delay_s=0.2)
    async with beside(cluster, some_ports(1), timeout_s=1) as (heard, _):
        await heard.found(1)
        for number in range(1_000):
            heard.carried[UpstreamRequest](UpstreamRequest(number, Heartbeat("g", 1, "m"), 1))
        await heard.until(lambda: len(heard.answers()) == 1_000)
        assert any(one.reply is not None for one in heard.answers())
        assert not any(isinstance(event, UpstreamUnreachable) for event in heard.events)
        assert heard.last_found().keys() == {1}
        assert cluster.connections == 2


async def test_nobody_waits_behind_a_topic_that_the_cluster_takes_long_to_make() -> None:
    cluster = Cluster(broker(1), delay_s=2, slow=CREATE_TOPICS)
    async with beside(cluster, some_ports(1), timeout_s=1) as (heard, _):
        await heard.found(1)
        heard.carried[UpstreamRequest](
            UpstreamRequest(0, CreateTopics((CreatableTopic("t", 1, 1),), timeout_ms=10_000))
        )
        for number in range(1, 6):
            heard.carried[UpstreamRequest](UpstreamRequest(number, Heartbeat("g", 1, "m"), 1))
        await heard.until(lambda: len(heard.answers()) == 6)
        assert [one.reason for one in heard.answers() if one.reply is None] == []
        assert [one.call_id for one in heard.answers()][-1] == 0
        assert cluster.connections == 3


@pytest.mark.parametrize(
    "message", [Heartbeat("g", 1 << 40, "m"), Heartbeat("\ud800", 1, "m"), Heartbeat("g" * 40_000, 1, "m")]
)
async def test_what_cannot_be_written_is_a_question_that_failed_and_nothing_more(message: Message) -> None:
    async with beside(Cluster(broker(1)), some_ports(1)) as (heard, _):
        await heard.found(1)
        heard.carried[UpstreamRequest](UpstreamRequest(1, message, 1))
        heard.carried[UpstreamRequest](UpstreamRequest(2, Heartbeat("g", 1, "m"), 1))
        await heard.until(lambda: len(heard.answers()) == 2)
        answers = {one.call_id: one for one in heard.answers()}
        assert answers[1].reply is None
        assert "Heartbeat cannot be written" in answers[1].reason
        assert answers[2].reply == HeartbeatReply()


@contextlib.asynccontextmanager
async def linked(cluster: Cluster) -> AsyncIterator[BrokerClient]:
    async with tcp_server(cluster.serve) as cluster.port:
        link = await BrokerClient.open("127.0.0.1", cluster.port, 5)
        try:
            yield link
        finally:
            link.close()


async def asked(link: BrokerClient, count: int, timeout_s: float = 5) -> list[str]:
    """Send requests at once; return the type name of each reply or error."""
    asks = (link.ask(Heartbeat("g", 1, "m"), timeout_s) for _ in range(count))
    return [type(one).__name__ for one in await asyncio.gather(*asks, return_exceptions=True)]


async def test_who_finds_no_place_in_time_fails_alone_and_the_link_stays_open() -> None:
    cluster = Cluster(delay_s=0.5)
    async with linked(cluster) as link:
        told = await asked(link, 500, timeout_s=2.5)
        assert link.is_open
        assert {"HeartbeatReply", "RequestFailed"} == set(told)
        assert cluster.heard <= told.count("HeartbeatReply") + MAX_IN_FLIGHT * 2
        cluster.delay_s = 0
        assert await asked(link, 5) == ["HeartbeatReply"] * 5


async def test_places_of_those_who_went_away_are_given_to_others() -> None:
    cluster = Cluster(delay_s=0.005)
    async with linked(cluster) as link:
        tasks = [asyncio.ensure_future(link.ask(Heartbeat("g", 1, "m"), 5)) for _ in range(3 * MAX_IN_FLIGHT)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asked(link, 2 * MAX_IN_FLIGHT) == ["HeartbeatReply"] * (2 * MAX_IN_FLIGHT)


async def test_a_broker_that_falls_silent_fails_all_who_asked_or_wait_for_a_place() -> None:
    cluster = Cluster()
    async with linked(cluster) as link:
        assert await asked(link, 3) == ["HeartbeatReply"] * 3
        cluster.is_silent = True
        assert await asked(link, 2 * MAX_IN_FLIGHT, timeout_s=0.3) == ["RequestFailed"] * (2 * MAX_IN_FLIGHT)
        assert not link.is_open
        with pytest.raises(RequestFailed, match="closed"):
            await link.ask(Heartbeat("g", 1, "m"), 5)


async def test_a_link_that_is_retired_closes_when_the_last_was_answered() -> None:
    async with linked(Cluster(delay_s=0.01)) as link:
        asks = asyncio.ensure_future(asked(link, 2 * MAX_IN_FLIGHT))
        await asyncio.sleep(0.02)
        link.retire()
        assert link.is_open
        assert await asks == ["HeartbeatReply"] * (2 * MAX_IN_FLIGHT)
        assert not link.is_open


async def test_a_link_that_is_retired_waits_for_who_was_handed_a_place_and_has_not_asked_yet() -> None:
    cluster = Cluster(in_bursts_of=MAX_IN_FLIGHT)
    async with linked(cluster) as link:
        asks = [asyncio.ensure_future(link.ask(Heartbeat("g", 1, "m"), 5)) for _ in range(2 * MAX_IN_FLIGHT)]
        await asyncio.sleep(0)
        link.retire()
        assert await asyncio.gather(*asks, return_exceptions=True) == [HeartbeatReply()] * (2 * MAX_IN_FLIGHT)
        assert not link.is_open


async def test_an_answer_that_cannot_be_read_fails_who_asked_and_closes_the_link() -> None:
    async def answer_badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read(1_000)
        writer.write(
            VersionCodec(WIRE_APIS[API_VERSIONS], 3).frame(
                unpack_from(">i", request, 8)[0], Cluster().reply(API_VERSIONS)
            )
        )
        request = await reader.read(1_000)
        writer.write(pack(">i", 9) + request[8:12] + b"\x7f" * 5)
        await reader.read()

    async with tcp_server(answer_badly) as port:
        link = await BrokerClient.open("127.0.0.1", port, 5)
        with pytest.raises(RequestFailed):
            await link.ask(Metadata(()), 5)
        assert not link.is_open

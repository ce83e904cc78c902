"""Faults that only the edge can have: slow readers, many bytes, clocks and ids."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from coordinator.config.config import Config
from coordinator.io.ids import RandomIds
from coordinator.io.server import ClientProtocol, Server, read_clock
from coordinator.node.events import Received
from coordinator.node.node import Node
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.errors import ErrorCode
from protocol.kafka.client import encode_request
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import DescribeGroups, ListGroups, ListGroupsReply
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from protocol.native.client import NativeClient
from protocol.record_batch import encode_batch

MOST_UNSENT = 1 << 18
TOO_MUCH = 64 << 20  # far beyond what the kernel keeps for two sockets


async def _serving(folder: Path, max_unsent_bytes: int) -> tuple[Server, int]:
    disk = OsDisk()
    limits = StoreLimits(wal_segment_bytes=1 << 20, checkpoint_bytes=1 << 20, max_batch_bytes=1 << 18)
    store = LogStore(disk, str(folder), limits)
    store.open()
    server = Server(disk, max_unsent_bytes, 8 * max_unsent_bytes)
    _host, port = await server.listen("native", "127.0.0.1", 0)
    node = Node(
        Config(max_requests_per_connection=10**6), store, RandomIds(), {"native": ("127.0.0.1", port)}, read_clock()
    )
    await server.start(node)
    await server.until_loaded()
    return server, port


def test_ids_are_prefixed_and_never_repeat() -> None:
    ids = RandomIds()
    made = {ids.member_id("client") for _ in range(100)}
    assert len(made) == 100
    assert all(one.startswith("client-") for one in made)
    assert len(ids.topic_id()) == 16


async def test_all_that_was_read_is_served_before_its_connection_is_lost(tmp_path: Path) -> None:
    server, _port = await _serving(tmp_path / "data", 1 << 20)
    await server.calls.ask(CreateTopics((CreatableTopic("t", 1, 1),)))
    batch = ProduceTopic("t", (ProducePartition(0, encode_batch([(None, b"told")], timestamp_ms=1)),))
    frames = [encode_request(Produce((batch,), acks=0), 7, number, None) for number in range(20)]
    client = ClientProtocol(server, "kafka")
    number = server.opened(client, "kafka", ("127.0.0.1", 1))
    server.received(Received(number, b"".join(frames)))
    server.lost(number)
    wanted = ListOffsets((ListOffsetsTopic("t", (ListOffsetsPartition(0),)),))
    end = 0
    async with asyncio.timeout(30):
        while end < len(frames):  # until the last one is durable: then readers see it
            reply = await server.calls.ask(wanted)
            assert isinstance(reply, ListOffsetsReply)
            end = reply.topics[0].partitions[0].offset
            await asyncio.sleep(0.01)
    await server.stop()


@pytest.mark.parametrize("by_kernel", [True, False])
def test_what_is_written_is_answered_when_it_is_synced_by_the_kernel_or_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_kernel: bool
) -> None:
    if not by_kernel:
        monkeypatch.setattr("coordinator.io.job_runners.kernel_flush", lambda loop: None)

    async def story() -> None:
        server, _port = await _serving(tmp_path / "data", 1 << 20)
        for number in range(20):
            reply = await server.calls.ask(CreateTopics((CreatableTopic(f"t{number}", 1, 1),)))
            assert isinstance(reply, CreateTopicsReply)
            assert [topic.error_code for topic in reply.topics] == [ErrorCode.NONE]
            assert server.node.core.store.flushed >= server.node.core.store.position
        await server.stop()

    asyncio.run(story())


def test_a_question_from_inside_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        server, _port = await _serving(tmp_path / "data", 1 << 20)
        assert isinstance(await server.calls.ask(ListGroups()), ListGroupsReply)
        await server.stop()

    asyncio.run(story())


class Late(asyncio.Transport):
    """Its handshake was under way when the listeners closed."""

    was_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits."""

    def abort(self) -> None:
        self.was_aborted = True


def test_who_comes_in_after_the_listeners_have_closed_is_sent_away(tmp_path: Path) -> None:
    async def story() -> None:
        server, _port = await _serving(tmp_path / "data", 1 << 20)
        await server.stop()
        late = Late()
        client = ClientProtocol(server, "native")
        client.connection_made(late)
        assert late.was_aborted
        assert server.client(client.number) is None

    asyncio.run(story())


def test_a_client_that_never_reads_its_answers_is_not_read_from_either_and_another_is_served(tmp_path: Path) -> None:
    async def story() -> None:
        server, port = await _serving(tmp_path / "data", MOST_UNSENT)
        deaf = socket.create_connection(("127.0.0.1", port))
        deaf.setblocking(False)
        request = NativeClient(1 << 20).encode_request(DescribeGroups(("x" * 200,) * 400))[1]
        accepted, loop = 0, asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError, TimeoutError):
            while accepted < TOO_MUCH:
                async with asyncio.timeout(1):
                    await loop.sock_sendall(deaf, request)
                accepted += len(request)
        assert accepted < TOO_MUCH, "the daemon reads on although its answers pile up"
        assert isinstance(await server.calls.ask(ListGroups()), ListGroupsReply)
        deaf.close()
        await server.stop()

    asyncio.run(story())

"""The driver of cores in an event loop, against servers that are slow, rude or gone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from membership.events import CallFailed, Closed, HangUp, MemberEffect, MemberEvent, Replied, SendRequest, TimePassed
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.loop import LoopDriver
from protocol.kafka.session import KafkaDialect
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.record_batch import encode_batch
from tests.edges.musterd import free_port
from tests.edges.tcp import tcp_server

BEAT = Heartbeat("g", 1, "m")


class Core:
    """Does what it is told for each event, and remembers them."""

    def __init__(self, follow: Callable[[MemberEvent], list[MemberEffect]]) -> None:
        self.next_deadline_ms: int | None = None
        self.heard: list[MemberEvent] = []
        self.times: list[int] = []
        self._follow = follow

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        self.heard.append(event)
        self.times.append(now_ms)
        self.next_deadline_ms = None
        return self._follow(event)


def driving(core: Core, bootstrap: str, told: list[MemberEffect] | None = None) -> tuple[LoopDriver, Driven]:
    driver = LoopDriver(parse_bootstrap(bootstrap), "test")
    driven = Driven(core, (told if told is not None else list[MemberEffect]()).append)
    driver.add(driven)
    return driver, driven


@asynccontextmanager
async def serving(*, requests_each: int, says: bytes = b"") -> AsyncIterator[tuple[str, list[int]]]:
    """Closes each connection after so many requests; how many it has seen on each. `says` goes out before anything."""
    seen: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(seen)
        seen.append(0)
        writer.write(says)
        session = KafkaDialect(1 << 20, {Heartbeat, Produce}).open()
        while seen[number] < requests_each and (data := await reader.read(65_536)):
            session.receive_data(data)
            while (request := session.next_request()) is not None:
                seen[number] += 1
                if isinstance(request[1], Heartbeat):
                    writer.write(session.encode_reply(request[0], HeartbeatReply()))
            writer.write(session.take_data())

    async with tcp_server(serve) as port:
        yield f"kafka://127.0.0.1:{port}", seen


async def test_calls_are_answered_and_a_lost_connection_fails_them_and_is_made_anew() -> None:
    def follow(event: MemberEvent) -> list[MemberEffect]:
        return [SendRequest(len(core.heard), None, BEAT)] if len(core.heard) < 4 else [Closed()]

    core, told = Core(follow), list[MemberEffect]()
    async with serving(requests_each=2) as (bootstrap, seen):
        driver, driven = driving(core, bootstrap, told)
        driver.feed(driven, TimePassed())
        assert await driver.changed.wait_for(lambda: bool(told), 5)
        await driver.stop()
    assert core.heard[:3] == [TimePassed(), Replied(1, HeartbeatReply()), Replied(2, HeartbeatReply())]
    assert core.heard[3] in {CallFailed(3), Replied(3, HeartbeatReply())}
    assert sum(seen) >= 2
    assert told == [Closed()]


async def test_nobody_there_is_said_plainly() -> None:
    core = Core(lambda event: [SendRequest(1, None, BEAT)] if isinstance(event, TimePassed) else [])
    address = f"127.0.0.1:{free_port()}"
    driver, driven = driving(core, address)
    driver.feed(driven, TimePassed())
    assert await driver.changed.wait_for(lambda: len(core.heard) == 2, 5)
    assert core.heard[1] == CallFailed(1, is_unreached=True)
    assert driver.trouble == driver.last_failure
    assert driver.last_failure.startswith(f"cannot connect to {address}: Connection refused. Is musterd running there")
    assert not driver.has_ever_connected
    await driver.stop()


async def test_bytes_that_no_server_sends_end_the_connection() -> None:
    core = Core(lambda event: [SendRequest(1, None, BEAT)] if isinstance(event, TimePassed) else [])
    async with serving(requests_each=9, says=b"\x7f" * 64) as (bootstrap, _):
        driver, driven = driving(core, bootstrap)
        driver.feed(driven, TimePassed())
        assert await driver.changed.wait_for(lambda: CallFailed(1, is_unreached=True) in core.heard, 5)
        assert "cannot connect to 127.0.0.1" in driver.trouble
        await driver.stop()


async def test_hanging_up_while_connecting_fails_what_was_asked_and_asks_the_next_node() -> None:
    def follow(event: MemberEvent) -> list[MemberEffect]:
        if isinstance(event, TimePassed):
            return [SendRequest(1, None, BEAT), HangUp(None)]
        return [SendRequest(2, None, BEAT)] if isinstance(event, CallFailed) else []

    core = Core(follow)
    async with serving(requests_each=9) as (bootstrap, seen):
        driver, driven = driving(core, f"kafka://127.0.0.1:{free_port()},{bootstrap.removeprefix('kafka://')}")
        driver.feed(driven, TimePassed())
        assert await driver.changed.wait_for(lambda: len(core.heard) == 3, 5)
        await driver.stop()
    assert core.heard == [TimePassed(), CallFailed(1, is_unreached=True), Replied(2, HeartbeatReply())]
    assert seen == [1]


async def test_a_connection_made_too_late_is_nobodys() -> None:
    class Transport(asyncio.Transport):
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

    core = Core(lambda event: [SendRequest(1, None, BEAT)] if isinstance(event, TimePassed) else [])
    driver, driven = driving(core, f"127.0.0.1:{free_port()}")
    driver.feed(driven, TimePassed())
    (wire,) = driver._connections.values()
    transport = Transport()
    stopping = asyncio.create_task(driver.stop())
    await asyncio.sleep(0)
    wire.connection_made(transport)
    wire.connection_lost(None)
    await stopping
    assert transport.is_aborted
    assert not driver.has_ever_connected


async def test_what_is_never_answered_is_sent_before_the_end() -> None:
    """Though the connection is only being made when the driver is told to stop."""
    part = ProducePartition(0, encode_batch([(None, b"quiet")], timestamp_ms=1))
    silent = Produce((ProduceTopic("t", (part,)),), acks=0)
    core = Core(lambda event: [SendRequest(1, None, silent)] if isinstance(event, TimePassed) else [])
    async with serving(requests_each=1) as (bootstrap, seen):
        driver, driven = driving(core, bootstrap)
        driver.feed(driven, TimePassed())
        await driver.stop()
        for _ in range(500):
            if seen == [1]:
                break
            await asyncio.sleep(0.01)
    assert seen == [1]


async def test_a_core_is_woken_when_it_wants_to_be_by_the_clock_of_the_loop() -> None:
    def follow(_: MemberEvent) -> list[MemberEffect]:
        if len(core.heard) < 5:
            core.next_deadline_ms = core.times[-1] + 20
        return []

    core = Core(follow)
    driver, driven = driving(core, "127.0.0.1:1")
    driver.feed(driven, TimePassed())
    assert await driver.changed.wait_for(lambda: len(core.heard) == 5, 5)
    assert core.heard == [TimePassed()] * 5
    assert all(later - earlier >= 20 for earlier, later in zip(core.times, core.times[1:], strict=False))
    await driver.stop()


async def test_a_nearer_deadline_comes_first() -> None:
    def follow(_: MemberEvent) -> list[MemberEffect]:
        waits_ms = {1: 60_000, 2: 20}.get(len(core.heard))
        core.next_deadline_ms = None if waits_ms is None else core.times[-1] + waits_ms
        return []

    core = Core(follow)
    driver, driven = driving(core, "127.0.0.1:1")
    driver.feed(driven, TimePassed())
    driver.feed(driven, TimePassed())
    assert await driver.changed.wait_for(lambda: len(core.heard) == 3, 5)
    await driver.stop()


async def test_after_the_end_nothing_is_begun_and_no_task_is_left() -> None:
    core = Core(lambda _: [SendRequest(1, None, BEAT)])
    async with serving(requests_each=9) as (bootstrap, seen):
        driver, driven = driving(core, bootstrap)
        driver.feed(driven, TimePassed())
        await driver.stop()
        driver.feed(driven, TimePassed())
        driver.carry_out(driven, lambda _: [SendRequest(2, None, BEAT)])
        await driver.stop()
        left = [task for task in asyncio.all_tasks() if "_Wire" in repr(task.get_coro())]
        assert left == []
    assert core.heard == [TimePassed()]
    assert sum(seen) <= 1


def test_a_driver_that_was_never_used_needs_no_loop_to_be_made() -> None:
    driver, driven = driving(Core(lambda _: []), "127.0.0.1:1")
    asyncio.run(driver.stop())
    with pytest.raises(RuntimeError, match="no running event loop"):
        driver.feed(driven, TimePassed())

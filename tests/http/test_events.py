"""Server-sent events: notes and problems of a node, replayed from a cursor."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from coordinator.http.live import feed
from coordinator.http.live.event_log import Cursor, EventLog, parse_cursor
from coordinator.http.live.event_pages import EVENTS
from coordinator.http.queries import Queries
from coordinator.http.watch import ProblemWatch
from protocol.messages.groups import ApplyOffsets, DeleteGroups, OffsetChange
from tests.node.operated import DiagnosisRig
from tests.node.test_audit import STRANGER, commit


def test_a_log_tells_what_came_behind_a_cursor_and_when_something_is_missing() -> None:
    log = EventLog(5, most=3)
    assert log.after(log.cursor()) == ([], False)
    for number in range(1, 6):
        log.add("note", "g", number, {})

    def numbers(cursor: Cursor) -> tuple[list[int], bool]:
        events, is_gap = log.after(cursor)
        return [event.number for event in events], is_gap

    assert numbers(Cursor(5, 4)) == ([5], False)
    assert numbers(Cursor(5, 2)) == ([3, 4, 5], False)
    assert numbers(Cursor(5, 1)) == ([3, 4, 5], True), "2 was dropped"
    assert numbers(Cursor(5, 6)) == ([3, 4, 5], True), "it is not of this process"
    assert numbers(Cursor(4, 5)) == ([3, 4, 5], True)

    log.skip()
    log.add("note", "g", 7, {})
    assert numbers(Cursor(5, 4)) == ([5, 7], True)
    assert numbers(Cursor(5, 5)) == ([7], True), "some were not made"
    assert numbers(Cursor(5, 6)) == ([7], False)


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "1.x", "-1.2", "1.2.3", "9" * 30 + ".1"])
def test_a_text_that_is_no_cursor(text: str) -> None:
    assert parse_cursor(text) is None
    assert parse_cursor(str(Cursor(7, 8))) == Cursor(7, 8)


@pytest.fixture
def rig() -> DiagnosisRig:
    return DiagnosisRig()


@pytest.fixture
async def client(rig: DiagnosisRig) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(rig.ask_doctor, look_every_s=feed.LOOK_EVERY_S / 1_000))) as client:
        yield client


async def _no_rest() -> None:
    pass


async def event(answer: ClientResponse) -> tuple[str, str, Any]:
    """Return type, id and data of the next event; comments are passed over."""
    fields: dict[str, str] = {}
    while True:
        line = (await answer.content.readline()).decode().rstrip()
        if not line and "data" in fields:
            return fields["event"], fields["id"], json.loads(fields["data"])
        name, _colon, value = line.partition(": ")
        fields[name] = value


async def test_who_follows_hears_of_rebalances_and_problems_and_later_of_what_it_missed(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    async with client.get(EVENTS.path) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        member = rig.member("g", "app", "10.0.0.1")
        rig.run(5_000)
        kind, first, told = await event(stream)
        assert (kind, told["group_id"], told["note"]["cause"]) == ("note", "g", "member joined")
        assert told["note"]["origin"]["client_host"] == "10.0.0.1"
        assert (await event(stream))[2]["note"]["kind"] == "completed"
        member.kill()
        rig.run(5_000)
        kind, _id, told = await event(stream)
        assert (kind, told["problem"]["kind"]) == ("problem.opened", "silent_member")
        assert told["problem"]["client_host"] == "10.0.0.1"

    async with client.get("/v1/events", headers={"Last-Event-ID": first}) as stream:
        assert (await event(stream))[2]["note"]["kind"] == "completed"
        assert (await event(stream))[0] == "problem.opened"
    async with client.get(f"/v1/events?after={first}&type=problem.opened&group=g") as stream:
        assert (await event(stream))[0] == "problem.opened"
    async with client.get("/v1/events?after=1.1") as stream:
        assert (await event(stream))[0] == "gap"
        assert (await event(stream))[1] == first
    refused = await client.get("/v1/events?after=yesterday")
    assert (refused.status, refused.content_type) == (400, "application/problem+json")


async def test_notes_of_a_pause_are_no_events_and_who_asks_for_them_is_told_of_the_gap(rig: DiagnosisRig) -> None:
    queries = Queries(rig.ask_doctor)
    followed = feed.Feed(queries, ProblemWatch(queries, _no_rest, asyncio.Lock()), 7)
    events = followed.events
    rig.connect(STRANGER)

    async def told(cursor: Cursor) -> tuple[list[int], bool]:
        await followed.look()
        found, is_gap = events.after(cursor)
        return [one.body["changes"][0]["offset"] for one in found], is_gap

    def reset(previous: int, offset: int) -> None:
        rig.ask(STRANGER, ApplyOffsets("g", (OffsetChange("orders", 0, previous, offset),), "reset"))
        rig.wait(1_000)

    followed.pause()
    await followed.look()
    reset(-1, 1)
    assert await told(events.cursor()) == ([1], False)
    before = events.cursor()
    followed.pause()
    reset(1, 2)
    assert await told(before) == ([], True)
    after = events.cursor()
    reset(2, 3)
    assert await told(after) == ([3], False)
    assert await told(before) == ([3], True)


async def test_the_deletion_of_a_group_is_an_event_with_its_first_offsets(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.make_topic("wide", 30)
    rig.connect(STRANGER)
    rig.ask(STRANGER, commit(dict.fromkeys(range(30), 7), "h", "wide"))
    async with client.get(EVENTS.path) as stream:
        rig.wait(1_000)
        rig.ask(STRANGER, DeleteGroups(("h",)))
        kind, _id, told = await event(stream)
    assert (kind, told["group_id"], told["note"]["cause"]) == ("note", "h", "group deleted")
    assert len(told["note"]["changes"]) == 20


async def test_the_expiry_of_a_group_is_one_event(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.make_topic("wide", 30)
    rig.connect(STRANGER)
    for group_id in ("h", "i"):
        rig.ask(STRANGER, commit(dict.fromkeys(range(30), 7), group_id, "wide"))
    async with client.get(EVENTS.path) as stream:
        rig.wait(8 * 24 * 3_600_000)  # `offsets.retention.minutes` is a week
        while rig.node.core.count_groups():
            rig.wait(60_000)
        told = [await event(stream) for _ in range(2)]
    assert sorted((kind, one["group_id"], one["note"]["cause"]) for kind, _id, one in told) == [
        ("note", "h", "group expired"),
        ("note", "i", "group expired"),
    ]
    assert told[0][2]["note"]["detail"] == "with 30 offsets of wide"

"""Pages about server-driven consumer groups, over a node that has one."""

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from coordinator.http.console.views import assignment_rows
from diagnosis.assignments import ranges
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup, DescribedMember
from tests.http.conftest import Browser
from tests.http.test_console import BROWSER, plain
from tests.node.consumer_rig import Rig
from tests.node.node_rig import WALL_MS


@pytest.fixture
def rig() -> Rig:
    """A has all of T."""
    rig = Rig()
    rig.join("A", "T", rebalance_timeout_ms=60_000)
    return rig


@pytest.fixture
async def browser(rig: Rig) -> AsyncIterator[Browser]:
    async def ask(message: Message) -> Message:
        reply = rig.node_rig.ask_inside(message, call=11)
        assert reply is not None
        return reply

    async with TestClient(TestServer(make_app(ask))) as client:
        yield Browser(client)


async def test_a_live_group_is_listed(browser: Browser) -> None:
    assert await browser.get("/v1/groups") == {"groups": ["g"]}
    assert await browser.get("/v1/groups?mode=server") == {"groups": ["g"]}


async def test_the_page_has_epochs_and_targets(browser: Browser) -> None:
    page = await browser.get("/v1/groups/g")
    assert (page["mode"], page["state"], page["generation_id"], page["target_epoch"]) == ("server", "Stable", 2, 2)
    assert (page["phase"], page["sentence"], page["waiting_for"]) == ("", None, [])
    (member,) = page["members"]
    assert (member["consumer_id"], member["member_epoch"], member["topics"]) == ("A", 2, ["T"])
    partitions = [{"topic": "T", "partition": number} for number in range(4)]
    assert member["partitions"] == member["target"] == partitions
    assert member["to_revoke"] == []
    assert (member["session_timeout_ms"], member["session_left_ms"], member["revoking_ms"]) == (45_000, 45_000, None)


async def test_a_member_that_does_not_revoke_is_named_with_the_time(browser: Browser, rig: Rig) -> None:
    rig.join("B", "T")
    rig.beat("A", 2)
    rig.node_rig.wait(12_000)
    page = await browser.get("/v1/groups/g")
    assert (page["phase"], page["phase_ms"], page["phase_left_ms"]) == ("revoke", 12_000, 48_000)
    assert (page["waiting_for"], page["limited_by"]) == (["A"], "A")
    assert page["sentence"].startswith("revocation for 12 s, at most 48 s more by the rebalance timeout of ")
    a, b = page["members"]
    assert a["to_revoke"] == [{"topic": "T", "partition": 2}, {"topic": "T", "partition": 3}] == b["target"]
    assert (a["revoking_ms"], b["revoking_ms"]) == (12_000, None)
    assert (a["member_epoch"], b["member_epoch"]) == (2, 3)
    assert b["partitions"] == []


async def test_a_partition_that_is_to_be_revoked_is_still_read_by_its_member(browser: Browser, rig: Rig) -> None:
    rig.join("B", "T")
    rig.beat("A", 2)
    (cluster,) = (await browser.get("/v3/clusters"))["data"]
    lags = await browser.get(f"/v3/clusters/{cluster['cluster_id']}/consumer-groups/g/lags")
    assert [one["consumer_id"] for one in lags["data"]] == ["A"] * 4


async def test_a_member_that_was_not_told_yet_is_waited_for(browser: Browser, rig: Rig) -> None:
    rig.node_rig.wait(1_000)
    rig.join("B", "T")
    rig.node_rig.wait(2_000)
    page = await browser.get("/v1/groups/g")
    assert (page["phase"], page["phase_ms"], page["waiting_for"], page["limited_by"]) == ("revoke", 2_000, ["A"], "")
    assert page["members"][0]["revoking_ms"] == 2_000
    rig.beat("A", 2, {"T": (0, 1)})
    rig.node_rig.wait(4_000)
    page = await browser.get("/v1/groups/g")
    assert (page["phase"], page["phase_ms"], page["phase_left_ms"]) == ("assign", 6_000, 39_000)
    assert (page["waiting_for"], page["limited_by"]) == (["B"], ""), "it learns of its partitions by a heartbeat"
    assert page["sentence"] == "assignment for 6.0 s, at most 39 s more"
    rig.beat("B", 3)
    assert (await browser.get("/v1/groups/g"))["phase"] == ""


async def test_a_classic_member_takes_up_its_target_by_joining_again(browser: Browser, rig: Rig) -> None:
    """Its heartbeats renew its session, not the time by which it must join."""
    rig.join("B", "T")
    rig.classic_join("c")
    for _ in range(2):
        rig.beat("A", 2, {"T": (0, 1)})
        rig.beat("B", 3, {"T": ()})
    rig.classic_join("c")
    rig.sync("c", 4)
    rig.beat("B", -1)
    rig.beat("A", 4)
    page = await browser.get("/v1/groups/g")
    assert (page["phase"], page["waiting_for"], page["limited_by"]) == ("assign", ["c"], ""), "it was not told yet"
    rig.heartbeat("c", 4)
    rig.node_rig.wait(3_000)
    rig.heartbeat("c", 4)
    page = await browser.get("/v1/groups/g")
    assert (page["phase"], page["phase_left_ms"], page["limited_by"]) == ("assign", 17_000, "c")
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "has not followed yet" in text


async def test_members_that_would_compute_the_target_are_waited_for(browser: Browser, rig: Rig) -> None:
    rig.join("B", "T")
    rig.beat("A", 2, {"T": (0, 1)})
    rig.node_rig.wait(1_000)
    rig.beat("B", -1)
    rig.node_rig.wait(2_000)
    page = await browser.get("/v1/groups/g")
    assert (page["state"], page["phase"], page["phase_ms"]) == ("Assigning", "assign", 2_000)
    assert page["waiting_for"] == ["A"]


async def test_a_static_member_that_is_away_is_waited_for(browser: Browser, rig: Rig) -> None:
    rig.join("S", "T", instance_id="i")
    for _ in range(2):
        rig.beat("A", 2, {"T": (0, 1)})
        rig.beat("S", 3, {"T": ()})
    rig.node_rig.wait(30_000)
    for _ in range(2):
        rig.beat("A", 3)
        rig.beat("S", 3)
    assert (await browser.get("/v1/groups/g"))["state"] == "Stable"
    rig.beat("S", -2, instance_id="i")
    rig.node_rig.wait(2_000)
    page = await browser.get("/v1/groups/g")
    assert (page["state"], page["phase"], page["waiting_for"]) == ("Reconciling", "assign", ["S"])
    assert page["phase_ms"] == 2_000, "it left then, though the target is older"
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "Under way" not in text, "the rebalance is over"


async def test_since_when_the_state_is_what_it_is(browser: Browser, rig: Rig) -> None:
    async def since() -> tuple[str, int | None]:
        page = await browser.get("/v1/groups/g")
        return page["state"], page["state_since_ms"]

    joined_ms = WALL_MS + rig.node_rig.now_ms
    assert await since() == ("Stable", joined_ms)
    rig.node_rig.wait(1_000)
    rig.beat("A", 2)
    assert await since() == ("Stable", joined_ms), "a heartbeat changes nothing"
    rig.join("B", "T")
    assert await since() == ("Reconciling", joined_ms + 1_000)
    rig.restart()
    assert await since() == ("Reconciling", None), "the log does not contain it"
    rig.node_rig.wait(2_000)
    rig.beat("A", -1)
    rig.beat("B", -1)
    assert await since() == ("Empty", WALL_MS + rig.node_rig.now_ms)


async def test_the_console_shows_epochs_and_assignments_and_who_must_revoke(browser: Browser, rig: Rig) -> None:
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "Epoch 2 Target epoch 2" in text
    assert "Must revoke (unnamed) A consumer 2 T 0-3 the same nothing" in text
    rig.join("B", "T")
    rig.beat("A", 2)
    rig.node_rig.wait(12_000)
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "Epoch 3 Target epoch 3" in text
    shown = "Must revoke (unnamed) A consumer 2 T 0-1 the same T 2-3 for 12 s "
    assert shown + "(unnamed) B consumer 3 \N{EN DASH} T 2-3 nothing" in text
    rig.beat("A", 2, {"T": (0, 1)})
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "Under way for 12 s, at most 33 s more. Waiting for (unnamed)" in text
    rig.beat("B", 3)
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "revocations for 12 s. Last to revoke: (unnamed) after 12 s." in text
    assert "target revocations" in text, "the legend"
    assert "Generation" not in text


async def test_nobody_computes_the_target_of_a_group_without_members(browser: Browser, rig: Rig) -> None:
    rig.beat("A", -1)
    text = plain(await browser.text("/console/group?id=g", **BROWSER))
    assert "Epoch 3 Target epoch 2" in text and "not computed yet" not in text


async def test_partitions_in_a_cell_are_cut_after_a_while(browser: Browser, rig: Rig) -> None:
    names = [f"{'n' * 40}{number}" for number in range(6)]
    for name in names:
        rig.node_rig.make_topic(name, 1)
    rig.join("Z", *names)
    page = await browser.text("/console/group?id=g", **BROWSER)
    assert f"{names[3]} 0, " in page and "…" in page
    assert f"{names[5]} 0" not in page.partition("Must revoke")[2].partition("</table>")[0]


def test_of_many_members_those_that_revoke_are_shown() -> None:
    settled = [DescribedMember(f"m{number}", None, "app", "/h", member_epoch=3) for number in range(300)]
    busy = DescribedMember("slow", None, "zapp", "/h", member_epoch=2, revoking_ms=9_000)
    behind = DescribedMember("behind", None, "zapp", "/h", member_epoch=3, target_assignment=b"more")
    rows = assignment_rows(DescribedGroup("g", members=(*settled, busy, behind), target_epoch=3))
    assert [one.member_id for one in rows[:2]] == ["slow", "behind"]
    assert len(rows) == 200


def test_an_assignment_is_the_target_only_if_all_of_it_is() -> None:
    def encoded(last: int) -> bytes:
        return encode_assignment(Assignment((TopicPartitions("t", (*range(0, 2_000, 2), last)),)))

    member = DescribedMember("m", None, "app", "/h", member_assignment=encoded(2_001), target_assignment=encoded(2_003))
    (row,) = assignment_rows(DescribedGroup("g", protocol_type="consumer", members=(member,), target_epoch=3))
    assert row.has == row.target and not row.is_at_target


def test_the_first_of_many_partitions_are_shown() -> None:
    assert ranges([("t", number) for number in (0, 1, 2, 5)], 3) == "t 0-2 …"
    assert ranges([("t", number) for number in (0, 1, 2)], 3) == "t 0-2"
    assert ranges([]) == ""

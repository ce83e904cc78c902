"""The console's pages as the daemon renders them, at a node with members."""

import hashlib
import html
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from coordinator.http.console import rendering, site
from coordinator.http.console.assets import load_assets, vendored
from coordinator.http.console.forms import PlanForm, plan_request
from coordinator.http.console.history import History
from coordinator.http.console.movements import AssignmentChanges, Moved
from coordinator.http.console.timeline import rebalances
from coordinator.http.console.views import BAD, BUSY, GOOD, member_rows, topic_rows
from coordinator.http.lag.partitions import PartitionLag
from coordinator.http.queries import Problem
from coordinator.http.surgery import PlanRequest
from diagnosis.problem import Kind
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.messages.balanced import StartMember
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedNote, Origin, SlowestMember
from tests.node.operated import DiagnosisRig
from tests.node.test_apply_offsets import OPERATOR, offsets
from tests.node.test_audit import commit

BROWSER = {"Accept": "text/html,application/xhtml+xml"}
EVIL = "<script>alert(1)</script>&\"'/.."


@pytest.fixture
def rig() -> DiagnosisRig:
    rig = DiagnosisRig()
    rig.connect(OPERATOR)
    return rig


@pytest.fixture
async def client(rig: DiagnosisRig) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(rig.ask_doctor))) as client:
        yield client


async def shown(client: TestClient[Any, Any], path: str, status: int = 200, **query: str) -> str:
    """Return the page's text, of which nothing is inline."""
    answer = await client.get(path, params=query, headers=BROWSER)
    text = await answer.text()
    assert (answer.status, answer.content_type) == (status, "text/html"), text
    assert answer.headers["Content-Security-Policy"] == site.POLICY
    assert "unsafe" not in site.POLICY and "Accept" in answer.headers["Vary"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", text)
    return text


def plain(text: str) -> str:
    """Return what a reader sees, with single spaces."""
    main = text[max(0, text.find("<main")) :]  # a part of a page has none
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main)))


async def post(client: TestClient[Any, Any], path: str, form: Any, status: int = 200, **headers: str) -> str:
    answer = await client.post(path, json=form, headers=headers)
    text = await answer.text()
    assert (answer.status, answer.content_type) == (status, "text/html"), text
    return text


# --- files


def test_each_released_file_is_the_one_that_is_listed_with_version_and_licence() -> None:
    folder = files("coordinator.http.console").joinpath("vendor")
    listed = vendored()
    there = {entry.name for entry in folder.iterdir()} - {"vendor.toml", "__pycache__"}
    assert there == {*listed, *(one.licence_file for one in listed.values())}
    for name, one in listed.items():
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == one.sha256, name
        assert re.fullmatch(r"\d+\.\d+\.\d+", one.version) and one.licence in ("0BSD", "MIT")
        assert re.search("MIT|Zero-Clause BSD", folder.joinpath(one.licence_file).read_text())


async def test_assets_are_kept_by_their_checksum(client: TestClient[Any, Any]) -> None:
    for name, asset in load_assets().items():
        answer = await client.get(f"/console/assets/{name}", params={"v": asset.tag})
        assert (await answer.read(), answer.content_type) == (asset.body, asset.media)
        assert "immutable" in answer.headers["Cache-Control"]
        assert (await client.get(f"/console/assets/{name}")).headers["Cache-Control"] == "no-cache"
    assert (await client.get("/console/assets/vendor.toml")).status == 404


# --- pages


async def test_a_browser_is_shown_the_console_and_other_clients_the_paths(client: TestClient[Any, Any]) -> None:
    assert "No groups yet" in plain(await shown(client, "/"))
    answer = await client.get("/")
    assert (answer.content_type, "Accept" in answer.headers["Vary"]) == ("application/json", True)
    assert (await client.get("/?nonsense=1", headers=BROWSER)).status == 400
    assert (await client.get("/", headers={"HX-Request": "true"})).content_type == "text/html"


async def test_the_list_begins_with_the_group_that_needs_somebody(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.member("alright", "app", "10.0.0.1")
    lost = rig.member("zapped", "worker-7", "10.0.0.7")
    rig.run(8_000)
    assert "All 2 groups are fine" in plain(await shown(client, "/"))
    lost.kill()
    rig.run(5_000)

    page = await shown(client, "/")
    text = plain(page)
    assert "1 of 2 groups needs you" in text
    assert text.index("zapped") < text.index("alright")
    assert f"worker-7 at 10.0.0.7:{lost.port} is silent" in text
    assert "zapped" not in plain(await shown(client, "/", problem="none"))
    assert "No group matches" in plain(await shown(client, "/", q="nowhere"))
    assert 'rel="next"' in await shown(client, "/", page_size="1")


async def test_a_groups_page_begins_with_the_doctors_sentence_and_says_who_waits_for_whom(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.member("g", "quick", "10.0.0.1")
    rig.member("g", "busy", "10.0.0.2", slow_ms=120_000)
    rig.run(8_000)
    assert "Nothing is wrong" in plain(await shown(client, "/console/group", id="g"))
    rig.member("g", "newcomer", "10.0.0.3")
    rig.run(20_000)

    text = plain(await shown(client, "/console/group", id="g"))
    assert text.index("Join held up") < text.index("Waiting for") < text.index("Members")
    assert "busy at 10.0.0.2" in text[: text.index("Members")]
    assert re.search(r"busy .*? has not joined again", text)
    assert re.search(r"quick .*? waits in join for", text)
    assert "Under way for" in text and "muster groups describe g --verbose" in text


async def test_the_timeline_says_what_moved_since_somebody_looks(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.member("g", "one", "10.0.0.1")
    rig.run(8_000)
    await shown(client, "/console/group", id="g")
    rig.member("g", "two", "10.0.0.2")
    rig.run(8_000)

    text = plain(await shown(client, "/console/group", id="g"))
    assert re.search(r"2 of 4 partitions moved: 2 to two at 10\.0\.0\.2", text)
    assert re.search(r"Member joined — two at 10\.0\.0\.2.*?Join .*? sync .*?Last came one at 10\.0\.0\.1", text)


async def test_whatever_a_group_or_client_is_called_is_text(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.member(EVIL, EVIL, "10.0.0.1")
    rig.run(8_000)

    for page in (await shown(client, "/"), await shown(client, "/console/group", id=EVIL)):
        assert "<script>alert" not in page
        assert EVIL in plain(page)
    (link,) = re.findall(r'href="(/console/group\?[^"]+)"', await shown(client, "/"))
    answer = await client.get(html.unescape(link), headers=BROWSER)
    assert EVIL in plain(await answer.text())


async def test_topics_and_the_node_have_pages(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)

    assert "orders" in plain(await shown(client, "/console/topics", q="ord"))
    assert "No topic matches" in plain(await shown(client, "/console/topics", q="nowhere"))
    text = plain(await shown(client, "/console/topic", name="orders"))
    assert "4 partitions" in text and "g 1 member" in text
    assert "serves all its groups" in plain(await shown(client, "/console/node"))


@pytest.mark.parametrize(
    ("path", "query"),
    [("/console/group", {"id": "nobody"}), ("/console/group", {}), ("/console/topic", {"name": "nothing"})],
)
async def test_what_is_not_there_is_said_on_a_page(
    client: TestClient[Any, Any], path: str, query: dict[str, str]
) -> None:
    assert "Not there" in plain(await shown(client, path, 404, **query))


async def test_a_groups_page_says_how_far_it_is_behind_in_time(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.ask(OPERATOR, commit({0: 0, 1: 0, 2: 0, 3: 0}))
    text = plain(await shown(client, "/console/group", id="g"))
    assert re.search(r"Lag 0 Behind 0 s Members 0 .*orders 4 0 0 s ", text)
    rig.wait(5_000)
    rig.produce(0)
    text = plain(await shown(client, "/console/group", id="g"))
    assert "Behind 5.0 s Members" in text, "0 was the end when the page was last shown"
    rig.wait(25_000)
    text = plain(await shown(client, "/console/group", id="g"))
    assert re.search(r"Lag 1 Behind 30 s Members 0 .*orders 4 1 30 s partition 0, 1 records", text)


async def test_a_lag_in_time_that_is_unknown_is_no_zero(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.produce(0)
    rig.ask(OPERATOR, commit({0: 0}))
    text = plain(await shown(client, "/console/group", id="g"))
    assert re.search(r"Lag 1 Members 0 .*orders 4 1 \u2013 partition 0, 1 records", text)


# --- offsets


def field(page: str, name: str) -> str:
    (value,) = re.findall(rf'name="{name}" value="([^"]*)"', page)
    return html.unescape(value)


async def test_a_reset_is_planned_confirmed_and_undone(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for partition in [0] * 9 + [1] * 4:
        rig.produce(partition)
    rig.ask(OPERATOR, commit({0: 9, 1: 4}))
    before = offsets(rig)
    assert "Plan" in plain(await shown(client, "/console/group", id="g"))

    plan = await post(client, "/console/plan?id=g", {"target": "offset", "value": "0", "topic": ""})
    assert offsets(rig) == before
    assert "2 partitions of g will change" in re.sub(r"<[^>]+>", "", plan)
    done = await post(client, "/console/apply?id=g", {"plan": field(plan, "plan")})
    assert offsets(rig) == {0: 0, 1: 0}
    stale = await post(client, "/console/apply?id=g", {"plan": field(plan, "plan")}, 409)
    assert "the plan is stale" in stale
    assert "Changed by hand" in plain(await shown(client, "/console/group", id="g"))
    await post(client, "/console/undo", {"id": field(done, "id")})
    assert offsets(rig) == before


async def test_a_group_with_members_is_planned_and_not_changed(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.ask(OPERATOR, commit({0: 9}))
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)

    plan = await post(client, "/console/plan?id=g", {"target": "earliest"})
    assert "The group has 1 member: stop them first" in plan
    assert "has members: app at 10.0.0.1" in await post(
        client, "/console/apply?id=g", {"plan": field(plan, "plan")}, 409
    )


async def test_a_group_is_held_and_released(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)
    assert "Held for" not in plain(await shown(client, "/console/group", id="g"))

    assert "Held for 60 s" in await post(client, "/console/hold?id=g", {"duration": "1m", "until_members": "2"})
    rig.member("g", "late", "10.0.0.2")
    rig.run(1_000)
    page = plain(await shown(client, "/console/group", id="g"))
    assert "or until 2 members have come; 1 has. Release" in page
    assert "Released" in await post(client, "/console/hold?id=g", {"duration": "0s"})
    assert "Held for" not in plain(await shown(client, "/console/group", id="g"))


async def test_a_change_is_foreseen(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for number in range(2):
        rig.member("g", f"app-{number}", f"10.0.0.{number + 1}")
    rig.run(8_000)
    page = await shown(client, "/console/group", id="g")
    assert 'hx-get="/console/what-if"' in page

    foreseen = plain(await shown(client, "/console/what-if", id="g", members="1", topic="orders", partitions="6"))

    assert "4 of 6 partitions would move , by range" in foreseen
    assert re.search(r"app-1 at 10.0.0.2:\d+ 2 2 .*new-1 0 2", foreseen)
    assert re.search(r"orders-4 nobody new-1", foreseen)
    assert (await shown(client, "/console/group", id="g")).count("app-0 at") == page.count("app-0 at"), "nothing moved"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"members": "many"}, "a whole number is wanted"),
        ({"partitions": "9"}, "say which topic grows"),
        ({"topic": "orders", "partitions": "0"}, "is not TOPIC=PARTITIONS"),
        ({"members": "-5"}, "5 members cannot leave a group of 1"),
        ({"assignor": "mine"}, "mine"),
    ],
)
async def test_a_change_that_cannot_be_foreseen_is_refused(
    client: TestClient[Any, Any], rig: DiagnosisRig, query: dict[str, str], sentence: str
) -> None:
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)
    answer = await client.get("/console/what-if", params={"id": "g", **query}, headers=BROWSER)
    assert answer.status == 400
    assert sentence in html.unescape(plain(await answer.text()))


async def test_groups_without_rebalances_to_hold_are_offered_no_hold(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.ask(OPERATOR, StartMember("b", "c", ("orders",), consume_position="first", session_timeout_ms=10_000))
    rig.ask(OPERATOR, commit({0: 9}))
    assert "/console/hold" in await shown(client, "/console/group", id="g")
    assert "/console/hold" not in await shown(client, "/console/group", id="b")


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
async def test_behind_a_proxy_it_is_read_only(client: TestClient[Any, Any], rig: DiagnosisRig, header: str) -> None:
    rig.ask(OPERATOR, commit({0: 9}))
    answer = await client.get("/console/group?id=g", headers={**BROWSER, header: "198.51.100.7"})
    assert "The console is read-only here" in plain(await answer.text())
    refused = await post(client, "/console/undo", {"id": "g:1"}, 403, **{header: "198.51.100.7"})
    assert "read-only" in refused


@pytest.mark.parametrize(
    ("path", "form", "status", "sentence"),
    [
        ("/console/plan?id=g", {"target": "nowhere"}, 400, "say where to"),
        ("/console/plan?id=g", {"target": "shift", "value": "few"}, 400, "a whole number is wanted"),
        ("/console/plan?id=g", {"targets": "x"}, 400, "the form is not as it should be"),
        ("/console/plan?id=nobody", {"target": "latest"}, 404, "there is no consumer group"),
        ("/console/apply?id=g", {"plan": "x"}, 400, "the body is not as it should be"),
        ("/console/undo", {"id": "g"}, 400, "is no id"),
        ("/console/hold?id=g", {"duration": "long"}, 400, "a duration is a number with s, m, h or d"),
        ("/console/hold?id=g", {"duration": "1m", "until_members": "-1"}, 400, "the body is not as it should be"),
        ("/console/hold?id=nobody", {"duration": "1m"}, 404, "there is no such group"),
    ],
)
async def test_a_form_that_is_wrong_is_refused_in_words(
    client: TestClient[Any, Any], rig: DiagnosisRig, path: str, form: Any, status: int, sentence: str
) -> None:
    rig.ask(OPERATOR, commit({0: 9}))
    assert sentence in html.unescape(await post(client, path, form, status))


async def test_a_form_of_another_origin_is_refused(client: TestClient[Any, Any]) -> None:
    answer = await client.post("/console/undo", json={"id": "g:1"}, headers={"Origin": "http://elsewhere.example"})
    assert answer.status == 403
    assert (await client.post("/console/undo", data={"id": "g:1"})).status == 403


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        ("earliest", "", PlanRequest(to_earliest=True)),
        ("latest", "", PlanRequest(to_latest=True)),
        ("shift", "-100", PlanRequest(shift_by=-100)),
        ("offset", " 7 ", PlanRequest(to_offset=7)),
        ("ago", "2h", PlanRequest(to_time_ms=10_000_000 - 7_200_000)),
        ("time", "1970-01-01 00:00:05", PlanRequest(to_time_ms=5_000)),
        ("time", "1970-01-01T02:00:05+02:00", PlanRequest(to_time_ms=5_000)),
        ("group", "other", PlanRequest(of_group="other")),
    ],
)
def test_a_form_becomes_a_request(target: str, value: str, expected: PlanRequest) -> None:
    assert plan_request(PlanForm(target, value), 10_000_000) == expected
    assert plan_request(PlanForm(target, value, "t"), 10_000_000).topics == {"t": None}


@pytest.mark.parametrize(
    ("target", "value"),
    [("ago", "2"), ("ago", "2 weeks"), ("time", "yesterday"), ("offset", "1.5"), ("group", ""), ("shift", "9" * 30)],
)
def test_a_value_that_is_none_is_refused(target: str, value: str) -> None:
    with pytest.raises(Problem):
        plan_request(PlanForm(target, value), 0)


# --- what is drawn


def member(name: str, *partitions: int) -> DescribedMember:
    assignment = encode_assignment(Assignment((TopicPartitions("t", partitions),)))
    return DescribedMember(name, None, name, "/h", member_assignment=assignment)


def group(generation: int, *members: DescribedMember, state: str = "Stable", **more: Any) -> DescribedGroup:
    return DescribedGroup(
        "g", group_state=state, protocol_type="consumer", generation_id=generation, members=members, **more
    )


def test_partitions_that_changed_hands_are_counted() -> None:
    movements = AssignmentChanges()
    assert movements.see(group(1, member("a", 0, 1, 2)), ()) == {}
    assert movements.see(group(1, member("a"), state="PreparingRebalance"), ()) == {}
    ended = ListedNote(4, 2, "rebalance completed", "", 1_000, kind="completed")
    found = movements.see(group(2, member("a", 0, 1), member("b", 2), state_since_ms=1_040), (ended,))
    assert found == {2: Moved(1, 3, (("b at h", 1),), 40)}
    assert movements.see(group(4, member("b", 2, 0)), ())[4] == Moved(2, 3, (), None), "one was not seen"


def test_a_rebalance_under_way_says_how_long_yet_and_repetitions_are_one() -> None:
    late = SlowestMember("b", "b", "/h", 900)
    notes = (
        ListedNote(1, 3, "member joined", "b", 1_000, "new member b at h", origin=Origin("b", "/h", 5), times=4),
        ListedNote(2, 3, "member left", "a", 1_500, "a left: shutting down"),
        ListedNote(3, 3, "member did not rejoin in time", "c", 2_000, "c did not rejoin", kind="dropped"),
        ListedNote(
            4,
            4,
            "rebalance completed",
            "",
            2_000,
            kind="completed",
            took_ms=1_000,
            slowest=late,
        ),
        ListedNote(5, 4, "session expired", "d", 9_000, "d was silent"),
    )
    running = group(4, state="PreparingRebalance", phase="join", phase_ms=500, phase_left_ms=700)
    newest, before = rebalances(notes, running, {4: Moved(1, 3, (), 60)}, 9_500)

    assert (newest.is_open, newest.join_ms, newest.left_ms, newest.cause) == (True, 500, 700, "session expired")
    assert (before.join_ms, before.sync_ms, before.generation_id, before.times) == (1_000, 60, 4, 4)
    assert (before.late, before.late_ms, before.initiator) == ("b at h", 900, "b at h:5")
    assert (before.reasons, before.dropped) == (["a left: shutting down"], ["c did not rejoin"])
    settled = rebalances(notes[:4], group(4, state_since_ms=2_030), {}, 9_500)
    assert (settled[0].sync_ms, settled[0].moved) == (30, None)


def test_what_moved_before_anybody_looked_is_known_from_the_journal() -> None:
    notes = (
        ListedNote(1, 3, "member joined", "b", 1_000),
        ListedNote(2, 4, "rebalance completed", "a", 2_000, kind="completed", took_ms=1_000),
        ListedNote(3, 4, "partitions assigned", "a", 2_010, kind="assigned", moved_partitions=2, kept_partitions=3),
    )
    (unseen,) = rebalances(notes, group(4, state_since_ms=2_030), {}, 9_500)
    assert (unseen.moved, unseen.sync_ms) == (Moved(2, 5), 30)
    seen = Moved(3, 6, (("b at h", 3),), 20)
    assert rebalances(notes, group(4), {4: seen}, 9_500)[0].moved == seen, "which says more"


def test_a_rebalance_of_a_server_driven_group_has_a_target_and_revocations() -> None:
    notes = (
        ListedNote(1, 2, "member joined", "b", 1_000, kind="epoch", members=2, origin=Origin("b", "/h")),
        ListedNote(
            2, 2, "target assignment computed", "b", 1_400, kind="target", moved_partitions=2, kept_partitions=3
        ),
        ListedNote(3, 3, "member left", "c", 9_000, kind="epoch", members=1),
    )
    (done,) = rebalances(notes[:2], group(2), {}, 9_500)
    assert (done.cause, done.initiator, done.join_ms, done.sync_ms) == ("member joined", "b at h", 400, None)
    assert (done.is_driven, done.is_open, done.moved) == (True, False, Moved(2, 5))
    revoking = group(2, state="Reconciling", phase="revoke", phase_ms=300, phase_left_ms=700)
    (busy,) = rebalances(notes[:2], revoking, {}, 1_700)
    assert (busy.is_open, busy.sync_ms, busy.left_ms, busy.phases[1]) == (True, 300, 700, "revocations for")
    newest, _ = rebalances(notes, group(3, state="Assigning"), {}, 9_500)
    assert (newest.is_driven, newest.is_open, newest.join_ms) == (True, True, 500)


def test_who_holds_the_group_up_stands_first_and_topics_stand_by_lag() -> None:
    busy = DescribedMember("a", None, "a", "/h", waiting="join", waiting_ms=3_000)
    stopped = DescribedMember("s", None, "s", "/h", is_connected=True, heard_ago_ms=23_000, session_timeout_ms=45_000)
    shown = group(1, member("z", 0), busy, member("m", 1), stopped, phase="join", waiting_for=("m",))
    lines = [PartitionLag("t", 0, 5, 9, shown.members[0]), PartitionLag("t", 1, 5, None), PartitionLag("u", 0, 0, 90)]

    rows = member_rows(shown, lines)
    assert [(row.name, row.tone, row.waits, row.lag) for row in rows] == [
        ("m", BAD, "has not joined again", 0),
        ("s", BAD, "", 0),
        ("a", BUSY, "waits in join for 3.0 s", 0),
        ("z", GOOD, "", 4),
    ]
    found = [(row.topic, row.partitions, row.lag, row.is_known) for row in topic_rows(lines)]
    assert found == [("u", 1, 90, True), ("t", 2, 4, False)]


def test_samples_are_a_second_apart_and_unknown_is_not_zero() -> None:
    history = History()
    line = PartitionLag("t", 0, 5, 9)
    for wall_ms, lines in ((0, [line]), (500, [line]), (1_000, []), (2_000, [PartitionLag("t", 0, None, None)])):
        history.see("g", wall_ms, lines)
    assert history.of("g") == [(0, 4, 5), (1_000, None, None), (2_000, None, None)]
    assert history.of("nobody") == []


async def test_the_plots_numbers_are_sampled_when_asked(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.ask(OPERATOR, commit({0: 9}))
    first = await (await client.get("/console/history?id=g")).json()
    rig.run(2_000)
    second = await (await client.get("/console/history?id=g")).json()
    assert (len(first["samples"]), len(second["samples"])) == (1, 2)
    assert second["samples"][0] == first["samples"][0]
    assert (await client.get("/console/history?id=nobody")).status == 404


@pytest.mark.parametrize(
    ("lag_ms", "text"), [(None, "\u2013"), (0, "0 s"), (5_000, "5.0 s"), (12_400, "12 s"), (7_200_000, "2 h")]
)
def test_a_lag_in_time_is_a_duration(lag_ms: int | None, text: str) -> None:
    assert rendering.behind(lag_ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0, "0"),
        (9_999, "9,999"),
        (12_340, "12.3 k"),
        (999_999, "1000 k"),
        (4_500_000, "4.5 M"),
        (2**40, "1100 G"),
    ],
)
def test_large_numbers_are_short(value: int | None, text: str) -> None:
    assert rendering.short(value) == text
    assert all(rendering.kind_text(kind)[0].isupper() for kind in Kind)

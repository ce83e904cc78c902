"""Offsets planned, applied and undone over HTTP, at a node."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from diagnosis.offset_plan import possible_changes
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import DeleteGroups, LeaveGroup, ListAudit, OffsetChange, ReportedFact
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
)
from protocol.messages.reports import DrainMembers, ReportMember
from protocol.messages.topics import DeletableTopic, DeleteTopics
from tests.node.operated import DiagnosisRig
from tests.node.test_apply_offsets import OPERATOR, offsets
from tests.node.test_audit import commit


@pytest.fixture
def rig() -> DiagnosisRig:
    rig = DiagnosisRig()
    rig.connect(OPERATOR)
    rig.ask(OPERATOR, commit({0: 9, 1: 4}))
    return rig


@pytest.fixture
async def client(rig: DiagnosisRig) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(rig.ask_doctor))) as client:
        yield client


async def post(client: TestClient[Any, Any], path: str, body: Any = None, status: int = 200) -> Any:
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await client.post(path, data=data, headers={"Content-Type": "application/json"})
    assert answer.status == status, await answer.text()
    return await answer.json()


async def test_a_plan_is_applied_and_undone(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for partition in [0] * 9 + [1] * 4:
        rig.produce(partition)
    before = offsets(rig)
    plan = await post(client, "/v1/groups/g/offsets/plan", {"to_earliest": True, "topics": {"orders": None}})
    assert offsets(rig) == before
    assert [(one["partition"], one["previous_offset"], one["offset"]) for one in plan["plan"]] == [
        (0, 9, 0),
        (1, 4, 0),
        (2, -1, 0),
        (3, -1, 0),
    ]

    done = await post(client, "/v1/groups/g/offsets/apply", plan)
    assert (offsets(rig), done["changed"]) == ({0: 0, 1: 0, 2: 0, 3: 0}, 4)
    stale = await post(client, "/v1/groups/g/offsets/apply", plan, 409)
    assert "the plan is stale, nothing was changed: orders-0 is at 0 by now" in stale["message"]

    await post(client, f"/v1/undo/{done['id']}")
    assert offsets(rig) == before
    (audit,) = rig.ask(OPERATOR, ListAudit())
    acts = [(one.note.act, one.note.origin.client_host) for one in audit.notes]  # type: ignore[attr-defined]
    assert acts == [("reset", "/127.0.0.1"), ("undo", "/127.0.0.1")]


async def test_an_id_that_a_template_made_is_reset_and_undone(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    group = "${spring.application.name}"
    rig.ask(OPERATOR, commit({0: 0}, group))
    path = f"/v1/groups/{quote(group)}/offsets"
    plan = await post(client, f"{path}/plan", {"delete": True})
    done = await post(client, f"{path}/apply", plan)
    assert offsets(rig, group) == {}

    await post(client, f"/v1/undo/{quote(done['id'])}")

    assert offsets(rig, group) == {0: 0}


async def test_an_undo_leaves_out_what_no_longer_exists(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.make_topic("gone", 2)
    for topic, committed in (("orders", (0, 0, 0, 7)), ("gone", (0, 0))):
        parts = tuple(OffsetCommitPartition(partition, offset) for partition, offset in enumerate(committed))
        rig.ask(OPERATOR, OffsetCommit("h", (OffsetCommitTopic(topic, parts),)))
    rig.ask(OPERATOR, DeleteGroups(("h",)))
    rig.ask(OPERATOR, DeleteTopics((DeletableTopic("gone"),)))
    rig.wait(1_000)
    rig.heard(OPERATOR)
    (audit,) = rig.ask(OPERATOR, ListAudit())
    (number,) = [one.note.number for one in audit.notes if one.note.act == "delete group"]  # type: ignore[attr-defined]

    done = await post(client, f"/v1/undo/h:{number}")

    assert (done["changed"], done["left_out"]) == (3, 3), "orders-3 ends below 7: the topic was created again"
    kept = rig.node.core.find("h")[0].offsets.topics("h")
    assert {topic: sorted(partitions) for topic, partitions in kept.items()} == {"orders": [0, 1, 2]}


async def test_a_plan_that_could_not_be_applied_is_refused_and_a_part_of_it_is_not(
    client: TestClient[Any, Any], rig: DiagnosisRig
) -> None:
    rig.make_topic("wide", 2_500)
    path, target = "/v1/groups/g/offsets", {"to_earliest": True}
    refused = await post(client, f"{path}/plan", {**target, "topics": {"wide": None}}, 400)
    assert "2500 partitions would change, and 2000 at most can at once: plan some of its" in refused["message"]

    assert len((await post(client, f"{path}/plan", {**target, "topics": {"wide": [*range(2_000)]}}))["plan"]) == 2_000
    plan = await post(client, f"{path}/plan", {**target, "topics": {"wide": [*range(500)]}})
    assert (await post(client, f"{path}/apply", plan))["changed"] == 500
    plan = await post(client, f"{path}/plan", {**target, "topics": {"wide": None}})
    assert len(plan["plan"]) == 2_500, "what stays as it is counts for nothing"


def test_a_change_is_possible_where_the_end_is_not_known() -> None:
    wanted = tuple(OffsetChange("t", partition, -1, 7) for partition in range(4))
    possible = possible_changes(wanted, {"t": 3}, {("t", 0): 6, ("t", 1): 7})
    assert [one.partition_index for one in possible] == [1, 2]
    deletion = OffsetChange("gone", 0, 7)
    assert possible_changes((deletion,), {}, {}) == (deletion,)


async def test_a_live_group_is_refused_by_its_members(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.member("g", "app", "10.0.0.1")
    rig.run(2_000)
    plan = await post(client, "/v1/groups/g/offsets/plan", {"delete": True})

    refused = await post(client, "/v1/groups/g/offsets/apply", plan, 409)
    assert "group 'g' has members: app at 10.0.0.1" in refused["message"]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/v1/groups/g/offsets/plan", {}, 400, "say exactly one of to_earliest"),
        ("/v1/groups/g/offsets/plan", {"to_earlyest": True}, 400, "to_earlyest"),
        ("/v1/groups/g/offsets/plan", {"to_latest": True, "topics": {"x": None}}, 404, "there is no topic 'x'"),
        ("/v1/groups/g/offsets/plan", {"to_latest": True, "topics": {"orders": [9]}}, 404, "partition orders-9"),
        ("/v1/groups/g/offsets/plan", {"of_group": "typo"}, 404, "there is no consumer group 'typo'"),
        ("/v1/groups/g/offsets/apply", {"plan": "all"}, 400, "the body is not as it should be"),
        ("/v1/groups/g/offsets/apply", {"plan": []}, 400, "1 to 2000 at a time"),
        ("/v1/undo/g", None, 400, "'g' is no id"),
        ("/v1/undo/g:99", None, 404, "has no act 99"),
    ],
)
async def test_bad_requests_say_what_is_wrong(
    client: TestClient[Any, Any], path: str, body: Any, status: int, sentence: str
) -> None:
    assert sentence in (await post(client, path, body, status))["message"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [({"to_offset": 0}, 0), ({"shift_by": -3}, 0), ({"of_group": "other"}, 0), ({"to_current": True}, 0)],
)
async def test_each_target_is_understood(
    client: TestClient[Any, Any], rig: DiagnosisRig, target: Any, expected: int
) -> None:
    rig.ask(OPERATOR, commit({0: 2}, "other"))
    plan = await post(client, "/v1/groups/g/offsets/plan", {**target, "topics": {"orders": [0]}})
    assert [one["offset"] for one in plan["plan"]] == [expected], "the log is empty: all become its start"


async def test_members_are_drained_that_report_themselves(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for number in range(2):
        rig.member("live", f"app-{number}", "10.0.0.1")
    rig.run(8_000)
    query, service = (one.member_id for one in rig.members)
    rig.ask(OPERATOR, ReportMember("live", query, (ReportedFact("query", "sums"),)))

    done = await post(client, "/v1/groups/live/drain", {"client_ids": ["app-0"], "member_ids": [service]})

    answers = [{"member_id": query, "error": None}, {"member_id": service, "error": "UNSUPPORTED_VERSION"}]
    assert done == {"group_id": "live", "members": answers}
    (reply,) = rig.ask(OPERATOR, ReportMember("live", query))
    assert reply.is_draining  # type: ignore[attr-defined]
    rig.ask(OPERATOR, ReportMember("live", query, (ReportedFact("query", "sums"),)))
    first, second = (await (await client.get("/v1/groups/live")).json())["members"]
    assert (first["reported"], first["is_draining"]) == ({"query": "sums"}, True)
    assert (second["reported"], second["is_draining"], second["reported_ago_ms"]) == ({}, False, None)
    assert "query sums" in await (await client.get("/console/group?id=live")).text()
    assert "no such member" in (await post(client, "/v1/groups/live/drain", {"member_ids": ["?"]}, 404))["message"]
    await post(client, "/v1/groups/live/drain", {"instance_ids": ["?"]}, 400)


@pytest.mark.parametrize(
    ("denial", "status"),
    [
        (ErrorReply(ErrorCode.GROUP_AUTHORIZATION_FAILED), 403),
        (OffsetDeleteReply(ErrorCode.GROUP_AUTHORIZATION_FAILED), 403),
        (OffsetDeleteReply(ErrorCode.COORDINATOR_NOT_AVAILABLE), 503),
    ],
)
@pytest.mark.parametrize("act", ["evict", "drain"])
async def test_who_may_delete_nothing_of_a_group_evicts_and_drains_none_of_its_members(
    rig: DiagnosisRig, denial: Message, status: int, act: str
) -> None:
    rig.member("live", "app", "10.0.0.1")
    rig.run(8_000)

    async def ask(message: Message) -> Message:
        if isinstance(message, OffsetDelete):
            assert message == OffsetDelete("live", ())
            return denial
        assert not isinstance(message, LeaveGroup | DrainMembers)
        return await rig.ask_doctor(message)

    async with TestClient(TestServer(make_app(ask))) as client:
        refused = await post(client, f"/v1/groups/live/{act}", {"client_ids": ["app"]}, status)
    assert refused["error_code"] == (40301 if status == 403 else status)


async def test_an_eviction_deletes_no_offsets_and_notes_none(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    before = offsets(rig)
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)
    await post(client, "/v1/groups/g/evict", {"client_ids": ["app"]})
    assert offsets(rig) == before
    (audit,) = rig.ask(OPERATOR, ListAudit())
    assert [one.note.act for one in audit.notes] == ["evict"]  # type: ignore[attr-defined]


async def test_members_are_evicted_by_what_names_them(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for number in range(3):
        rig.member("live", f"app-{number}", "10.0.0.1", instance_id="box" if number == 2 else None)
    rig.run(8_000)
    ids = [one.member_id for one in rig.members]

    done = await post(client, "/v1/groups/live/evict", {"client_ids": ["app-1"], "instance_ids": ["box"]})

    assert done == {"group_id": "live", "members": [{"member_id": one, "error": None} for one in ids[1:]]}
    (reply,) = rig.ask(OPERATOR, ListAudit())
    (note,) = [one.note for one in reply.notes if one.note.act == "evict"]  # type: ignore[attr-defined]
    assert "evicted, over HTTP by 127.0.0.1" in note.detail
    assert "no such member" in (await post(client, "/v1/groups/live/evict", {"member_ids": ["?"]}, 404))["message"]
    await post(client, "/v1/groups/nobody/evict", {"member_ids": ["?"]}, 404)
    await post(client, "/v1/groups/live/evict", {"members": ["?"]}, 400)


async def test_a_group_is_held_and_its_page_says_so(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    rig.member("live", "app-1", "10.0.0.1")
    rig.run(8_000)
    held = {"for_ms": 60_000, "until_members": 2}
    assert await post(client, "/v1/groups/live/hold", held) == {"group_id": "live", "hold_left_ms": 60_000}
    rig.member("live", "app-2", "10.0.0.2")
    rig.run(1_000)

    page = await (await client.get("/v1/groups/live")).json()

    assert (page["phase"], page["hold_left_ms"], page["hold_until_members"], page["hold_joined"]) == (
        "hold",
        59_000,
        2,
        1,
    )
    assert page["hold_sentence"] == "59 s more, or until 2 members have come; 1 has"
    (reply,) = rig.ask(OPERATOR, ListAudit())
    (note,) = [one.note for one in reply.notes if one.note.act == "hold"]  # type: ignore[attr-defined]
    assert note.detail == "held for 60 s or until 2 members came, by http at 127.0.0.1"
    assert await post(client, "/v1/groups/live/hold", {"for_ms": 0}) == {"group_id": "live", "hold_left_ms": 0}
    rig.run(4_000)
    assert (await (await client.get("/v1/groups/live")).json())["hold_sentence"] is None


@pytest.mark.parametrize("body", [{}, {"for_ms": -1}, {"for_ms": 300_001}, {"for_ms": 1, "until_members": -1}])
async def test_a_hold_that_makes_no_sense_is_refused(
    client: TestClient[Any, Any], rig: DiagnosisRig, body: Any
) -> None:
    await post(client, "/v1/groups/g/hold", body, 400)
    await post(client, "/v1/groups/nobody/hold", {"for_ms": 1}, 404)


async def test_what_would_follow_is_shown(client: TestClient[Any, Any], rig: DiagnosisRig) -> None:
    for number in range(2):
        rig.member("live", f"app-{number}", "10.0.0.1")
    rig.run(8_000)
    path = "/v1/groups/live/what-if"

    page = await (await client.get(path, params={"members": "2", "partitions": "orders=8"})).json()

    assert [len(one["next_partitions"]) for one in page["members"]] == [2, 2, 2, 2]
    assert [len(one["partitions"]) for one in page["members"]] == [2, 2, 0, 0]
    assert {one["member_id"] for one in page["moved"] if one["partition"] >= 4} == {None}
    for query in ({"members": "-2"}, {"partitions": "orders"}, {"assignor": "none"}, {"members": "1001"}):
        assert (await client.get(path, params=query)).status == 400
    assert (await client.get("/v1/groups/nobody/what-if")).status == 404


@pytest.mark.parametrize(
    ("page", "body"),
    [
        ("apply", {"plan": [{"topic": "orders", "partition": 0, "previous_offset": 9, "offset": 2**63}]}),
        ("apply", {"plan": [{"topic": "orders", "partition": 2**31, "previous_offset": -1, "offset": -1}]}),
        ("apply", {"plan": [], "act": "r" * 5_000}),
        ("plan", {"to_time_ms": 2**63}),
        ("plan", {"offsets": [{"topic": "orders", "partition": 2**31, "offset": 1}]}),
    ],
)
async def test_numbers_and_names_out_of_range_are_refused(
    client: TestClient[Any, Any], rig: DiagnosisRig, page: str, body: Any
) -> None:
    await post(client, f"/v1/groups/g/offsets/{page}", body, 400)
    assert offsets(rig) == {0: 9, 1: 4}

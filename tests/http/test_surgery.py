"""Offsets planned, applied and undone over HTTP, at a node."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from protocol.messages.groups import ListAudit
from tests.node.operated import Clinic
from tests.node.test_apply_offsets import OPERATOR, offsets
from tests.node.test_audit import commit


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    clinic.connect(OPERATOR)
    clinic.ask(OPERATOR, commit({0: 9, 1: 4}))
    return clinic


@pytest.fixture
async def client(clinic: Clinic) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(clinic.ask_doctor))) as client:
        yield client


async def post(client: TestClient[Any, Any], path: str, body: Any = None, status: int = 200) -> Any:
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await client.post(path, data=data, headers={"Content-Type": "application/json"})
    assert answer.status == status, await answer.text()
    return await answer.json()


async def test_a_plan_is_applied_and_undone(client: TestClient[Any, Any], clinic: Clinic) -> None:
    before = offsets(clinic)
    plan = await post(client, "/v1/groups/g/offsets/plan", {"to_earliest": True, "topics": {"orders": None}})
    assert offsets(clinic) == before
    assert [(one["partition"], one["previous_offset"], one["offset"]) for one in plan["plan"]] == [
        (0, 9, 0),
        (1, 4, 0),
        (2, -1, 0),
        (3, -1, 0),
    ]

    done = await post(client, "/v1/groups/g/offsets/apply", plan)
    assert (offsets(clinic), done["changed"]) == ({0: 0, 1: 0, 2: 0, 3: 0}, 4)
    stale = await post(client, "/v1/groups/g/offsets/apply", plan, 409)
    assert "the plan is stale, nothing was changed: orders-0 is at 0 by now" in stale["message"]

    await post(client, f"/v1/undo/{done['id']}")
    assert offsets(clinic) == before
    (audit,) = clinic.ask(OPERATOR, ListAudit())
    acts = [(one.note.act, one.note.origin.client_host) for one in audit.notes]  # type: ignore[attr-defined]
    assert acts == [("reset", "/127.0.0.1"), ("undo", "/127.0.0.1")]


async def test_a_live_group_is_refused_by_its_members(client: TestClient[Any, Any], clinic: Clinic) -> None:
    clinic.member("g", "app", "10.0.0.1")
    clinic.run(2_000)
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
    client: TestClient[Any, Any], clinic: Clinic, target: Any, expected: int
) -> None:
    clinic.ask(OPERATOR, commit({0: 2}, "other"))
    plan = await post(client, "/v1/groups/g/offsets/plan", {**target, "topics": {"orders": [0]}})
    assert [one["offset"] for one in plan["plan"]] == [expected], "the log is empty: all become its start"


async def test_members_are_evicted_by_what_names_them(client: TestClient[Any, Any], clinic: Clinic) -> None:
    for number in range(3):
        clinic.member("live", f"app-{number}", "10.0.0.1", instance_id="box" if number == 2 else None)
    clinic.run(8_000)
    ids = [one.member_id for one in clinic.members]

    done = await post(client, "/v1/groups/live/evict", {"client_ids": ["app-1"], "instance_ids": ["box"]})

    assert done == {"group_id": "live", "members": [{"member_id": one, "error": None} for one in ids[1:]]}
    (reply,) = clinic.ask(OPERATOR, ListAudit())
    (note,) = [one.note for one in reply.notes if one.note.act == "evict"]  # type: ignore[attr-defined]
    assert "evicted, over HTTP by 127.0.0.1" in note.detail
    assert "no such member" in (await post(client, "/v1/groups/live/evict", {"member_ids": ["?"]}, 404))["message"]
    await post(client, "/v1/groups/nobody/evict", {"member_ids": ["?"]}, 404)
    await post(client, "/v1/groups/live/evict", {"members": ["?"]}, 400)

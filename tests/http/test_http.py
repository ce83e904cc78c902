import asyncio
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import ClientSession
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.http.app import make_app, serve
from coordinator.http.queries import problem_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
)
from protocol.messages.node import DescribeNode, ErrorReply, FailedShard, LoadProgress
from protocol.messages.offsets import DescribeExpiry, DescribeExpiryReply
from tests.enumerations import share_of
from tests.http.conftest import Browser
from tests.http.documented import described
from tests.http.scripted import NODE, ScriptedCoordinator

GROUPS = "/v3/clusters/c-1/consumer-groups"


async def never(message: Message) -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def test_the_process_lives_though_nobody_answers(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.answers[DescribeNode] = never

    assert await browser.get("/healthz") == {"healthy": True}
    assert coordinator.asked == []


async def test_it_is_ready_when_all_shards_are_loaded(browser: Browser) -> None:
    assert await browser.get("/readyz") == {"ready": True, "shards_loaded": 50, "shards_total": 50}


async def test_it_tells_how_far_it_is_while_it_loads(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.node = msgspec.structs.replace(NODE, shards_loaded=13)

    assert await browser.get("/readyz", 503) == {"ready": False, "shards_loaded": 13, "shards_total": 50}


async def test_a_full_disk_is_named_and_no_reason_not_to_be_ready(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.node = msgspec.structs.replace(NODE, gauges={"disk_full": 1})

    answer = await browser.get("/readyz")

    assert answer == {"ready": True, "shards_loaded": 50, "shards_total": 50, "disk_full": True}


async def test_it_is_not_ready_until_it_has_read_the_logs_of_its_share(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.node = msgspec.structs.replace(NODE, shards_loaded=0, shards_total=0, gauges={"shards_to_read": 3})

    assert await browser.get("/readyz", 503) == {
        "ready": False,
        "shards_loaded": 0,
        "shards_total": 0,
        "shards_to_read": 3,
    }


async def test_what_is_unsafe_about_the_log_is_named_and_no_reason_not_to_be_ready(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.node = msgspec.structs.replace(NODE, log_problems=("the cluster has one broker",))

    answer = await browser.get("/readyz")

    assert (answer["ready"], answer["log_problems"]) == (True, ["the cluster has one broker"])


async def test_beside_a_cluster_that_was_never_reached_it_is_not_ready_and_tells_why(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    gauges = {"upstream_reachable": 0, "upstream_brokers": 0, "upstream_age_ms": 7}
    why = "no broker of the cluster was reached yet: broker-1:9092: nobody listens there"
    coordinator.node = msgspec.structs.replace(NODE, gauges=gauges, upstream_problem=why)

    answer = await browser.get("/readyz", 503)

    assert answer["ready"] is False
    assert answer["upstream"] == {"reachable": False, "age_ms": 7, "why": why}


async def test_a_cluster_that_is_away_after_it_was_there_is_no_reason_not_to_be_ready(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    gauges = {"upstream_reachable": 0, "upstream_brokers": 3, "upstream_age_ms": 7}
    coordinator.node = msgspec.structs.replace(NODE, gauges=gauges, upstream_problem="cut")

    answer = await browser.get("/readyz")

    assert answer["ready"] is True
    assert answer["upstream"]["reachable"] is False


async def test_it_tells_records_bytes_and_time_left_and_which_shard_failed_and_why(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    progress = LoadProgress(
        is_loading=True,
        records=1_000,
        bytes_done=30,
        bytes_total=90,
        bytes_per_second=10,
        elapsed_ms=3_000,
        left_ms=6_000,
        from_snapshots=2,
    )
    coordinator.node = msgspec.structs.replace(
        NODE, shards_loaded=13, loading=progress, failed_shards=(FailedShard(7, "its file is damaged"),)
    )

    answer = await browser.get("/readyz", 503)

    assert answer["loading"] == msgspec.structs.asdict(progress)
    assert answer["failed_shards"] == [{"shard": 7, "reason": "its file is damaged"}]


async def test_a_coordinator_that_does_not_answer_in_time_is_a_504(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.answers[DescribeNode] = never

    answer = await browser.get("/readyz", 504)

    sentence = "DescribeNode was not answered within 0.05 seconds"
    assert answer == {
        "type": "about:blank",
        "title": "Gateway Timeout",
        "status": 504,
        "detail": sentence,
        "error_code": 504,
        "message": sentence,
    }


async def test_the_root_lists_the_paths(browser: Browser) -> None:
    paths = (await browser.get("/"))["paths"]

    assert paths == sorted(described()["paths"])
    assert {"/", "/healthz", "/metrics", "/openapi.json", "/v1/groups", "/v3/clusters"} <= set(paths)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v3/clusters/other", 404),
        ("/v3/clusters/other/consumer-groups/orders/lags", 404),
        ("/v3/clusters/c-1/brokers/8", 404),
        (f"{GROUPS}/nobody", 40403),
        (f"{GROUPS}/nobody/lag-summary", 40403),
        (f"{GROUPS}/orders/consumers/m-9", 40403),
        (f"{GROUPS}/orders/consumers/m-9/assignments", 40403),
        (f"{GROUPS}/orders/consumers/m-1/assignments/t/partitions/2", 40403),
        (f"{GROUPS}/orders/lags/t/partitions/9", 40403),
        ("/v1/groups/nobody/notes", 40403),
        ("/v1/groups/nobody/ownership", 40403),
        ("/v4", 404),
    ],
)
async def test_what_is_not_there_is_a_404_that_says_so(browser: Browser, path: str, code: int) -> None:
    answer = await browser.get(path, 404)

    assert answer["error_code"] == code
    assert len(answer["message"]) > 10


@pytest.mark.parametrize(
    "path",
    [
        f"{GROUPS}/orders/lags/t/partitions/x",
        f"{GROUPS}/orders/lags/t/partitions/-1",
        f"{GROUPS}/orders/lags/t/partitions/2147483648",
        f"{GROUPS}/orders/lags/t/partitions/%D9%A3",
        f"{GROUPS}/orders/consumers/m-1/assignments/t/partitions/1.0",
        f"{GROUPS}?page_size=0",
        f"{GROUPS}?page_size=1001",
        "/v1/groups/orders/notes?after=x",
        "/v1/groups/orders/notes?after=-2",
        "/v1/groups/orders/notes?limit=0",
        "/v1/groups/orders/notes?limit=" + "9" * 5_000,
    ],
)
async def test_a_number_that_is_none_is_a_400_that_names_it(browser: Browser, path: str) -> None:
    answer = await browser.get(path, 400)

    assert answer["error_code"] == 40002
    assert "must be a whole number from" in answer["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_pages_are_only_read(browser: Browser, method: str) -> None:
    status, text, headers = await browser.request(method, f"{GROUPS}/orders")

    assert status == 405
    assert f'"message":"{method} is not allowed at {GROUPS}/orders"' in text
    assert headers["Allow"] == "GET,HEAD"


@pytest.mark.parametrize(
    "group_id", ["a/b", "größe 7", "100%", "a%2Fb", "a?b#c&d", "..", "日本", "${spring.application.name}"]
)
async def test_any_group_id_fits_into_a_path(browser: Browser, coordinator: ScriptedCoordinator, group_id: str) -> None:
    coordinator.groups[group_id] = msgspec.structs.replace(coordinator.groups["orders"], group_id=group_id)

    shown = await browser.get(f"{GROUPS}/{quote(group_id, safe='').replace('..', '%2E%2E')}")

    assert shown["consumer_group_id"] == group_id
    assert (await browser.get(shown["consumer"]["related"]))["kind"] == "KafkaConsumerList"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 503),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 503),
        (ErrorCode.NOT_COORDINATOR, 503),
        (ErrorCode.INVALID_GROUP_ID, 400),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 403),
    ],
)
async def test_a_refusal_becomes_the_status_that_fits(
    browser: Browser, coordinator: ScriptedCoordinator, error: ErrorCode, status: int
) -> None:
    coordinator.answers[ListGroups] = ListGroupsReply(error_code=error)
    coordinator.answers[DescribeGroups] = DescribeGroupsReply((DescribedGroup("orders", error),))
    coordinator.answers[ListNotes] = ListNotesReply(error_code=error)
    coordinator.answers[DescribeExpiry] = DescribeExpiryReply(error_code=error)

    for path in (GROUPS, f"{GROUPS}/orders", "/v1/groups/orders/notes", "/v1/groups/orders/expiring"):
        assert str((await browser.get(path, status))["error_code"]).startswith(str(status))


async def test_a_shard_that_is_not_served_points_to_readyz(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.answers[DescribeExpiry] = DescribeExpiryReply(error_code=ErrorCode.NOT_COORDINATOR)

    told = await browser.get("/v1/groups/orders/expiring", 503)

    assert told["message"] == "the group's shard is not served here, or could not be loaded: /readyz says why"


async def test_who_comes_too_early_is_told_to_come_back(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.answers[ListGroups] = ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    _, _, headers = await browser.request("GET", GROUPS)

    assert headers["Retry-After"] == "1"


async def test_a_refusal_as_a_whole_keeps_its_sentence(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.answers[DescribeNode] = ErrorReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for you")

    refused = await browser.get("/v3/clusters", 403)
    assert (refused["error_code"], refused["message"], refused["title"]) == (40301, "not for you", "Forbidden")


def test_every_error_has_a_status() -> None:
    assert {problem_of(error).status for error in ErrorCode if error} <= {400, 403, 404, 500, 503, 504}


async def test_the_journal_says_why_a_group_rebalanced(browser: Browser) -> None:
    shown = await browser.get("/v1/groups/orders/notes")

    assert shown["group_id"] == "orders"
    assert shown["next_after"] == 1
    assert shown["notes"][0] == {
        "number": 0,
        "generation_id": 0,
        "cause": "member joined",
        "initiator": "m-1",
        "wall_ms": 1_700_000_001_000,
        "detail": "m-1 joined",
        "members": 1,
        "group_state": "PreparingRebalance",
        "kind": "rebalance",
        "times": 1,
        "since_ms": -1,
        "origin": None,
        "took_ms": -1,
        "slowest": None,
        "joined": [],
        "previous": None,
        "idle_ms": -1,
        "rebalance_timeout_ms": -1,
        "act": "",
        "changes": [],
        "moved_partitions": -1,
        "kept_partitions": -1,
    }


async def test_the_journal_is_read_on_from_a_number(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    first = await browser.get("/v1/groups/orders/notes?limit=1")
    second = await browser.get(f"/v1/groups/orders/notes?after={first['next_after']}")
    third = await browser.get(f"/v1/groups/orders/notes?after={second['next_after']}")

    assert [note["number"] for note in second["notes"]] == [1]
    assert (third["notes"], third["next_after"]) == ([], 1)


async def test_a_group_without_notes_and_one_that_has_only_notes_left_both_answer(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.notes["gone"] = coordinator.notes["orders"]

    assert (await browser.get("/v1/groups/idle/notes"))["notes"] == []
    assert len((await browser.get("/v1/groups/gone/notes"))["notes"]) == 2


async def test_a_host_header_that_is_none_is_refused(browser: Browser) -> None:
    status, _, _ = await browser.request("GET", f"{GROUPS}/orders", Host="[:::not a host:::]:x")

    assert status == 400


@settings(deadline=None, max_examples=share_of(60))
@given(st.lists(st.text(max_size=12), max_size=7), st.text(max_size=12))
def test_no_path_makes_an_error_of_ours(parts: list[str], query: str) -> None:
    async def visit() -> int:
        bound, close = await serve(make_app(ScriptedCoordinator().ask), "127.0.0.1", 0)
        path = "/".join(quote(part, safe="") for part in ("v3", "clusters", "c-1", "consumer-groups", *parts))
        try:
            async with (
                ClientSession() as session,
                session.get(f"http://{bound[0]}:{bound[1]}/{path}?{quote(query)}") as answer,
            ):
                return answer.status
        finally:
            await close()

    assert asyncio.run(visit()) in (200, 400, 404)


async def test_serving_takes_a_free_port_and_ends_when_told() -> None:
    (host, port), close = await serve(make_app(ScriptedCoordinator().ask), "127.0.0.1", 0)
    async with ClientSession() as session, session.get(f"http://{host}:{port}/healthz") as answer:
        assert answer.status == 200
    await close()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_bytes_that_are_no_http_are_a_400_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    (host, port), close = await serve(make_app(ScriptedCoordinator().ask), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /v3/clusters HTTP/1.1\r\nHost: \x01\xff\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await close()

    assert answer.startswith(b"HTTP/1.0 400 ")
    assert capsys.readouterr() == ("", "")


async def test_a_fault_of_ours_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    async def broken(message: Message) -> Message:
        raise RuntimeError("a mistake")

    (host, port), close = await serve(make_app(broken), "127.0.0.1", 0)
    async with ClientSession() as session, session.get(f"http://{host}:{port}/readyz") as answer:
        status = answer.status
    await close()

    assert status == 500
    assert "RuntimeError: a mistake" in "".join(capsys.readouterr())


async def test_a_taken_port_is_an_error_and_leaves_nothing_open() -> None:
    (host, port), close = await serve(make_app(ScriptedCoordinator().ask), "127.0.0.1", 0)

    with pytest.raises(OSError, match="in use"):
        await serve(make_app(ScriptedCoordinator().ask), host, port)

    await close()


async def test_what_of_a_group_goes_and_when(browser: Browser) -> None:
    shown = await browser.get("/v1/groups/orders/expiring")

    assert {name: shown[name] for name in shown if name != "offsets"} == {
        "group_id": "orders",
        "group_state": "Stable",
        "retention_ms": 604_800_000,
        "next_run_ms": 1_700_000_600_000,
        "group_expires_ms": None,
        "group_kept_because": "the group has members",
        "next_page_token": None,
    }
    assert shown["offsets"][0] == {
        "topic": "a-b",
        "partition": 0,
        "committed_offset": 5,
        "committed_ms": 1_700_000_000_000,
        "expires_ms": 1_700_604_800_000,
        "kept_because": None,
    }
    assert shown["offsets"][2] == {
        "topic": "t",
        "partition": 1,
        "committed_offset": None,
        "committed_ms": None,
        "expires_ms": None,
        "kept_because": "a transaction has an offset pending for the partition",
    }


async def test_what_goes_is_told_in_pages(browser: Browser) -> None:
    path, found, pages = "/v1/groups/orders/expiring?page_size=1", [], 0
    token: str | None = ""
    while token is not None:
        page = await browser.get(path + (f"&page_token={token}" if token else ""))
        found += [(one["topic"], one["partition"]) for one in page["offsets"]]
        token = page["next_page_token"]
        pages += 1

    assert found == [("a-b", 0), ("t", 0), ("t", 1)]
    assert pages == 3


@pytest.mark.parametrize("token", ["t", "-1", "t-", "t-x", "t-99999999999999999999"])
async def test_a_page_token_that_names_no_partition_is_refused(browser: Browser, token: str) -> None:
    refused = await browser.get(f"/v1/groups/orders/expiring?page_token={token}", 400)

    assert refused["error_code"] == 40002
    assert "page_token" in refused["message"]


async def test_of_a_group_that_is_not_there_nothing_goes(browser: Browser) -> None:
    absent = await browser.get("/v1/groups/nobody/expiring", 404)
    assert (absent["error_code"], absent["detail"]) == (40403, "there is no consumer group 'nobody'")


async def test_who_owns_which_partition_is_told_in_pages(browser: Browser) -> None:
    first = await browser.get("/v1/groups/orders/ownership?page_size=2")
    second = await browser.get(f"/v1/groups/orders/ownership?page_size=2&page_token={first['next_page_token']}")

    assert [one["partition"] for one in first["partitions"] + second["partitions"]] == [0, 1, 2]
    assert second["next_page_token"] is None
    assert first["partitions"][1] == {
        "topic": "t",
        "partition": 1,
        "member_id": "m-1",
        "thread": 1,
        "generation_id": 4,
        "epoch": 9,
        "since_ms": 1_700_000_000_000,
    }


async def test_the_problems_of_all_groups_and_of_one_are_a_page(browser: Browser) -> None:
    everywhere = (await browser.get("/v1/problems"))["problems"]
    there = (await browser.get("/v1/problems?group=idle"))["problems"]

    assert [(one["group_id"], one["kind"]) for one in everywhere] == [("orders", "consumption_stopped")]
    assert everywhere[0]["client_host"] == "10.0.0.2"
    assert there == []
    assert (await browser.get("/v1/problems?group=nobody", 404))["error_code"] == 40403
    assert "no parameter 'grup'" in (await browser.get("/v1/problems?grup=x", 400))["message"]

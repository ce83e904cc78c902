"""The OpenAPI document, and the rules that hold for all paths because they come from the same rows."""

import re

import pytest
from openapi_spec_validator import validate

from coordinator.http.app import DOCUMENT, make_app
from coordinator.http.queries import Problem
from coordinator.http.routing import confluent, openapi, schemas
from coordinator.http.routing.route import PAGE_SIZE, HttpRoute, whole_number
from coordinator.io.calls import Calls
from protocol.messages.groups import DescribeGroups
from tests.http.conftest import Browser
from tests.http.documented import described
from tests.http.scripted import ScriptedCoordinator

CLUSTER = "/v3/clusters/c-1"


async def test_the_document_is_valid_and_names_each_operation_once(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    document = await browser.get("/openapi.json")

    validate(document)
    assert document["openapi"].startswith("3.1")
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert all(one["summary"].endswith(".") for one in operations)
    with_logins = make_app(coordinator.ask, authenticator=Calls(lambda _event: None))[DOCUMENT]()
    validate(with_logins)
    assert "401" in with_logins["paths"]["/v1/groups"]["get"]["responses"]
    assert {"post"} == with_logins["paths"]["/console/login"].keys()
    assert "401" not in with_logins["paths"]["/healthz"]["get"]["responses"]


def test_schemas_with_a_title_stand_once_and_structs_by_their_name() -> None:
    routes = [HttpRoute("/a", object, "A.", confluent.BROKERS), HttpRoute("/b", object, "B.", schemas.NOTES)]
    found = openapi.document(routes, "1")["components"]["schemas"]

    assert {"KafkaBroker", "KafkaBrokerList", "Metadata", "Notes", "ListedNote", "Origin", "Problem"} <= found.keys()
    assert found["KafkaBrokerList"]["properties"]["data"]["items"] == {"$ref": "#/components/schemas/KafkaBroker"}
    assert found["KafkaBroker"]["properties"]["rack"] == {"type": ["string", "null"]}
    assert found["Problem"]["properties"]["title"] == {"type": "string"}


def test_every_route_of_the_application_is_in_the_document_and_no_other(coordinator: ScriptedCoordinator) -> None:
    app = make_app(coordinator.ask)
    served = {
        (route.resource.canonical, route.method)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert served == {(path, method.upper()) for path, methods in described()["paths"].items() for method in methods}


def test_a_name_in_any_path_may_have_braces(coordinator: ScriptedCoordinator) -> None:
    for resource in make_app(coordinator.ask).router.resources():
        named = re.sub(r"{\w+}", "${spring.application.name}", resource.canonical)
        pattern = resource.get_info().get("pattern")
        assert pattern is None or pattern.fullmatch(named), resource.canonical


async def test_no_path_takes_a_parameter_that_it_does_not_have(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    for path, methods in described()["paths"].items():
        for method in methods:
            address = re.sub("{partition}", "0", path).replace("{cluster}", "c-1").replace("{group}", "orders")
            status, text, _headers = await browser.request(
                method.upper(), re.sub(r"{\w+}", "x", address) + "?nonsense=1"
            )
            assert (status, "there is no parameter 'nonsense' here" in text) == (400, True), f"{method} {path}: {text}"
    assert coordinator.asked == []
    assert "is given twice" in (await browser.get("/v1/groups?q=a&q=b", 400))["detail"]
    assert "sort must be one of group, -group" in (await browser.get("/v1/groups?sort=size", 400))["detail"]


async def test_a_page_that_fails_is_a_problem_too(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    async def fail(message: object) -> None:
        raise ZeroDivisionError

    coordinator.answers[DescribeGroups] = fail
    failed = await browser.get(f"{CLUSTER}/consumer-groups/orders", 500)
    assert failed["detail"] == "this page failed; the daemon's log has the reason"


@pytest.mark.parametrize("text", ["", "-", "x", "1.0", "+1", "1e3", " 1", "9" * 20, "\u0663", "1001", "0"])
def test_a_number_out_of_bounds_is_none(text: str) -> None:
    with pytest.raises(Problem, match="page_size must be a whole number from 1 to 1000"):
        whole_number(text, PAGE_SIZE.name, PAGE_SIZE.least, PAGE_SIZE.most or 0)


# --- lists


async def test_topics_are_filtered_sorted_and_paged(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.ends = {("b", 0): 1, ("a", 0): 5, ("a", 1): 7, ("ab", 0): 0}
    coordinator.begins = {("a", 1): 3}
    topics = f"{CLUSTER}/topics"

    async def names(query: str) -> list[str]:
        return [one["topic_name"] for one in (await browser.get(topics + query))["data"]]

    assert await names("") == ["a", "ab", "b"]
    assert await names("?q=b&sort=-topic") == ["b", "ab"]
    assert await names("?sort=-partitions&page_size=1") == ["a"]
    first = await browser.get(f"{topics}?q=a&page_size=1&sort=-topic")
    second = await browser.get(first["metadata"]["next"])
    assert [first["data"][0]["topic_name"], second["data"][0]["topic_name"]] == ["ab", "a"]
    assert second["metadata"]["next"] is None

    shown = await browser.get(f"{topics}/a")
    assert (shown["kind"], shown["partitions_count"], shown["replication_factor"]) == ("KafkaTopic", 2, 1)
    parts = await browser.get(shown["partitions"]["related"] + "?page_size=1&page_token=1")
    assert [(one["log_start_offset"], one["log_end_offset"]) for one in parts["data"]] == [(3, 7)]
    assert await browser.get(f"{topics}/a/partitions/1") == parts["data"][0]
    for path in ("x", "x/partitions", "x/partitions/0", "a/partitions/9"):
        assert (await browser.get(f"{topics}/{path}", 404))["error_code"] == 40403


async def test_ids_of_groups_are_filtered_and_paged(browser: Browser) -> None:
    assert await browser.get("/v1/groups") == {"groups": ["idle", "orders"]}
    assert await browser.get("/v1/groups?sort=-group&q=d") == {"groups": ["orders", "idle"]}
    assert await browser.get("/v1/groups?state=Empty") == {"groups": ["idle"]}
    first = await browser.get("/v1/groups?sort=-group&page_size=1")
    assert first == {"groups": ["orders"], "next_page_token": "orders"}
    rest = await browser.get("/v1/groups?sort=-group&page_size=1&page_token=orders")
    assert rest == {"groups": ["idle"], "next_page_token": None}


async def test_the_overview_is_one_request_and_begins_with_what_is_wrong(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.committed["idle"] = {("t", 2): 1}  # below the log's start
    coordinator.committed["orders"]["t", 2] = 8

    seen = await browser.get("/v1/overview")
    assert [(one["group_id"], one["members"], one["partitions"], one["lag"]) for one in seen["data"]] == [
        ("idle", 0, 4, 30 + 10 + 7 + 4),
        ("orders", 2, 4, 28),
    ]
    assert seen["data"][0]["problems"][0]["kind"] == "offsets_out_of_range"
    assert (seen["groups"], seen["matching"], seen["states"]) == (2, 2, {"Empty": 1, "Stable": 1})
    assert seen["problems"] == {"offsets_out_of_range": 1}

    for query, expected in (
        ("?sort=group&page_size=1", ["idle"]),
        ("?sort=-members", ["orders", "idle"]),
        ("?sort=lag", ["orders", "idle"]),
        ("?sort=-state", ["orders", "idle"]),
        ("?problem=any", ["idle"]),
        ("?problem=none", ["orders"]),
        ("?problem=offsets_out_of_range", ["idle"]),
        ("?problem=silent_member", []),
        ("?q=ord", ["orders"]),
        ("?state=Empty", ["idle"]),
    ):
        assert [one["group_id"] for one in (await browser.get(f"/v1/overview{query}"))["data"]] == expected, query
    first = await browser.get("/v1/overview?page_size=1")
    second = await browser.get(f"/v1/overview?page_size=1&page_token={first['next_page_token']}")
    assert [one["group_id"] for one in second["data"]] == ["orders"] and second["next_page_token"] is None

"""Golden answers: Confluent REST v3's fields and links."""

import msgspec
import pytest

from coordinator.http.shapes import state_name
from protocol.messages.groups import DescribedMember
from tests.http.conftest import Browser
from tests.http.scripted import ScriptedCoordinator

GROUPS = "/v3/clusters/c-1/consumer-groups"

ORDERS = {
    "kind": "KafkaConsumerGroup",
    "metadata": {"self": f"{GROUPS}/orders", "resource_name": "crn:///kafka=c-1/consumer-group=orders"},
    "cluster_id": "c-1",
    "consumer_group_id": "orders",
    "is_simple": False,
    "partition_assignor": "range",
    "state": "STABLE",
    "coordinator": {"related": "/v3/clusters/c-1/brokers/7"},
    "consumer": {"related": f"{GROUPS}/orders/consumers"},
    "lag_summary": {"related": f"{GROUPS}/orders/lag-summary"},
}
CONSUMER = {
    "kind": "KafkaConsumer",
    "metadata": {
        "self": f"{GROUPS}/orders/consumers/m-2",
        "resource_name": "crn:///kafka=c-1/consumer-group=orders/consumer=m-2",
    },
    "cluster_id": "c-1",
    "consumer_group_id": "orders",
    "consumer_id": "m-2",
    "instance_id": "box-2",
    "client_id": "app-2",
    "assignments": {"related": f"{GROUPS}/orders/consumers/m-2/assignments"},
}
ASSIGNMENT = {
    "kind": "KafkaConsumerAssignment",
    "metadata": {
        "self": f"{GROUPS}/orders/consumers/m-2/assignments/t/partitions/2",
        "resource_name": "crn:///kafka=c-1/consumer-group=orders/consumer=m-2/assignment=t/partition=2",
    },
    "cluster_id": "c-1",
    "consumer_group_id": "orders",
    "consumer_id": "m-2",
    "topic_name": "t",
    "partition_id": 2,
    "lag": {"related": f"{GROUPS}/orders/lags/t/partitions/2"},
}
LAG = {
    "kind": "KafkaConsumerLag",
    "metadata": {
        "self": f"{GROUPS}/orders/lags/t/partitions/0",
        "resource_name": "crn:///kafka=c-1/consumer-group=orders/lag=t/partition=0",
    },
    "cluster_id": "c-1",
    "consumer_group_id": "orders",
    "topic_name": "t",
    "partition_id": 0,
    "current_offset": 5,
    "log_end_offset": 30,
    "lag": 25,
    "consumer_id": "m-1",
    "instance_id": None,
    "client_id": "app-1",
    "lag_seconds": None,
    "commit_age_seconds": None,
}
CLUSTER = {
    "kind": "KafkaCluster",
    "metadata": {"self": "/v3/clusters/c-1", "resource_name": "crn:///kafka=c-1"},
    "cluster_id": "c-1",
    "controller": {"related": "/v3/clusters/c-1/brokers/7"},
    "brokers": {"related": "/v3/clusters/c-1/brokers"},
    "consumer_groups": {"related": GROUPS},
    "topics": {"related": "/v3/clusters/c-1/topics"},
}
BROKER = {
    "kind": "KafkaBroker",
    "metadata": {"self": "/v3/clusters/c-1/brokers/7", "resource_name": "crn:///kafka=c-1/broker=7"},
    "cluster_id": "c-1",
    "broker_id": 7,
    "host": "127.0.0.1",
    "port": 9390,
    "rack": None,
}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param("/v3/clusters/c-1", CLUSTER, id="cluster"),
        pytest.param("/v3/clusters/c-1/brokers/7", BROKER, id="broker"),
        pytest.param(f"{GROUPS}/orders", ORDERS, id="group"),
        pytest.param(f"{GROUPS}/orders/consumers/m-2", CONSUMER, id="consumer"),
        pytest.param(f"{GROUPS}/orders/consumers/m-2/assignments/t/partitions/2", ASSIGNMENT, id="assignment"),
        pytest.param(f"{GROUPS}/orders/lags/t/partitions/0", LAG, id="lag"),
    ],
)
async def test_a_page_has_confluents_fields(browser: Browser, path: str, shown: object) -> None:
    assert await browser.get(path) == shown


@pytest.mark.parametrize(
    ("path", "kind", "one"),
    [
        pytest.param("/v3/clusters", "KafkaClusterList", CLUSTER, id="clusters"),
        pytest.param("/v3/clusters/c-1/brokers", "KafkaBrokerList", BROKER, id="brokers"),
        pytest.param(GROUPS, "KafkaConsumerGroupList", ORDERS, id="groups"),
        pytest.param(f"{GROUPS}/orders/consumers", "KafkaConsumerList", CONSUMER, id="consumers"),
        pytest.param(
            f"{GROUPS}/orders/consumers/m-2/assignments", "KafkaConsumerAssignmentList", ASSIGNMENT, id="assignments"
        ),
        pytest.param(f"{GROUPS}/orders/lags", "KafkaConsumerLagList", LAG, id="lags"),
    ],
)
async def test_a_list_wraps_the_same_pages(browser: Browser, path: str, kind: str, one: object) -> None:
    shown = await browser.get(path)

    assert (shown["kind"], shown["metadata"]) == (kind, {"self": path, "next": None})
    assert one in shown["data"]


async def test_the_lag_summary_names_the_partition_that_is_furthest_behind(browser: Browser) -> None:
    assert await browser.get(f"{GROUPS}/orders/lag-summary") == {
        "kind": "KafkaConsumerGroupLagSummary",
        "metadata": {
            "self": f"{GROUPS}/orders/lag-summary",
            "resource_name": "crn:///kafka=c-1/consumer-group=orders/lag-summary",
        },
        "cluster_id": "c-1",
        "consumer_group_id": "orders",
        "max_lag_consumer_id": "m-1",
        "max_lag_instance_id": None,
        "max_lag_client_id": "app-1",
        "max_lag_topic_name": "t",
        "max_lag_partition_id": 0,
        "max_lag": 25,
        "total_lag": 34,
        "max_lag_seconds": None,
        "commit_age_seconds": None,
    }


async def test_pages_say_how_many_seconds_a_group_is_behind_as_metrics_do(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    start_ms = 1_700_000_000_000
    coordinator.node = msgspec.structs.replace(coordinator.node, wall_ms=start_ms)
    await browser.get(f"{GROUPS}/orders/lag-summary")
    coordinator.ends["t", 0] = 40
    coordinator.committed["orders"]["t", 0] = 35
    coordinator.node = msgspec.structs.replace(coordinator.node, wall_ms=start_ms + 20_000)

    lines = (await browser.get(f"{GROUPS}/orders/lags"))["data"]
    line = await browser.get(f"{GROUPS}/orders/lags/t/partitions/0")
    summary = await browser.get(f"{GROUPS}/orders/lag-summary")
    page = await browser.text("/metrics")

    assert [one["lag_seconds"] for one in lines] == [10, 0, 20, 20]
    assert (line["lag_seconds"], summary["max_lag_seconds"]) == (10, 20)
    assert 'muster_consumergroup_lag_seconds{consumergroup="orders",partition="0",topic="t"} 10.0' in page
    assert 'muster_consumergroup_max_lag_seconds{consumergroup="orders"} 20.0' in page


async def test_a_partition_says_how_long_ago_it_was_committed(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.node = msgspec.structs.replace(coordinator.node, wall_ms=1_700_000_009_500)
    coordinator.committed_ms = {("t", 0): 1_700_000_002_000, ("t", 1): 1_700_000_008_000}

    lines = (await browser.get(f"{GROUPS}/orders/lags"))["data"]
    summary = await browser.get(f"{GROUPS}/orders/lag-summary")

    assert [one["commit_age_seconds"] for one in lines] == [7.5, 1.5, None, None]
    assert summary["commit_age_seconds"] == 1.5


async def test_a_group_that_committed_nothing_is_not_behind(browser: Browser) -> None:
    summary = await browser.get(f"{GROUPS}/idle/lag-summary")

    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (0, 0, None)
    assert (await browser.get(f"{GROUPS}/idle/lags"))["data"] == []


async def test_a_partition_nobody_has_still_has_a_lag(browser: Browser) -> None:
    line = await browser.get(f"{GROUPS}/orders/lags/t/partitions/3")

    assert (line["lag"], line["consumer_id"], line["instance_id"], line["client_id"]) == (3, "", None, "")


async def test_a_partition_without_a_commit_counts_from_where_its_log_begins(browser: Browser) -> None:
    line = await browser.get(f"{GROUPS}/orders/lags/t/partitions/2")

    assert (line["current_offset"], line["log_end_offset"], line["lag"]) == (None, 8, 6)
    assert line["consumer_id"] == "m-2"


async def test_what_is_assigned_counts_before_anything_is_committed(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.committed.clear()

    assert (await browser.get(f"{GROUPS}/orders/lag-summary"))["total_lag"] == 30 + 10 + 6 + 4


async def test_a_partition_that_is_gone_has_no_lag(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.committed["orders"]["gone", 0] = 3

    shown = await browser.get(f"{GROUPS}/orders/lags")

    assert [(line["topic_name"], line["partition_id"]) for line in shown["data"]] == [("t", part) for part in range(4)]


async def test_an_end_that_others_told_says_how_old_it_is(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.ages_ms = {("t", 0): 12_000, ("t", 1): 400}

    shown = await browser.get(f"{GROUPS}/orders/lags")
    summary = await browser.get(f"{GROUPS}/orders/lag-summary")

    assert [line.get("end_age_ms") for line in shown["data"]] == [12_000, 400, None, None]
    assert (summary["total_lag"], summary["end_age_ms"]) == (34, 12_000)


async def test_an_end_that_was_never_heard_makes_no_lag_of_0(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    del coordinator.ends["t", 0]
    coordinator.ages_ms["t", 0] = 0

    line = await browser.get(f"{GROUPS}/orders/lags/t/partitions/0")
    summary = await browser.get(f"{GROUPS}/orders/lag-summary")

    assert (line["current_offset"], line["log_end_offset"], line["lag"]) == (5, None, None)
    assert (summary["max_lag_partition_id"], summary["total_lag"], summary["unknown_partitions"]) == (2, 9, 1)


async def test_of_a_group_of_which_no_end_is_known_there_is_no_lag(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.ends.clear()
    coordinator.ages_ms = {("t", partition): 0 for partition in (0, 1, 3)}

    summary = await browser.get(f"{GROUPS}/orders/lag-summary")

    assert (summary["max_lag"], summary["total_lag"], summary["unknown_partitions"]) == (None, None, 3)


async def test_bytes_nobody_can_read_are_an_empty_assignment(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    broken = DescribedMember("m-1", None, "app", "h", b"\xff", member_assignment=b"\0\0\x7f\xff\xff\xff")
    coordinator.turn("orders", members=(broken,))

    assert (await browser.get(f"{GROUPS}/orders/consumers/m-1/assignments"))["data"] == []
    assert (await browser.get(f"{GROUPS}/orders/lags"))["data"][0]["consumer_id"] == ""


async def test_members_of_another_protocol_are_shown_without_assignments(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.turn("orders", protocol_type="connect")

    assert (await browser.get(f"{GROUPS}/orders/consumers/m-2"))["consumer_id"] == "m-2"
    assert (await browser.get(f"{GROUPS}/orders/consumers/m-2/assignments"))["data"] == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Stable", "STABLE"),
        ("PreparingRebalance", "PREPARING_REBALANCE"),
        ("CompletingRebalance", "COMPLETING_REBALANCE"),
        ("Empty", "EMPTY"),
        ("Dead", "DEAD"),
        ("", "UNKNOWN"),
    ],
)
def test_states_are_written_as_confluent_writes_them(ours: str, theirs: str) -> None:
    assert state_name(ours) == theirs


async def test_a_list_of_groups_comes_in_pages(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    template = coordinator.groups["idle"]
    names = [f"g {number}/é" for number in range(5)]
    coordinator.groups = {name: msgspec.structs.replace(template, group_id=name) for name in names}

    seen: list[list[str]] = []
    page: str | None = f"{GROUPS}?page_size=2"
    while page is not None:
        shown = await browser.get(page)
        seen.append([group["consumer_group_id"] for group in shown["data"]])
        page = shown["metadata"]["next"]

    assert seen == [names[:2], names[2:4], names[4:]]


@pytest.mark.parametrize(
    ("path", "name", "all_of_it"),
    [
        pytest.param(f"{GROUPS}/orders/lags", "partition_id", [0, 1, 2, 3], id="lags"),
        pytest.param(f"{GROUPS}/orders/consumers", "consumer_id", ["m-1", "m-2"], id="consumers"),
        pytest.param(f"{GROUPS}/orders/consumers/m-1/assignments", "partition_id", [0, 1], id="assignments"),
    ],
)
async def test_every_list_comes_in_pages(browser: Browser, path: str, name: str, all_of_it: list[object]) -> None:
    seen: list[object] = []
    page: str | None = f"{path}?page_size=1"
    while page is not None:
        shown = await browser.get(page)
        seen += [line[name] for line in shown["data"]]
        page = shown["metadata"]["next"]

    assert seen == all_of_it


async def test_a_group_that_goes_while_the_list_is_made_is_left_out(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.turn("idle", group_state="Dead")

    assert [group["consumer_group_id"] for group in (await browser.get(GROUPS))["data"]] == ["orders"]


async def test_many_groups_are_described_in_slices(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    template = coordinator.groups["idle"]
    names = [f"g{number:03}" for number in range(250)]
    coordinator.groups = {name: msgspec.structs.replace(template, group_id=name) for name in names}

    assert len((await browser.get(GROUPS))["data"]) == 250
    assert [len(m.groups) for m in coordinator.asked if type(m).__name__ == "DescribeGroups"] == [10] * 25  # type: ignore[attr-defined]

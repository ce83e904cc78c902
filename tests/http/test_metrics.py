import asyncio

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.build_info import build, interpreter
from coordinator.core.timings import BOUNDS_MS
from coordinator.http.lag.end_history import EndHistory
from coordinator.http.lag.partitions import PartitionLag, worst
from coordinator.http.lag.timed import TimedLags
from coordinator.http.metrics import Measured, exposition
from coordinator.http.queries import Queries
from coordinator.http.scrape import measure
from coordinator.http.watch import ProblemWatch, Rest
from protocol.errors import ErrorCode
from protocol.messages.groups import ListGroups, ListGroupsReply
from protocol.messages.node import GroupTally, MeasuredDurations, MeasureReply
from tests.http.conftest import Browser
from tests.http.scripted import NODE, ScriptedCoordinator


async def _no_rest() -> None:
    pass


def watch_of(coordinator: ScriptedCoordinator, rest: Rest = _no_rest) -> ProblemWatch:
    return ProblemWatch(Queries(coordinator.ask), rest, asyncio.Lock())


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_groups_have_the_names_of_kafka_exporter(browser: Browser) -> None:
    found = samples(await browser.text("/metrics"))

    assert {name: value for name, value in found.items() if name.startswith("kafka_")} == {
        "kafka_brokers": 1,
        "kafka_topic_partitions topic=t": 4,
        "kafka_topic_partition_current_offset partition=0 topic=t": 30,
        "kafka_topic_partition_current_offset partition=1 topic=t": 10,
        "kafka_topic_partition_current_offset partition=2 topic=t": 8,
        "kafka_topic_partition_current_offset partition=3 topic=t": 4,
        "kafka_consumergroup_members consumergroup=idle": 0,
        "kafka_consumergroup_members consumergroup=orders": 2,
        "kafka_consumergroup_current_offset consumergroup=orders partition=0 topic=t": 5,
        "kafka_consumergroup_current_offset consumergroup=orders partition=1 topic=t": 10,
        "kafka_consumergroup_current_offset consumergroup=orders partition=3 topic=t": 1,
        "kafka_consumergroup_current_offset_sum consumergroup=orders topic=t": 16,
        "kafka_consumergroup_lag consumergroup=orders partition=0 topic=t": 25,
        "kafka_consumergroup_lag consumergroup=orders partition=1 topic=t": 0,
        "kafka_consumergroup_lag consumergroup=orders partition=2 topic=t": 6,
        "kafka_consumergroup_lag consumergroup=orders partition=3 topic=t": 3,
        "kafka_consumergroup_lag_sum consumergroup=orders topic=t": 34,
    }


async def test_ends_that_others_told_have_an_age_and_what_nobody_told_no_lag(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    del coordinator.ends["t", 1]
    coordinator.ages_ms = {("t", 0): 7_000, ("t", 1): 0, ("t", 3): 20}

    found = samples(await browser.text("/metrics"))

    assert found["muster_consumergroup_end_age_ms consumergroup=orders"] == 7_000
    assert found["kafka_consumergroup_lag_sum consumergroup=orders topic=t"] == 34
    assert found["kafka_consumergroup_current_offset consumergroup=orders partition=1 topic=t"] == 10
    assert "kafka_consumergroup_lag consumergroup=orders partition=1 topic=t" not in found
    assert "muster_consumergroup_end_age_ms consumergroup=idle" not in found


async def test_beside_brokers_it_is_they_who_are_counted(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.node = msgspec.structs.replace(NODE, gauges={"upstream_brokers": 3})

    assert samples(await browser.text("/metrics"))["kafka_brokers"] == 3


async def test_the_node_speaks_for_itself_under_our_own_name(browser: Browser) -> None:
    found = samples(await browser.text("/metrics"))

    assert {name: value for name, value in found.items() if name.startswith("muster_")} == {
        "muster_info cluster_id=c-1 node_id=7 version=0.1.0": 1,
        f"muster_build_info build={build()} interpreter={interpreter()} version=0.1.0": 1,
        "muster_start_time_seconds": 1_700_000_000.5,
        "muster_shards": 50,
        "muster_shards_loaded": 50,
        "muster_metrics_left_out": 0,
        "muster_groups_to_look_at": 0,
        "muster_groups state=Empty": 1,
        "muster_groups state=Stable": 1,
        "muster_rebalances_total cause=member joined": 3,
        "muster_rebalances_total cause=session expired": 1,
        "muster_purgatory_operations kind=heartbeat": 2,
        "muster_purgatory_operations kind=produce": 0,
        "muster_members": 2,
        "muster_group_problem group=orders kind=consumption_stopped": 1,
        "muster_wal_position_bytes": 4096,
        "muster_connections_opened_total": 12,
        "muster_consumergroup_committed_lag_sum consumergroup=orders topic=t": 28,
        "muster_consumergroup_uncommitted_partitions consumergroup=orders topic=t": 1,
        "muster_consumergroup_lag_seconds consumergroup=orders partition=1 topic=t": 0,
    }


async def test_a_large_topic_takes_no_other_off_the_page(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    coordinator.ends |= {("big", partition): 1 for partition in range(9)}

    found = samples(await browser.text("/metrics"))

    assert found["kafka_topic_partitions topic=big"] == 9
    shown = [name for name in found if name.startswith("kafka_topic_partition_current_offset")]
    assert sum(name.endswith("topic=t") for name in shown) == 4
    assert len(shown) == 8
    assert found["muster_metrics_left_out"] == 5


async def test_sums_and_members_are_shown_of_every_group(browser: Browser, coordinator: ScriptedCoordinator) -> None:
    template = coordinator.groups["idle"]
    for number in range(50):
        name = f"z{number:03}"
        coordinator.groups[name] = msgspec.structs.replace(template, group_id=name)
        coordinator.committed[name] = {("t", 0): 30 - number % 3}

    found = samples(await browser.text("/metrics"))

    assert sum(name.startswith("kafka_consumergroup_members") for name in found) == 52
    assert sum(name.startswith("kafka_consumergroup_lag_sum") for name in found) == 51
    assert sum(name.startswith("kafka_consumergroup_lag ") for name in found) == 8
    assert found["kafka_consumergroup_lag_sum consumergroup=z004 topic=t"] == 1 + 10 + 6 + 4
    assert found["muster_metrics_left_out"] == 4 * 51 - 8


async def test_partitions_with_the_largest_lag_have_series_of_their_own(coordinator: ScriptedCoordinator) -> None:
    coordinator.groups["a"] = msgspec.structs.replace(coordinator.groups["idle"], group_id="a")
    coordinator.committed["a"] = {("t", 0): 29, ("t", 1): 10, ("t", 2): 8, ("t", 3): 4}

    measured = await measure(Queries(coordinator.ask), 2, watch_of(coordinator))

    assert [(one.group_id, one.line.partition, one.line.lag) for one in measured.lines] == [
        ("orders", 0, 25),
        ("orders", 2, 6),
    ]
    assert {group.group_id: group.sums["t"].lag for group in measured.groups if group.sums} == {"a": 1, "orders": 34}
    assert measured.left_out == 2 + 6


async def test_others_have_their_turn_between_groups(coordinator: ScriptedCoordinator) -> None:
    rests = 0

    async def rest() -> None:
        nonlocal rests
        rests += 1

    await measure(Queries(coordinator.ask), 8, watch_of(coordinator, rest), rest)
    assert rests == len(coordinator.groups) + 1, "and once for the groups that were examined for problems"
    coordinator.ends |= {("t", partition): 1 for partition in range(4, 5_000)}
    await measure(Queries(coordinator.ask), 8, watch_of(coordinator, rest), rest)
    assert rests == 2 * len(coordinator.groups) + 4


async def test_a_node_that_still_loads_shows_its_own_numbers(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    coordinator.answers[ListGroups] = ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    found = samples(await browser.text("/metrics"))

    assert found["muster_shards"] == 50
    assert not any(name.startswith("kafka_consumergroup") for name in found)


async def test_counts_of_groups_and_durations_are_counters_and_histograms(
    browser: Browser, coordinator: ScriptedCoordinator
) -> None:
    counts = (1, 2, *[0] * (len(BOUNDS_MS) - 1))
    coordinator.measured = MeasureReply(
        (GroupTally("orders", 4, 1, 2, 3, {"PreparingRebalance": 1_500}), GroupTally("hidden", 9, 0, 0, 0, {})),
        (
            MeasuredDurations("request", "JoinGroup", counts, 4.5),
            MeasuredDurations("sync", "", counts, 4.5),
            MeasuredDurations("loop lag", "", counts, 4.5),
        ),
    )

    found = samples(await browser.text("/metrics"))

    assert found["muster_group_rebalances_total group=orders"] == 4
    assert found["muster_group_takeovers_total group=orders"] == 1
    assert found["muster_group_refusals_total group=orders"] == 2
    assert found["muster_group_fenced_commits_total group=orders"] == 3
    assert found["muster_group_state_seconds_total group=orders state=PreparingRebalance"] == 1.5
    assert not any("hidden" in name for name in found), "a group that the caller may not see"
    assert found["muster_request_seconds_bucket api=JoinGroup le=0.001"] == 1
    assert found["muster_request_seconds_bucket api=JoinGroup le=0.002"] == 3
    assert found["muster_request_seconds_count api=JoinGroup"] == 3
    assert found["muster_sync_seconds_sum"] == found["muster_loop_lag_seconds_sum"] == 0.0045
    assert found["process_open_fds"] > 0


async def test_lag_in_time_is_how_long_ago_the_offset_was_the_end(coordinator: ScriptedCoordinator) -> None:
    watch, history = watch_of(coordinator), EndHistory()
    measured = Measured(NODE)
    for second, end in ((0, 30), (10, 40), (20, 60)):
        coordinator.node = msgspec.structs.replace(NODE, wall_ms=1_700_000_000_000 + second * 1_000)
        coordinator.ends["t", 0] = end
        coordinator.committed["orders"]["t", 0] = 50 if second == 20 else 5
        measured = await measure(Queries(coordinator.ask), 8, watch, history=history)
    assert {(one.group_id, one.line.partition): one.lag_ms for one in measured.lines} == {
        ("orders", 0): 5_000,  # 50 was the end between 40 and 60
        ("orders", 1): 0,
        ("orders", 2): 20_000,  # at least: it lags since before the first scrape
        ("orders", 3): 20_000,
    }
    assert {one.group_id: one.lag_ms for one in measured.groups} == {"idle": None, "orders": 20_000}
    shown = await TimedLags(Queries(coordinator.ask), history, _no_rest).of(coordinator.groups["orders"])
    assert [one.lag_ms for one in shown] == [one.lag_ms for one in measured.lines], "pages show the same"


async def test_openmetrics_is_given_to_those_who_ask_for_it(browser: Browser) -> None:
    text = await browser.text("/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("version", ["abc", "1.x", '"1.0.0"', "9" * 5_000])
@pytest.mark.parametrize("media", ["application/openmetrics-text", "text/plain"])
async def test_a_version_that_is_none_is_given_text(browser: Browser, media: str, version: str) -> None:
    status, text, headers = await browser.request("GET", "/metrics", Accept=f"{media};version={version}")

    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "# TYPE muster_info gauge" in text


def test_odd_names_become_legal_ones_and_collide_with_nothing() -> None:
    node = msgspec.structs.replace(NODE, gauges={"Groups": 9, "a-b.c": 1}, counters={"a_b_c": 2, "seen_total": 3})

    body, content_type = exposition(Measured(node))

    found = samples(body.decode())
    assert content_type.startswith("text/plain")
    assert (found["muster_a_b_c"], found["muster_seen_total"]) == (1, 3)
    assert "muster_a_b_c_total" not in found
    assert "muster_groups" not in found


def test_a_commit_beyond_the_end_is_no_negative_lag() -> None:
    assert PartitionLag("t", 0, current_offset=9, log_end_offset=5).lag == 0
    assert worst(()) is None


def test_what_a_number_means_is_said_where_its_name_does_not() -> None:
    node = msgspec.structs.replace(NODE, gauges={"upstream_reachable": 0, "connections": 2})
    page = exposition(Measured(node))[0].decode()
    assert "# HELP muster_upstream_reachable 1 while brokers of the Kafka cluster answer this node, else 0.\n" in page
    assert "# HELP muster_connections Connections now.\n" in page

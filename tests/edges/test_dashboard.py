"""The dashboard of `deploy/`: a Prometheus that scrapes a daemon answers each of its panels, for the groups chosen."""

import json
import re
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within
from tests.edges.prometheus import PROMETHEUS, Prometheus, scraping

DASHBOARD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "deploy/grafana.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
GROUP, OTHER = "pay (eu).1", "other"
"""A name of which a regular expression would make something else, and one that is not chosen."""
EXPRESSIONS = [
    pytest.param(target["expr"], target["legendFormat"], id=f"{panel['id']}{target['refId']}")
    for panel in PANELS
    for target in panel.get("targets", ())
]


def test_panels_stand_side_by_side_and_each_has_an_id() -> None:
    places = [one["gridPos"] for one in PANELS]
    assert all(one["x"] + one["w"] <= 24 for one in places)
    assert [
        (one, other)
        for one, other in combinations(places, 2)
        if one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"]
    ] == []  # fmt: skip
    ids = [one["id"] for one in PANELS]
    assert len(set(ids)) == len(ids) > 20


def test_whatever_the_dashboard_refers_to_is_one_of_its_variables() -> None:
    names = {one["name"] for one in VARIABLES}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert {one for one in used if not one.startswith("__")} == names, "those with __ are Grafana's own"
    shown = [one for one in PANELS if one["type"] != "row"]
    sources = [one["datasource"]["uid"] for panel in shown for one in (panel, *panel["targets"])]
    assert set(sources) == {"${datasource}"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("dashboard") / "data"
    with running(folder, "group.initial.rebalance.delay.ms=0", with_http=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 2),)))
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has seen a group with a problem open, and another group."""
    if PROMETHEUS is None:
        pytest.skip("prometheus is not installed")
    with (
        scraping(daemon, tmp_path_factory.mktemp("prometheus")) as prometheus,
        Producer(daemon.bootstrap) as producer,
        Consumer(daemon.bootstrap, GROUP, auto_offset_reset="earliest", enable_auto_commit=False) as reader,
        Consumer(daemon.bootstrap, OTHER, auto_offset_reset="earliest") as other,
    ):
        rebalance_slowly(daemon, GROUP)
        producer.send("t", "1").result()
        for one in (reader, other):
            one.subscribe(["t"])
            assert within(20, lambda one=one: len(one.assignment) == 2 or one.poll(0.1))
        for offset in (1, 0):
            reader.commit(dict.fromkeys(reader.assignment, offset))
        assert within(20, lambda: prometheus.query(f'muster_group_problem{{group="{GROUP}"}}'))
        yield prometheus


def rebalance_slowly(daemon: Daemon, group_id: str) -> None:
    """Join a member, let it sync a while later, and leave: states that last less than a millisecond have no series."""
    with ClusterClient(daemon.bootstrap) as connection:
        protocols = (JoinProtocol("range", encode_subscription(Subscription(("t",)))),)
        joined = connection.ask(
            JoinGroup(group_id, 60_000, "", "consumer", protocols, 60_000, wants_member_id_first=False)
        )
        assert isinstance(joined, JoinGroupReply) and not joined.error_code, joined
        time.sleep(0.05)
        connection.ask(SyncGroup(group_id, joined.generation_id, joined.member_id))
        connection.ask(LeaveGroup(group_id, (LeavingMember(joined.member_id),)))


def chosen(expression: str, **values: str) -> str:
    """Replace variables as Grafana does in queries for Prometheus: a chosen value is escaped twice."""
    for name, value in {"instance": ".*", "group": ".*", **values}.items():
        text = value if value == ".*" else re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value)
        expression = expression.replace(f"${name}", text)
    assert "$" not in expression
    return expression


@pytest.mark.parametrize(("expression", "legend"), EXPRESSIONS)
def test_prometheus_answers_each_panel(daemon: Daemon, prometheus: Prometheus, expression: str, legend: str) -> None:
    instance = f"127.0.0.1:{daemon.http_port}"
    everything, wanted = chosen(expression), chosen(expression, instance=instance, group=GROUP)
    for one in (everything, wanted):
        assert within(20, lambda one=one: prometheus.query(one)), one
    for series in prometheus.query(wanted):
        labels = series["metric"]
        assert all(labels[name] for name in re.findall(r"{{(\w+)}}", legend)), (legend, labels)
        assert {labels.get("group", GROUP), labels.get("consumergroup", GROUP)} == {GROUP}, expression
    nobody = prometheus.query(chosen(expression, instance="nobody"))
    assert [one for one in nobody if one["metric"]] == []


def test_each_variable_is_chosen_from_what_there_is(daemon: Daemon, prometheus: Prometheus) -> None:
    found = {}
    for variable in VARIABLES:
        if variable["type"] == "query":
            assert variable["query"]["query"] == variable["definition"]
            (parts,) = re.findall(r"label_values\((.*), (\w+)\)", variable["definition"])
            found[variable["name"]] = {one["metric"][parts[1]] for one in prometheus.query(chosen(parts[0]))}
    assert found == {"instance": {f"127.0.0.1:{daemon.http_port}"}, "group": {GROUP, OTHER}}

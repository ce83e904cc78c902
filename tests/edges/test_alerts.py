"""Alerts and the dashboard name metrics that a daemon has; each alert fires where promtool is installed to say so."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within

ROOT = Path(__file__).parents[2]
ALERTS, DASHBOARD, PAGE = ROOT / "deploy/alerts.yaml", ROOT / "deploy/grafana.json", ROOT / "docs/alerts.md"
PROMTOOL = os.environ.get("TEST_PROMTOOL") or shutil.which("promtool")
ELSEWHERE = {"up", "muster_upstream_reachable", "muster_group_problem"}
"""Metrics of Prometheus itself, of a node in front of a cluster, and of a group in trouble."""
_METRIC = re.compile(r"\b(?:muster|kafka|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("alerts") / "data"
    with running(folder, "group.initial.rebalance.delay.ms=0", with_http=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 2),)))
        yield daemon


def scraped(daemon: Daemon) -> set[str]:
    with urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    return {sample.name for family in families for sample in family.samples} | {
        family.name for family in families if not family.samples
    }


def named(texts: list[str]) -> set[str]:
    return {name for text in texts for name in _METRIC.findall(text)} - ELSEWHERE


def expressions() -> list[str]:
    return re.findall(r"^ +expr: '(.*)'$", ALERTS.read_text(), re.MULTILINE)


def test_alerts_and_the_dashboard_name_metrics_that_there_are(daemon: Daemon) -> None:
    shown = [panel["expr"] for one in json.loads(DASHBOARD.read_text())["panels"] for panel in one.get("targets", ())]
    wanted = named(expressions()) | named(shown)
    assert len(wanted) > 20
    with Producer(daemon.bootstrap) as producer:
        producer.send("t", "1")
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        assert within(60, lambda: consumer.poll(1.0))
        consumer.commit()
        assert within(60, lambda: wanted <= scraped(daemon)), wanted - scraped(daemon)


def test_every_alert_has_its_place_in_the_page_and_a_test_of_its_own() -> None:
    alerts = re.findall(r"alert: (\w+)", ALERTS.read_text())
    page, tests = PAGE.read_text(), ALERTS.with_name("alerts_test.yaml").read_text()
    assert len(alerts) == len(set(alerts)) == len(expressions())
    assert [one for one in alerts if f"\n## {one}\n" not in page or f"runbook: docs/alerts.md#{one.lower()}" not in
            ALERTS.read_text() or f"  - name: {one}\n" not in tests] == []  # fmt: skip


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (TEST_PROMTOOL names it)")
@pytest.mark.parametrize("command", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_promtool_finds_the_alerts_right(command: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *command], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr

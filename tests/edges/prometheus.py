"""A Prometheus that scrapes one daemon each second and evaluates the alerts of `deploy/`."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from tests.edges.musterd import Daemon, free_port, within

PROMETHEUS = shutil.which("prometheus")
ALERTS = Path(__file__).parents[2] / "deploy/alerts.yaml"


class Prometheus:
    """One that runs; `ask` is its HTTP API."""

    def __init__(self, port: int) -> None:
        self._at = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self._at}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError):
            return False

    def ask(self, path: str) -> Any:
        with urlopen(f"{self._at}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of the expression, now."""
        found: list[dict[str, Any]] = self.ask(f"query?query={quote(expression)}")["result"]
        return found

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Return the alerts of this name whose expression is true: pending or firing."""
        return [one for one in self.ask("alerts")["alerts"] if one["labels"]["alertname"] == name]


@contextmanager
def scraping(daemon: Daemon, folder: Path) -> Iterator[Prometheus]:
    assert PROMETHEUS is not None
    settings = folder / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{ALERTS}']\n"
        "scrape_configs:\n  - job_name: musterd\n    static_configs:\n"
        f"      - targets: ['127.0.0.1:{daemon.http_port}']\n"
    )
    port = free_port()
    command = [PROMETHEUS, f"--config.file={settings}", f"--storage.tsdb.path={folder / 'series'}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        prometheus = Prometheus(port)
        assert within(30, prometheus.is_ready), (folder / "prometheus.log").read_text()[-2000:]
        yield prometheus
    finally:
        process.kill()
        process.wait()

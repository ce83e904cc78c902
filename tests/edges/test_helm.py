"""The Helm chart as helm renders it."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from coordinator.config.config import load_config
from tests.config.test_helm_chart import CHART, MANIFEST, kinds

BESIDE = ("--set", "upstream.servers=kafka-0:9092", "--set", "upstream.listenerPorts.count=2")


@pytest.fixture
def helm() -> str:
    found = shutil.which("helm")
    if found is None:
        pytest.skip("helm is not installed")
    return found


@pytest.mark.parametrize("settings", [(), BESIDE], ids=["alone", "beside"])
def test_helm_renders_what_musterd_serves(helm: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    subprocess.run([helm, "lint", "--strict", str(CHART), *settings], check=True, capture_output=True)
    done = subprocess.run([helm, "template", "one", str(CHART), *settings], check=True, capture_output=True, text=True)
    assert kinds(done.stdout) == kinds(MANIFEST.read_text())
    found = re.search(r"^  musterd.toml: \|\n((?:    .*\n)+)", done.stdout, re.MULTILINE)
    assert found is not None
    config = tmp_path / "musterd.toml"
    config.write_text(textwrap.dedent(found[1]))
    load_config(["--config", str(config)], {}, lambda path: Path(path).read_bytes())
    ports = re.findall(r"name: (broker-\d), port: (\d+)", done.stdout)
    assert ports == ([("broker-0", "9100"), ("broker-1", "9101")] if settings else [])

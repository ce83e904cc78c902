"""The units of `deploy/`, as systemd reads them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.config.kubernetes import DEPLOY

ANALYZE = shutil.which("systemd-analyze")
UNITS = sorted(path for pattern in ("*.service", "*.timer", "spark/*.service") for path in DEPLOY.glob(pattern))

pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, timeout=100, check=False)


def installed(folder: Path) -> list[Path]:
    """Write the units with programs that are there. Return where."""
    copies = []
    for unit in UNITS:
        text = unit.read_text()
        for program in set(re.findall(r"^Exec\w+=(/opt/\S+)", text, re.MULTILINE)):
            there = folder / Path(program).name
            there.write_text("#!/bin/sh\n")
            there.chmod(0o755)
            text = text.replace(f"={program} ", f"={there} ")
        copies.append(folder / unit.name)
        copies[-1].write_text(text)
    return copies


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    copies = installed(tmp_path)
    done = analyze("verify", "--man=no", *map(str, copies))
    names = "|".join(re.escape(one.name) for one in copies)
    assert [line for line in done.stderr.splitlines() if re.search(names, line)] == []
    assert done.returncode == 0, done.stderr


def test_systemd_finds_a_wrong_key(tmp_path: Path) -> None:
    unit = next(one for one in installed(tmp_path) if one.name == "musterd.service")
    unit.write_text(unit.read_text().replace("ProtectClock=yes", "ProtectClocks=yes"))
    assert "ProtectClocks" in analyze("verify", "--man=no", str(unit)).stderr


def test_the_daemons_unit_is_as_closed_as_the_page_says() -> None:
    (said,) = re.findall(r"rates its exposure (\d\.\d)", (DEPLOY.parent / "docs/operations.md").read_text())
    done = analyze("security", "--offline=yes", str(DEPLOY / "musterd.service"))
    (found,) = re.findall(r"Overall exposure level for musterd.service: (\d\.\d)", done.stdout)
    assert float(found) <= float(said), done.stdout

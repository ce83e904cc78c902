"""The commands that the README promises."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.suite import PYTEST

MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_readme_opens_with_the_two_commands_and_ci_runs_the_whole_of_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^\$ (make \w+)", readme, re.MULTILINE)[:2] == ["make demo", "make test"]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make check"
    test, check = (_recipe(target) for target in ("test", "check"))
    assert check == "".join(test.replace("tests.suite", f"tests.suite {one}") for one in ("--all", "--compiled"))
    assert "tests.suite" in test


def test_a_group_of_tests_stays_on_one_worker(tmp_path: Path) -> None:
    """Modules that share a daemon or a Spark session are such groups."""
    (tmp_path / "test_group.py").write_text(_GROUP)
    command = [*PYTEST, "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert len({path.name for path in tmp_path.glob("gw*")}) == 1


_GROUP = """
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("together")


@pytest.mark.parametrize("number", range(8))
def test_one(number, worker_id):
    Path(__file__).with_name(worker_id).touch()
"""


def _recipe(target: str) -> str:
    found = re.search(rf"^{target}: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_target_has_a_line_of_help() -> None:
    (names,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    printed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"^  make (\w+) +\w", printed, re.MULTILINE) == names.split()


def test_each_kind_of_simulated_world_is_run() -> None:
    kinds = set()
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if re.search(r'seeds_parser\(|"--seeds"', text) and re.search(r"^if __name__", text, re.MULTILINE):
            kinds.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__"))
    printed = subprocess.run(["make", "-n", "simulate"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"\btests\.[\w.]+", printed)) == kinds


@pytest.mark.parametrize("extra", ["spark", "demo", "dev"])
def test_each_extra_is_documented_where_people_look(extra: str) -> None:
    assert f"[{extra}]" in (ROOT / "CONTRIBUTING.md").read_text()

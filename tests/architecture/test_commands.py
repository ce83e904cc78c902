"""The commands that the README promises."""

import re
import subprocess

import pytest

from tests.architecture.tree import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_readme_opens_with_the_two_commands_and_ci_runs_the_whole_of_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^\$ (make \w+)", readme, re.MULTILINE)[:2] == ["make demo", "make test"]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make check"
    test, check = (_recipe(target) for target in ("test", "check"))
    assert check == "".join(test.replace("tests.suite", f"tests.suite {one}") for one in ("--all", "--compiled"))
    assert "tests.suite" in test


def _recipe(target: str) -> str:
    found = re.search(rf"^{target}: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_target_has_a_line_of_help() -> None:
    (names,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    printed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"^  make (\w+) +\w", printed, re.MULTILINE) == names.split()


@pytest.mark.parametrize("extra", ["spark", "demo", "dev"])
def test_each_extra_is_documented_where_people_look(extra: str) -> None:
    assert f"[{extra}]" in (ROOT / "CONTRIBUTING.md").read_text()

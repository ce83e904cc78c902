"""Failed tests of processes run once more alone, and are named."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import suite

FAILED = "tests/edges/test_a.py::test_x[a@b]"
GROUPED = f"{FAILED}@test_a"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Commands that `failed_again` runs; each succeeds. One test has failed."""
    commands: list[list[str]] = []

    def run(_name: str, command: Sequence[str]) -> int:
        commands.append(list(command))
        return 0

    monkeypatch.setattr(suite, "ran", run)
    monkeypatch.setattr(suite, "LAST_FAILED", tmp_path / "lastfailed")
    suite.LAST_FAILED.write_text(json.dumps({GROUPED: True}))
    return commands


@pytest.mark.parametrize("name", [FAILED, "tests/edges/test_a.py::test_y", "tests/edges/spark/test_b.py::test_z[1-x]"])
def test_a_name_is_that_of_the_test_without_its_group(name: str) -> None:
    assert suite.without_group(name) == suite.without_group(f"{name}@a_group") == name


def test_what_passes_alone_is_named(ran: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.failed_again() == 0
    assert [command[-1] for command in ran] == [FAILED]
    assert capsys.readouterr().out == f"== UNSTEADY, passed only alone: {FAILED}\n"


def test_what_fails_alone_has_failed(
    ran: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "ran", lambda _name, _command: 1)
    assert suite.failed_again() == 1
    assert "UNSTEADY" not in capsys.readouterr().out


def test_many_failures_are_no_matter_of_time(ran: list[list[str]]) -> None:
    suite.LAST_FAILED.write_text(json.dumps({f"{number}::test@g": True for number in range(suite.MOST_AGAIN + 1)}))
    assert suite.failed_again() == 1 and not ran

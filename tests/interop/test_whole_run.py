"""Runs of `python -m interop`, and their exit codes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop import __main__ as whole
from interop import beside
from interop.catalogue import Client
from interop.consumer import playing
from interop.consumer_groups_tool import playing as groups_tool
from interop.logins import playing as logins
from interop.ours.parts import Choice
from interop.server import Server
from interop.table import Result, Row, Verdict

CLIENT = Client("x", "1", "C", "./x", capabilities=("configs",))


class Ran:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        verdict: Verdict,
        ours: list[str],
        in_front: tuple[str, ...] = (),
        balanced: tuple[str, ...] = (),
        refused: tuple[str, ...] = (),
        printed: tuple[str, ...] = (),
    ) -> None:
        self.ours: list[tuple[Choice, bool]] = []
        self.in_front: list[beside.Choice] = []
        self.balanced: list[tuple[playing.Choice, bool]] = []
        self.logins: list[tuple[logins.Choice, bool]] = []
        self.compared: list[groups_tool.Choice] = []

        @contextmanager
        def serving(bootstrap: str | None, _work: Path) -> Iterator[Server]:
            yield Server(bootstrap or "fresh:1")

        def run(choice: Choice, _work: Path, *, write: bool) -> list[str]:
            self.ours.append((choice, write))
            return ours

        def run_in_front(choice: beside.Choice, _work: Path) -> list[str]:
            self.in_front.append(choice)
            return list(in_front)

        def run_balanced(choice: playing.Choice, _work: Path, *, write: bool) -> list[str]:
            self.balanced.append((choice, write))
            return list(balanced)

        def run_logins(choice: logins.Choice, _work: Path, *, write: bool) -> list[str]:
            self.logins.append((choice, write))
            return list(refused)

        def run_tool(choice: groups_tool.Choice, _work: Path) -> list[str]:
            self.compared.append(choice)
            return list(printed)

        monkeypatch.setattr(beside, "run", run_in_front)
        monkeypatch.setattr(groups_tool, "run", run_tool)
        monkeypatch.setattr(logins, "run", run_logins)
        monkeypatch.setattr(playing, "run", run_balanced)
        monkeypatch.setattr(whole, "serving", serving)
        monkeypatch.setattr(whole, "row", lambda *_: Row(CLIENT, (Result("configs", verdict),)))
        monkeypatch.setattr(whole, "run", run)
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str) -> int:
        self._monkeypatch.setattr(sys, "argv", ["interop", *arguments])
        return whole.main()


def test_all_clients_are_followed_by_all_that_is_tried_with_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(monkeypatch, Verdict.PASSED, [])
    assert ran() == 0
    assert ran.ours == [(Choice(), False)]
    assert ran.in_front == [beside.Choice()]
    assert ran.balanced == [(playing.Choice(), False)]
    assert ran.logins == [(logins.Choice(), False)]
    assert ran.compared == [groups_tool.Choice()]


@pytest.mark.parametrize("arguments", [("kcat",), ("--only", "configs"), ("--bootstrap", "elsewhere:1")])
def test_a_choice_is_all_that_is_run(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    ran = Ran(monkeypatch, Verdict.PASSED, [])
    assert ran(*arguments) == 0
    assert ran.ours == []
    assert ran.in_front == []
    assert ran.balanced == []
    assert ran.logins == []
    assert ran.compared == []


def test_a_failure_in_any_part_is_told_to_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Ran(monkeypatch, Verdict.FAILED, [])() == 1
    assert Ran(monkeypatch, Verdict.PASSED, ["mixed with java: lost"])() == 1
    assert Ran(monkeypatch, Verdict.PASSED, [], ("connected to the broker itself: java",))() == 1
    assert Ran(monkeypatch, Verdict.PASSED, [], (), ("java, upgrade: not in time",))() == 1
    assert Ran(monkeypatch, Verdict.PASSED, [], (), (), ("java SASL_SSL PLAIN, joins: not in time",))() == 1
    assert Ran(monkeypatch, Verdict.PASSED, [], printed=("muster-consumer-groups --list: - a",))() == 1


def test_a_client_nobody_has_is_a_mistake_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Ran(monkeypatch, Verdict.PASSED, [])("nothing") == 2

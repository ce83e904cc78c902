"""`make faults` where it cannot run: a sentence, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.faults import Broken, __main__, check

ROOT = Path(__file__).parents[2]


def test_without_root_it_is_skipped_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    monkeypatch.setattr(sys, "argv", ["faults", "freezes"])
    assert __main__.main() == 0
    assert capsys.readouterr().out == "skipped: loop devices and namespaces need root\n"


def test_without_a_tool_it_is_skipped_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "fsfreeze" else name)
    assert __main__.missing() == "there is no fsfreeze (util-linux, e2fsprogs, iproute2)"


def test_a_world_that_is_none_is_refused_with_those_there_are() -> None:
    command = [sys.executable, "-m", "bench.faults", "thaws"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 2
    assert "there is no world 'thaws'; there are fills, fails," in ended.stderr


def test_a_promise_that_is_not_kept_says_which() -> None:
    check([1], "kept")
    with pytest.raises(Broken, match="not kept"):
        check([], "not kept")

"""Thirty worlds in `make test`, 180 in `make check`, which also replays their logs three times as often; `make simulate
SEEDS=N` runs more. A failure names its seed: replay it alone with `python -m tests.simulation --seed N`, and shrink it
with `--shrink`."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.enumerations import SHARE, share_of, worlds_of
from tests.simulation import __main__ as command
from tests.simulation.marks import missing
from tests.simulation.plan import draw
from tests.simulation.process import REPLAY_EVERY_STEPS
from tests.simulation.sweep import Total
from tests.simulation.world import run_one

SEEDS, SHARES = worlds_of(180), share_of(3)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_checker_holds_in_every_world(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        seen, _trace, _world = run_one(seed, replay_every=SHARE * REPLAY_EVERY_STEPS)
        total.update(seen.counts)
    # Thirty worlds see each of these many times over, so a 0 means that a fault is no longer injected.
    assert missing(total) == []


def test_one_seed_is_one_trace() -> None:
    assert run_one(7)[1] == run_one(7)[1]
    assert run_one(7)[1] != run_one(8)[1]


def test_a_part_of_a_seed_happens_as_it_did_in_the_whole() -> None:
    plan = draw(7)
    assert run_one(7, plan.only(range(len(plan.decisions))))[1] == run_one(7)[1]
    assert run_one(7, plan.only((0, 1, 2, 3)))[1] == run_one(7, plan.only((3, 2, 1, 0)))[1]


def test_a_trace_does_not_depend_on_how_often_the_log_is_replayed() -> None:
    assert run_one(7, replay_every=1_000_000)[1] == run_one(7)[1]


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 11])
def test_a_trace_does_not_depend_on_the_hash_seed(seed: int) -> None:
    traces = {_trace_under(hash_seed, seed) for hash_seed in ("1", "2")}
    assert len(traces) == 1


def _trace_under(hash_seed: str, seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()[0]


def test_a_sweep_says_at_once_what_it_is_about_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def sweep(*_given: object, **_options: object) -> Total:
        told.append(capsys.readouterr().err)
        return Total()

    monkeypatch.setattr(command, "sweep", sweep)
    monkeypatch.setattr(sys, "argv", ["tests.simulation", "--slow", "--events", "5000", "--first", "7"])
    command.main()

    assert told == ["seeds for 5,000 events from 7 on, slow worlds, 2 workers; a line every 60 s\n"]

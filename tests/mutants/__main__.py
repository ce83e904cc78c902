"""Puts each deliberate bug into a copy of the tree and lets its check run there, two at a time:

python -m tests.mutants [NAME ...]     ends with a table; a bug that is not caught is a failure; 'cb4*' names several
python -m tests.mutants --markdown < docs/testing.md
python -m tests.mutants --rules > docs/rules.md

Before that, each check runs once without a bug: one that fails then would prove nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.enumerations import VARIABLE
from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import Verdict
from tests.mutants.mutant import Check, Edit, Mutant, Worlds
from tests.mutants.scenario import ROOT
from tests.mutants.table import printed, rules

COPIED = (
    "bench",
    "coordinator",
    "membership",
    "muster",
    "partition_log",
    "protocol",
    "purgatory",
    "pyspark_muster",
    "tests",
)
LIMIT_S = 180
AT_A_TIME = 2


class Tried(NamedTuple):
    """`problem` says why it does not count as caught."""

    verdict: Verdict
    seconds: float
    problem: str


def copied(folder: Path) -> Path:
    """A tree to make mutants of: what is compiled there is compiled for all of them."""
    root = folder / "sound"
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def attempt(sound: Path, edits: Iterable[Edit], check: Check) -> tuple[Verdict, float]:
    """Run the check in a copy of the tree that has these bugs."""
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=sound.parent) as folder:
        root = Path(folder) / "tree"
        shutil.copytree(sound, root, copy_function=os.link)
        for edit in edits:
            text = edit.apply(root)
            (root / edit.file).unlink()  # it is a link to the sound one
            (root / edit.file).write_text(text)
        began = time.monotonic()
        verdict = _judge(root, check.words)
        return verdict, time.monotonic() - began


def _judge(root: Path, words: Iterable[str], limit_s: int = LIMIT_S) -> Verdict:
    command = [sys.executable, "-m", "tests.mutants.judge", *words]
    whole = {**os.environ, VARIABLE: "all"}
    try:
        ran = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, timeout=limit_s, env=whole)
    except subprocess.TimeoutExpired:
        return Verdict(passed=False, reason=f"it took longer than {limit_s} s")
    last = ran.stdout.rpartition("\n{")[2]
    try:
        return msgspec.json.decode("{" + last, type=Verdict)
    except msgspec.MsgspecError:
        return Verdict(passed=False, reason=(ran.stderr.strip().splitlines() or ["it said nothing"])[-1])


def _useless(sound: Path, words: Sequence[str]) -> str:
    """Return why these checks are useless, if they are: they must pass without a bug."""
    verdict = _judge(sound, words, limit_s=10 * LIMIT_S)
    return "" if verdict.passed else f"{words[0]} fails without a bug: {verdict.reason}"


def _checks(mutants: Sequence[Mutant]) -> list[tuple[str, ...]]:
    """All of them, once each: what is slow by itself, tests together."""
    checks = dict.fromkeys(one.check for one in mutants)
    nodes = dict.fromkeys(check.words[1] for check in checks if not isinstance(check, Worlds))
    tests = [("test", *list(nodes)[turn::AT_A_TIME]) for turn in range(AT_A_TIME)]
    return [*(check.words for check in checks if isinstance(check, Worlds)), *(one for one in tests if one[1:])]


def tried(sound: Path, mutant: Mutant) -> Tried:
    try:
        verdict, seconds = attempt(sound, mutant.edits, mutant.check)
    except ValueError as misfit:  # somebody has changed that code
        return Tried(Verdict(passed=True), 0.0, str(misfit))
    problem = "" if verdict.is_telling else "it survives" if verdict.passed else f"an accident: {verdict.reason}"
    print(f"{mutant.name}: {problem or verdict.reason}", file=sys.stderr, flush=True)
    return Tried(verdict, seconds, problem)


def run(mutants: Sequence[Mutant]) -> int:
    """Run the checks against the mutants, and return the number of bugs not caught."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(AT_A_TIME) as pool:
        sound = copied(Path(folder).resolve())
        useless = [problem for problem in pool.map(partial(_useless, sound), _checks(mutants)) if problem]
        if useless:
            print("\n".join(useless), file=sys.stderr)
            return len(useless)
        results = list(pool.map(partial(tried, sound), mutants))
    survivors = 0
    for mutant, result in zip(mutants, results, strict=True):
        survivors += bool(result.problem)
        caught = result.problem or mutant.check.told
        print(f"{mutant.name:<44} {mutant.origin:<24} {result.seconds:6.1f} s  {caught}")
    print(f"{len(mutants)} bugs, {survivors} not caught, {time.monotonic() - began:,.0f} s")
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(description="Deliberate bugs, each of which a check must find.")
    parser.add_argument("names", nargs="*", help="these alone")
    parser.add_argument("--markdown", action="store_true", help="the page on stdin, with the table of today")
    parser.add_argument("--rules", action="store_true", help="the page of the rules that scenarios show")
    options = parser.parse_args()
    if options.markdown:
        sys.stdout.write(printed(sys.stdin.read()))
        return 0
    if options.rules:
        sys.stdout.write(rules())
        return 0
    for name in options.names:
        if not any(fnmatch(mutant.name, name) for mutant in MUTANTS):
            parser.error(f"there is no {name}")
    wanted = options.names or ["*"]
    return 1 if run([one for one in MUTANTS if any(fnmatch(one.name, name) for name in wanted)]) else 0


if __name__ == "__main__":
    sys.exit(main())

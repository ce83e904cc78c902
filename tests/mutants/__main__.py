"""Puts each deliberate bug into a copy of the tree and lets its check run there, two at a time:

python -m tests.mutants [NAME ...]     ends with a table; a bug that is not caught is a failure
python -m tests.mutants --markdown < docs/testing.md

Before that, each check runs once without a bug: one that fails then would prove nothing.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import Verdict
from tests.mutants.mutant import ROOT, Check, Edit, Mutant
from tests.mutants.table import printed

COPIED = ("coordinator", "muster", "partition_log", "protocol", "purgatory", "tests")
LIMIT_S = 180
AT_A_TIME = 2


class Tried(NamedTuple):
    """`problem` says why it does not count as caught."""

    verdict: Verdict
    seconds: float
    problem: str


def attempt(edits: Iterable[Edit], check: Check) -> tuple[Verdict, float]:
    """Run the check in a copy of the tree that has these bugs."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        root = Path(folder).resolve()
        for name in COPIED:
            shutil.copytree(ROOT / name, root / name)
        shutil.copy(ROOT / "pyproject.toml", root)
        for edit in edits:
            (root / edit.file).write_text(edit.apply(root))
        began = time.monotonic()
        verdict = _judge(root, check)
        return verdict, time.monotonic() - began


def _judge(root: Path, check: Check) -> Verdict:
    command = [sys.executable, "-m", "tests.mutants.judge", *check.words]
    try:
        ran = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return Verdict(passed=False, reason=f"it took longer than {LIMIT_S} s")
    last = ran.stdout.rpartition("\n{")[2]
    try:
        return msgspec.json.decode("{" + last, type=Verdict)
    except msgspec.MsgspecError:
        return Verdict(passed=False, reason=(ran.stderr.strip().splitlines() or ["it said nothing"])[-1])


def sound(check: Check) -> str:
    """Why the check is of no use, if it is not: it must pass where there is no bug."""
    verdict, _seconds = attempt((), check)
    return "" if verdict.passed else f"{check.told} fails without a bug: {verdict.reason}"


def tried(mutant: Mutant) -> Tried:
    verdict, seconds = attempt(mutant.edits, mutant.check)
    problem = "" if verdict.is_telling else "it survives" if verdict.passed else f"an accident: {verdict.reason}"
    print(f"{mutant.name}: {problem or verdict.reason}", file=sys.stderr, flush=True)
    return Tried(verdict, seconds, problem)


def run(mutants: Sequence[Mutant]) -> int:
    """How many bugs were not caught."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        useless = [problem for problem in pool.map(sound, dict.fromkeys(one.check for one in mutants)) if problem]
        if useless:
            print("\n".join(useless), file=sys.stderr)
            return len(useless)
        results = list(pool.map(tried, mutants))
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
    options = parser.parse_args()
    if options.markdown:
        sys.stdout.write(printed(sys.stdin.read()))
        return 0
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no {unknown[0]}")
    return 1 if run([known[name] for name in options.names] or MUTANTS) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Lint and tests in one run: mypy and tests without processes compute beside tests with processes, which mostly wait.

python -m tests.suite [--quick] [--all] [--compiled] [options of pytest, such as -k NAME]

`--compiled` is a run of its own, of the tests that run what is compiled, and of nothing else.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import hatch_build
from tests import builds
from tests.enumerations import VARIABLE

BIN = Path(sys.executable).parent
CORES = max(2, os.cpu_count() or 2)
LINT = {
    "ruff": [str(BIN / "ruff"), "check", "."],
    "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
    "import contracts": [str(BIN / "lint-imports"), "--no-logo"],
}
NICE = ["nice", "-n", "19"]
"""Runs what has no deadlines in the time that tests with processes leave."""
MYPY = [*NICE, str(BIN / "mypy")]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--dist", "loadgroup"]
UNITS = [*PYTEST, "-n", str(CORES + 1), "--ignore", "tests/edges"]
"""One worker more than processors, since tests of HTTP wait for the ends of connections."""
LEFT_OUT = ("interop", "simulation", "spark")
"""Folders, besides the edges, that a quick run leaves out."""
EDGES_CACHE = ".pytest_cache/edges"
"""Folder where pytest notes which of the edges failed: one of their own, since other tests run beside them."""
EDGES = [
    *PYTEST,
    "--no-loadscope-reorder",  # conftest.py has the order
    "tests/edges",
    "-n",
    str(2 * CORES),
    "--cache-clear",
    "-o",
    f"cache_dir={EDGES_CACHE}",
]
SHORT = ["-m", "not long"]
"""Clusters of Spark and brokers of Apache Kafka, which need processors, are long; the other edges mostly wait."""
MOST_AGAIN = 5
"""Largest number of failures that can be those of a machine that had no time for a process."""
FOLDERS = [
    "cluster_node",
    "groups",
    "node",
    "partition_log",
    "protocol",
    "simulation",
    "http",
    "topics",
    "transcripts",
    "upstream",
]
COMPILED = [
    *(f"tests/{folder}" for folder in FOLDERS),
    *(f"tests/architecture/test_{name}.py" for name in ("compiled", "wheel")),
    *(f"tests/edges/test_{name}.py" for name in ("crash", "daemon", "server")),
]
"""Tests of the compiled modules."""
ROOT = Path(__file__).parents[1]
LAST_FAILED = ROOT / EDGES_CACHE / "v/cache/lastfailed"
NOTHING_CHOSEN = int(pytest.ExitCode.NO_TESTS_COLLECTED)


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if nothing failed."""
    options = [one for one in arguments if one not in {"--quick", "--all", "--compiled"}]
    if "--compiled" in arguments:
        return compiled(options)
    if "--all" in arguments:
        os.environ[VARIABLE] = "all"
    is_whole = "--all" in arguments or bool(options)
    chosen = options if is_whole else SHORT
    if any(ran(name, command) for name, command in LINT.items()):
        return 1
    if "--quick" in arguments:
        os.environ[VARIABLE] = "tenth"
        return ran("quick tests", [*UNITS, *(f"--ignore=tests/{folder}" for folder in LEFT_OUT), *chosen])
    with beside("mypy", MYPY) as mypy, beside("tests", [*NICE, *UNITS, *chosen]) as units:
        if is_whole:
            units.wait()  # clusters of Spark need all processors
        edges_code = ran("tests/edges", [*EDGES, *chosen])
        codes = [units.ended(), edges_code]
        mypy_code = mypy.ended()
    if edges_code == pytest.ExitCode.TESTS_FAILED:
        codes[1] = failed_again()
    tested = [code for code in codes if code != NOTHING_CHOSEN]
    return 1 if mypy_code or any(tested) or not tested else 0


def failed_again() -> int:
    """Run the failed tests of `tests/edges` once more, one after the other, with nothing beside them; return the exit
    code. Their processes have deadlines, which a busy machine may miss. A test that passes here is named all the same,
    since it has a deadline or a race to be mended."""
    failed = [without_group(name) for name in json.loads(LAST_FAILED.read_text())]
    if len(failed) > MOST_AGAIN:
        return int(pytest.ExitCode.TESTS_FAILED)
    code = ran("tests/edges that failed, alone", [*PYTEST, "-n", "0", *failed])
    if code == pytest.ExitCode.OK:
        print("== UNSTEADY, passed only alone: " + ", ".join(failed), flush=True)
    return code


def without_group(name: str) -> str:
    """Return a test's name without the group that `--dist loadgroup` adds to it."""
    return re.sub(r"@[^\]:]+$", "", name)


def compiled(options: Sequence[str]) -> int:
    """Compile the hot path in place, test it and remove it. A checkout stays pure."""
    if why := hatch_build.impossible():
        print(f"== tests of the compiled hot path: left out, since {why}", flush=True)
        return 0
    was_pure = not hatch_build.libraries(ROOT)
    try:
        if code := ran("mypyc", [sys.executable, "hatch_build.py", "compile"]):
            return code
        os.environ[builds.VARIABLE] = "1"
        return ran("tests of the compiled hot path", [*PYTEST, "-n", str(CORES), *COMPILED, *options])
    finally:
        if was_pure:
            hatch_build.remove(ROOT)


class Part:
    """A process, and how long it has taken so far. `output`: where it prints; None: where this process does."""

    def __init__(self, name: str, command: Sequence[str], output: IO[bytes] | None = None) -> None:
        self.name = name
        self._process = subprocess.Popen(command, stdout=output, stderr=output)
        self._output = output
        self._began = time.monotonic()
        self._end: tuple[int, float, float] | None = None

    def ended(self) -> int:
        """Wait for the end, print what the process has printed elsewhere, and return the exit code."""
        code, seconds, computed_s = self._end or self.wait()
        if self._output is not None:
            self._output.seek(0)
            print(self._output.read().decode(errors="replace"), end="")
        ending = "" if code in {0, NOTHING_CHOSEN} else f", exit code {code}"
        print(f"== {self.name}: {seconds:.0f} s, {computed_s:.0f} of CPU{ending}", flush=True)
        return code

    def wait(self) -> tuple[int, float, float]:
        """Wait for the end. Return the exit code, how long the process took, and its CPU time with that of those it
        has waited for, in seconds."""
        try:
            _, status, used = os.wait4(self._process.pid, 0)
        except KeyboardInterrupt:  # it got the signal too, and has daemons to stop
            os.wait4(self._process.pid, 0)
            raise
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._end = self._process.returncode, time.monotonic() - self._began, used.ru_utime + used.ru_stime
        return self._end

    def kill(self) -> None:
        """Kill the process if it has not ended."""
        self._process.kill()


@contextmanager
def beside(name: str, command: Sequence[str]) -> Iterator[Part]:
    """Run the command beside what follows, which is spared its output."""
    with tempfile.TemporaryFile() as output:
        part = Part(name, command, output)
        try:
            yield part
        finally:
            part.kill()


def ran(name: str, command: Sequence[str]) -> int:
    return Part(name, command).ended()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

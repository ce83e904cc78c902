"""Runs one check in the tree it stands in and says what came of it, as the last line it prints:

python -m tests.mutants.judge worlds FIRST COUNT
python -m tests.mutants.judge beside FIRST COUNT
python -m tests.mutants.judge test NODE ...

A bug is caught if an assertion or a checker says so, or the log's own reading that it is damaged; so does a test that
takes apart what should be so many things and is not. An import that fails, a name that is not there or a time limit is
an accident: it shows nothing of the check.
"""

import sys
from pathlib import Path

import msgspec
import pytest

import coordinator
from coordinator.records.records import LogCorrupt
from partition_log.errors import LogDamaged
from tests.simulation.errors import Broken

_TELLING = (AssertionError, Broken, LogCorrupt, LogDamaged, pytest.fail.Exception)
_TIMED_OUT = "Timeout"
_NOT_SO_MANY = ("not enough values to unpack", "too many values to unpack")


class Verdict(msgspec.Struct, frozen=True):
    """`is_telling`: it failed for a reason that a check is for."""

    passed: bool
    is_telling: bool = False
    reason: str = ""


def verdict_of(error: BaseException) -> Verdict:
    """Return the verdict on a failed check: if the error tells of a bug."""
    lines = str(error).strip().splitlines() or [""]
    is_telling = (isinstance(error, _TELLING) and not lines[0].startswith(_TIMED_OUT)) or _is_miscount(error)
    return Verdict(passed=False, is_telling=is_telling, reason=f"{type(error).__name__}: {lines[0]}"[:300])


def _is_miscount(error: BaseException) -> bool:
    """`(one,) = them` in a test, and nowhere beneath."""
    if not isinstance(error, ValueError) or not str(error).startswith(_NOT_SO_MANY):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and Path(trace.tb_frame.f_code.co_filename).name.startswith("test_")


def worlds(first: int, count: int) -> Verdict:
    """Until one of them breaks."""
    from tests.simulation.world import World  # half a second, which tests need not wait for

    for seed in range(first, first + count):
        try:
            World(seed).run()
        except Broken as broken:
            cause = broken.__cause__ or broken
            return msgspec.structs.replace(verdict_of(cause), reason=str(broken)[:300])
    return Verdict(passed=True)


class _Listener:
    """Keeps the first error of a test."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.name = ""

    @pytest.hookimpl
    def pytest_exception_interact(self, node: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if self.error is None and call.excinfo is not None:
            self.error, self.name = call.excinfo.value, node.name


def test(*nodes: str) -> Verdict:
    """Until the first failure. Hypothesis draws the same examples each time."""
    listener = _Listener()
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0", *nodes]
    code = pytest.main(options, plugins=[listener])
    if listener.error is not None:
        verdict = verdict_of(listener.error)
        return msgspec.structs.replace(verdict, reason=f"{listener.name}: {verdict.reason}")
    return Verdict(passed=code == pytest.ExitCode.OK, reason=f"pytest ended with {code!r}")


def main(words: list[str]) -> Verdict:
    assert Path(str(coordinator.__file__)).is_relative_to(Path.cwd()), "another tree than this one would be judged"
    if words[0] == "test":
        return test(*words[1:])
    return worlds(int(words[1]), int(words[2]))


if __name__ == "__main__":
    sys.stdout.write("\n" + msgspec.json.encode(main(sys.argv[1:])).decode() + "\n")

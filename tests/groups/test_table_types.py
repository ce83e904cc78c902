import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("mypy")  # one run of the checker serves them all
HEAD = """
from coordinator.groups.classic.actions import answer_sync, collect_sync, extend_session, leave, refuse_full
from coordinator.groups.classic.events import JoinAgain, JoinFirst, Leave, SessionOverdue, Sync
from coordinator.groups.classic.guards import has_room, is_current_generation, is_member
from coordinator.groups.classic.static import replace_static
from coordinator.groups.classic.rows import on, read_only_on
from coordinator.groups.table import reject, unless
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat

_ = no = reject(ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""
DEFAULTS = "empty=_, preparing=_, completing=_, stable=_, dead=_"
QUIET = "empty=no, preparing=extend_session, completing=extend_session, stable=extend_session, dead=no"


def row(event: str, guards: str = "", **cells: str) -> str:
    """A row of the table with a refusal in each cell but those given."""
    named = dict(cell.split("=") for cell in DEFAULTS.split(", ")) | cells
    return f"on({event})(guards=({guards}), {', '.join(f'{state}={cell}' for state, cell in named.items())})"


RIGHT = {
    "a row that is right": row(
        "Sync", "is_member, is_current_generation", completing="collect_sync", stable="answer_sync"
    ),
    "a guard with its own action": row("JoinFirst", "unless(has_room, refuse_full),"),
    "a read-only row": f"read_only_on(Heartbeat)(guards=(is_member,), {QUIET})",
}
WRONG = {
    "a missing cell": ("on(Sync)(empty=_, preparing=_, completing=_, stable=_)", "call-arg"),
    "a missing read-only cell": ("read_only_on(Heartbeat)(empty=no, preparing=extend_session)", "call-arg"),
    "a state there is none of": (row("Sync", gone="_"), "call-arg"),
    "an action of another event": (row("Sync", preparing="leave"), "arg-type"),
    "a read-only action in a row of the full path": (row("Sync", preparing="extend_session"), "arg-type"),
    "a refusal of what nobody asked": (row("SessionOverdue"), "arg-type"),
    "a guard of another event": (row("Leave", "is_member,"), "arg-type"),
    "a guard's action of another event": (row("JoinFirst", "unless(has_room, replace_static),"), "arg-type"),
    "something that is no action": (row("JoinAgain", preparing="None"), "arg-type"),
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, str], int]:
    """Error codes by row (the rows of RIGHT, then those of WRONG), of one run of the checker."""
    snippet = tmp_path_factory.mktemp("table") / "rows.py"
    rows = [*RIGHT.values(), *(row for row, _ in WRONG.values())]
    snippet.write_text(HEAD + "\n".join(rows) + "\n")
    first = HEAD.count("\n") + 1
    # A cache of its own, of files: mypy runs beside the tests, and a database that is locked is an error.
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "rows"), "--no-sqlite-cache"]
    options = ["--config-file", str(ROOT / "pyproject.toml"), *cache]
    recursion_limit = sys.getrecursionlimit()
    found, problems, _ = api.run([*options, "--no-error-summary", "--no-pretty", str(snippet)])
    sys.setrecursionlimit(recursion_limit)  # mypy raises it, and other tests of this process go by the usual one
    assert not problems, problems
    errors: dict[int, str] = {}
    for line in found.splitlines():
        place, _, text = line.partition(": error: ")
        if "rows.py" in place and text:
            errors[int(place.rsplit(":", 1)[1]) - first] = text.rsplit("[", 1)[1].rstrip("]")
    return errors, len(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_the_checker_lets_pass(reported: tuple[dict[int, str], int], name: str) -> None:
    assert list(RIGHT).index(name) not in reported[0]


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_reports_at_its_line(reported: tuple[dict[int, str], int], name: str) -> None:
    errors, offset = reported
    assert errors.get(offset + list(WRONG).index(name)) == WRONG[name][1]

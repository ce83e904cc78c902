from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("mypy")  # one run of the checker serves them all
HEAD = """
from coordinator.groups.classic import actions, static
from coordinator.groups.classic.events import JoinAgain, JoinFirst, Leave, SessionOverdue, Sync
from coordinator.groups.classic.guards import has_room, is_current_generation, is_member
from coordinator.groups.classic.table import on, quietly_on, refuse, say, unless
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat

_ = refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""
RIGHT = {
    "a row that is right": "on(Sync)(guards=(is_member, is_current_generation), empty=_, preparing=_, completing=actions.collect_sync, stable=actions.answer_sync, dead=_)",
    "a guard with its own action": "on(JoinFirst)(guards=(unless(has_room, actions.turn_away),), empty=_, preparing=_, completing=_, stable=_, dead=_)",
    "a quiet row": "quietly_on(Heartbeat)(guards=(is_member,), empty=say(ErrorCode.NONE), preparing=actions.heard, completing=actions.heard, stable=actions.heard, dead=say(ErrorCode.NONE))",
}
WRONG = {
    "a missing cell": ("on(Sync)(empty=_, preparing=_, completing=_, stable=_)", "call-arg"),
    "a missing quiet cell": ("quietly_on(Heartbeat)(empty=say(ErrorCode.NONE), preparing=actions.heard)", "call-arg"),
    "a state there is none of": ("on(Sync)(empty=_, preparing=_, completing=_, stable=_, dead=_, gone=_)", "call-arg"),
    "an action of another event": (
        "on(Sync)(empty=_, preparing=actions.leave, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
    "a quiet action in a row that is not": (
        "on(Sync)(empty=_, preparing=actions.heard, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
    "a refusal of what nobody asked": (
        "on(SessionOverdue)(empty=_, preparing=_, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
    "a guard of another event": (
        "on(Leave)(guards=(is_member,), empty=_, preparing=_, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
    "a guard's action of another event": (
        "on(JoinFirst)(guards=(unless(has_room, static.replace_static),), empty=_, preparing=_, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
    "something that is no action": (
        "on(JoinAgain)(empty=_, preparing=None, completing=_, stable=_, dead=_)",
        "arg-type",
    ),
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, str], int]:
    """Error codes by row (the rows of RIGHT, then those of WRONG), of one run of the checker."""
    snippet = tmp_path_factory.mktemp("table") / "rows.py"
    rows = [*RIGHT.values(), *(row for row, _ in WRONG.values())]
    snippet.write_text(HEAD + "\n".join(rows) + "\n")
    first = HEAD.count("\n") + 1
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    found, problems, _ = api.run([*options, "--no-error-summary", "--no-pretty", str(snippet)])
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

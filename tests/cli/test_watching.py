"""`--watch` of lists, groups and the doctor."""

import json
import os
from collections.abc import Callable

import msgspec
import pytest

from muster.cli.operating import watching
from muster.cli.showing import local_time
from tests.cli import fake_node
from tests.cli.conftest import Shell
from tests.cli.fake_node import NOW_MS, ORDERS, FakeNode
from tests.cli.test_doctor import GONE

INTERRUPTED = 130
Clock = Callable[..., list[float]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Between two answers something happens; after the last of it somebody presses Ctrl-C."""

    def happens(*events: Callable[[], object]) -> list[float]:
        waits: list[float] = []
        due = iter(events)

        def wait(every_s: float) -> None:
            waits.append(every_s)
            event = next(due, None)
            if event is None:
                raise KeyboardInterrupt
            event()

        monkeypatch.setattr(watching, "wait", wait)
        return waits

    return happens


def test_a_pipe_gets_a_block_with_its_time_each_time(shell: Shell, node: FakeNode, clock: Clock) -> None:
    waits = clock(node.groups.clear)

    blocks = shell.run("groups", "list", "--watch", code=INTERRUPTED).stdout.split("\n\n")

    assert waits == [watching.DEFAULT_S] * 2
    assert [block.splitlines()[1].split()[0] for block in blocks] == ["GROUP", "There"]
    assert all(block[:2] == "20" for block in blocks)


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (("describe", "--watch", "orders"), 2.0),
        (("describe", "orders", "--watch", "5", "--json"), 5.0),
        (("describe", "--watch", "0.5", "orders", "--csv"), 0.5),
        (("describe", "--watch=7", "orders", "--state"), 7.0),
        (("list", "--verbose", "--watch", "3"), 3.0),
        (("list", "--watch", "--csv"), 2.0),
        (("describe", "--watch", "9", "--", "orders"), 9.0),
    ],
)
def test_seconds_may_be_said_or_left_out(
    shell: Shell, clock: Clock, arguments: tuple[str, ...], seconds: float
) -> None:
    waits = clock()
    assert "orders" in shell.run("groups", *arguments, code=INTERRUPTED).stdout
    assert waits == [seconds]


def test_data_is_nothing_but_documents(shell: Shell, node: FakeNode, clock: Clock) -> None:
    clock(node.groups.clear)
    out = shell.run("groups", "list", "--json", "--watch", code=INTERRUPTED).stdout
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(out)
    second, _end = decoder.raw_decode(out[end:].lstrip())
    assert ([one["group_id"] for one in first], second) == (["orders"], [])


def test_the_doctor_says_since_when_it_has_seen_a_problem_of_unknown_beginning(
    shell: Shell, node: FakeNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.make_topic("flights", 1)
    node.groups["orders"] = msgspec.structs.replace(ORDERS, group_state="Empty", members=())
    node.begins, node.committed = {("flights", 0): 5}, {("flights", 0): 3}
    clock(lambda: monkeypatch.setattr(fake_node, "NOW_MS", NOW_MS + 7_000))

    first, second = shell.run("doctor", "--watch", code=INTERRUPTED).stdout.split("\n\n")

    assert "offsets_out_of_range" in first
    assert "since" not in first
    assert f"  seen since {local_time(NOW_MS)}, 7.0 s\n" in second


def test_the_doctor_goes_on_after_a_problem(shell: Shell, node: FakeNode, clock: Clock) -> None:
    def die() -> None:
        node.groups["orders"] = msgspec.structs.replace(ORDERS, members=(ORDERS.members[0], GONE))

    clock(die, lambda: node.groups.update(orders=ORDERS))
    said = shell.run("doctor", "--watch", code=INTERRUPTED).stdout.split("\n\n")
    assert [block.splitlines()[1] for block in said] == [
        "No problem in 1 group.",
        "orders: silent_member, app-2 at 10.0.0.2:40002",
        "No problem in 1 group.",
    ]


def test_a_node_that_goes_meanwhile_is_said_and_waited_for(shell: Shell, node: FakeNode, clock: Clock) -> None:
    clock(lambda: setattr(node, "reachable", False), lambda: setattr(node, "reachable", True))

    result = shell.run("groups", "describe", "orders", "--state", "--watch", "--json", code=INTERRUPTED)

    assert result.stdout.count('"group_id": "orders"') == 2
    told = json.loads(result.stderr)["error"]
    assert (told["code"], told["group"]) == ("NOT_REACHED", "orders")


def test_a_group_that_is_not_there_at_first_ends_it(shell: Shell, node: FakeNode, clock: Clock) -> None:
    waits = clock()
    assert "there is no group 'nobody'" in shell.complaint("groups", "describe", "nobody", "--watch", code=3)
    assert "there is no group 'nobody'" in shell.complaint("doctor", "nobody", "--watch", code=3)
    node.reachable = False
    assert "cannot connect" in shell.complaint("doctor", "--watch", code=5)
    assert waits == []


@pytest.mark.parametrize("seconds", ["0", "0.01", "nan", "inf", "1e9", "-1"])
def test_times_that_cannot_be_waited_are_misuse(shell: Shell, seconds: str) -> None:
    assert "seconds" in shell.complaint("groups", "list", f"--watch={seconds}", code=2)


def test_a_terminal_is_drawn_anew_and_cut_to_its_height(
    shell: Shell, node: FakeNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.groups |= {f"g{number}": msgspec.structs.replace(ORDERS, group_id=f"g{number}") for number in range(30)}
    monkeypatch.setattr(watching, "screen", lambda: os.terminal_size((100, 12)))
    clock(node.groups.clear)

    first, second = shell.run("groups", "list", "--watch", code=INTERRUPTED).stdout.split("\x1b[H\x1b[2J")[1:]

    lines = first.splitlines()
    assert lines[0].startswith("Every 2 s, until Ctrl-C. 20")
    assert len(lines) == 12 - 2
    assert lines[-1] == "... 25 more lines: without --watch, or in a pipe, they are shown"
    assert "There are no groups." in second


def test_a_long_line_takes_several_rows_of_a_terminal() -> None:
    size = os.terminal_size((10, 7))
    assert watching._fitted("x\n" * 5, size) == "x\n" * 5
    assert watching._fitted("x\n" * 6, size).splitlines()[:-1] == ["x"] * 4
    assert watching._fitted("x" * 21 + "\ny\nz\n", size) == "x" * 21 + "\ny\nz\n"
    assert watching._fitted("x" * 31 + "\ny\nz\n", size).splitlines()[0] == "x" * 31
    assert watching._fitted("\x1b[1mxxxxxxxxxx\x1b[0m\n" * 5, size).count("x" * 10) == 5

"""`muster groups hold` and `release`."""

from typing import Any

import msgspec
import pytest

from diagnosis import people
from muster.cli.failures import ExitCode
from protocol.messages.groups import HoldGroup
from tests.cli.conftest import Shell
from tests.cli.fake_node import ORDERS, FakeNode


def test_a_group_is_held_and_released(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = ORDERS
    held = shell.lines("groups", "hold", "orders", "--for", "90s", "--until-members", "6")
    assert held == ["Holding orders for 90 s, or until 6 members have joined."]
    assert shell.lines("groups", "hold", "orders", "--for", "3m") == ["Holding orders for 3 min."]
    assert shell.json("groups", "hold", "orders", "--for", "5s") == {"group_id": "orders", "hold_left_ms": 5_000}
    assert shell.lines("groups", "release", "orders") == ["Released orders: nothing holds it now."]
    assert node.holds == [
        HoldGroup("orders", 90_000, 6),
        HoldGroup("orders", 180_000),
        HoldGroup("orders", 5_000),
        HoldGroup("orders", 0),
    ]


@pytest.mark.parametrize("time", ["90", "1h", "-5s", "5 s", "\u0665s"])
def test_a_time_that_is_none_is_misuse(shell: Shell, node: FakeNode, time: str) -> None:
    assert "is no time: say 90s or 3m" in shell.complaint("groups", "hold", "orders", f"--for={time}", code=2)
    assert node.holds == []


@pytest.mark.parametrize("time", ["0s", "301s", "6m"])
def test_a_time_that_no_hold_lasts_is_misuse(shell: Shell, node: FakeNode, time: str) -> None:
    assert "lasts 5 minutes at most" in shell.complaint("groups", "hold", "orders", f"--for={time}", code=2)
    assert node.holds == []


def test_one_member_is_no_members(shell: Shell, node: FakeNode) -> None:
    held = shell.lines("groups", "hold", "orders", "--for", "90s", "--until-members", "1")
    assert held == ["Holding orders for 90 s, or until 1 member has joined."]


def test_a_refused_hold_ends_as_other_refusals_do(shell: Shell, node: FakeNode) -> None:
    assert "there is no group 'nobody'" in shell.complaint("groups", "hold", "nobody", "--for", "9s", code=3)
    node.groups["orders"], node.may_alter = ORDERS, False
    complaint = shell.complaint("groups", "hold", "orders", "--for", "9s", code=ExitCode.REFUSED)
    assert "GROUP_AUTHORIZATION_FAILED" in complaint


HELD: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"hold_left_ms": 78_000}, "78 s more"),
    (
        {"hold_left_ms": 78_000, "hold_until_members": 6, "hold_joined": 4},
        "78 s more, or until 6 members have come; 4 have",
    ),
    (
        {"hold_left_ms": 78_000, "hold_until_members": 1, "hold_joined": 1},
        "78 s more, or until 1 member has come; 1 has",
    ),
]


@pytest.mark.parametrize(("fields", "said"), HELD)
def test_a_hold_is_described(shell: Shell, node: FakeNode, fields: dict[str, Any], said: str | None) -> None:
    node.groups["orders"] = group = msgspec.structs.replace(ORDERS, **fields)
    assert people.hold(group) == said
    lines = [line.split(maxsplit=1) for line in shell.lines("groups", "describe", "orders")]
    assert [line[1] for line in lines if line[:1] == ["Held"]] == ([] if said is None else [said])
    assert shell.json("groups", "describe", "orders")["hold_left_ms"] == fields.get("hold_left_ms")

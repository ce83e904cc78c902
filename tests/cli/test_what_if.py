"""`muster groups what-if`."""

import pytest

from protocol.messages.groups import DescribedGroup
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode
from tests.client.test_outlook import group


@pytest.fixture(autouse=True)
def running(node: FakeNode) -> None:
    node.make_topic("orders", 6)
    node.groups["g"] = group("range", {"a": "012", "b": "345"})
    node.groups["empty"] = DescribedGroup("empty", group_state="Empty", protocol_type="consumer")


def test_the_next_assignment_and_what_moves_are_shown(shell: Shell) -> None:
    lines = shell.lines("groups", "what-if", "g", "--members", "+1")
    assert [line.split() for line in lines[:4]] == [
        ["MEMBER", "NOW", "THEN"],
        ["a", "orders", "0-2", "orders", "0-1"],
        ["b", "orders", "3-5", "orders", "2-3"],
        ["new-1", "-", "orders", "4-5"],
    ]
    assert lines[-4:] == [
        "3 of 6 partitions would move, by range:",
        "orders-2: a -> b",
        "orders-4: b -> new-1",
        "orders-5: b -> new-1",
    ]
    assert shell.lines("groups", "what-if", "g")[-1] == "0 of 6 partitions would move, by range."


def test_a_topic_grows_and_another_assignor_is_tried(shell: Shell) -> None:
    shown = shell.json("groups", "what-if", "g", "--partitions", "orders=8", "--assignor", "roundrobin")
    assert (shown["assignor"], len(shown["moved"])) == ("roundrobin", 4)
    assert [one["partition"] for one in shown["members"][1]["next_partitions"]] == [1, 3, 5, 7]


def test_what_cannot_be_foreseen_is_said(shell: Shell) -> None:
    assert "has no members" in shell.complaint("groups", "what-if", "empty", code=1)
    assert "there is no group" in shell.complaint("groups", "what-if", "nobody", code=3)
    assert "never fewer" in shell.complaint("groups", "what-if", "g", "--partitions", "orders=2", code=1)
    assert "is not TOPIC=PARTITIONS" in shell.complaint("groups", "what-if", "g", "--partitions", "orders", code=2)
    assert "some" in shell.complaint("groups", "what-if", "g", "--members", "some", code=2)

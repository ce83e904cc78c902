"""Lists of all nodes, where several share the groups of a cluster."""

import msgspec
import pytest

from membership.events import NodeAddress
from protocol.errors import ErrorCode
from protocol.messages.groups import AuditedNote, DescribedGroup, RefusedRequest
from tests.cli.conftest import Shell
from tests.cli.fake_node import NOW_MS, FakeNode
from tests.cli.test_audit import NOTE


@pytest.fixture
def other(node: FakeNode) -> FakeNode:
    """A second node, which has the group `billing`."""
    other = FakeNode()
    other.groups = {"billing": DescribedGroup("billing", group_state="Empty")}
    node.others[NodeAddress("i", 9, 2)] = other
    return other


def test_groups_of_all_nodes_are_listed_once(shell: Shell, node: FakeNode, other: FakeNode) -> None:
    other.groups["orders"] = node.groups["orders"]  # it is moving
    listed = shell.run("groups", "list", "--json")
    assert [one["group_id"] for one in msgspec.json.decode(listed.stdout)] == ["billing", "orders"]
    assert listed.stderr == ""


def test_groups_of_all_of_kafkas_nodes_are_listed_once(shell: Shell, node: FakeNode) -> None:
    listed = shell.json("--bootstrap", "kafka://h:9", "groups", "list")
    assert [one["group_id"] for one in listed] == ["orders"]


def test_a_node_that_does_not_answer_is_told_of(shell: Shell, node: FakeNode, other: FakeNode) -> None:
    other.reachable = False
    listed = shell.run("groups", "list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["GROUP", "orders"]
    assert listed.stderr.startswith(
        "muster: the groups of i:9 are left out: cannot connect to i:9: Connection refused."
    )
    assert listed.stderr.count("\n") == 1


def test_a_node_that_refuses_is_told_of(
    shell: Shell, node: FakeNode, other: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = msgspec.structs.replace(other.ListGroups(None), error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # type: ignore[arg-type]
    monkeypatch.setattr(other, "ListGroups", lambda _message: loading)
    assert "i:9 are left out: ListGroups was refused: COORDINATOR_LOAD" in shell.run("groups", "list").stderr


def test_shards_that_no_node_serves_are_told_of(shell: Shell, node: FakeNode, other: FakeNode) -> None:
    node.gauges = other.gauges = {"unowned_shards": 3}
    assert shell.run("groups", "list").stderr == (
        "muster: the groups of 3 shards are left out: no node serves them now\n"
    )


def test_acts_on_groups_of_all_nodes_are_shown_by_time(shell: Shell, node: FakeNode, other: FakeNode) -> None:
    node.audited = (AuditedNote("orders", NOTE),)
    earlier = msgspec.structs.replace(NOTE, wall_ms=NOTE.wall_ms - 1)
    other.audited = (AuditedNote("billing", earlier), AuditedNote("orders", NOTE))
    assert [one["id"] for one in shell.json("audit")] == ["billing:7", "orders:7"]


def test_the_doctor_hears_of_refusals_at_all_nodes(shell: Shell, node: FakeNode, other: FakeNode) -> None:
    code = ErrorCode.INVALID_SESSION_TIMEOUT
    other.refusals = (RefusedRequest("new", "JoinGroup", code, "app", "/10.0.0.3", 5, detail="", wall_ms=NOW_MS),)
    assert shell.lines("doctor", code=6)[0] == "new: join_refused, app at 10.0.0.3:5"

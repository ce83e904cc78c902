"""`muster groups` and client-balanced groups, over a node that has one."""

import msgspec
import pytest

from muster.cli.balanced import missing_nodes, warnings
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply, OwnedKey
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode
from tests.groups.balanced.group_rig import GroupRig


@pytest.fixture
def rig(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> GroupRig:
    """Node 1 of 3 is missing."""
    made = GroupRig(3)
    for number in (0, 2):
        client = made.started(f"app-{number}", source_count=3, node_id=number, consume_position="first")
        client.register(number)
        client.confirm(number, 0)
    made.produce(2, 7)

    def answer(message: Message) -> Message:
        reply = made.node_rig.ask_inside(message, call=12)
        assert reply is not None
        return reply

    monkeypatch.setattr(node, "answer", answer)
    return made


def test_members_are_shown_by_number_and_a_missing_one_is_warned_of(shell: Shell, rig: GroupRig) -> None:
    rig.node_rig.wait(3_000)
    lines = shell.lines("groups", "describe", "g")
    assert "Mode          client-balanced, its members choose what they read" in lines
    assert "Source count  3 nodes" in lines
    rows = [line.split() for line in lines]
    assert ["0", "app-0", "-", "10.0.0.1", "3", "s", "ago", "1"] in rows
    assert ["1:demo:1", "-", "-", "-", "-", "0", "0"] in rows
    assert ["1:demo:2", "2", "app-2", "1", "0", "7", "7"] in rows
    assert lines[-1] == (
        "WARNING: node 1 of 3 is missing, and nobody reads that share: 1 of 3 partitions are nobody's, 0 records"
    )
    assert "Total lag     7" in lines
    assert [row[0] for row in rows if row and row[0] in ("0", "2")] == ["0", "2"]


def test_scripts_get_all_of_it(shell: Shell, rig: GroupRig) -> None:
    told = shell.json("groups", "describe", "g")
    assert (told["mode"], told["missing_nodes"], told["total_lag"]) == ("client-balanced", [1], 7)
    assert [one["owner"] for one in told["partitions"]] == ["app-0", None, "app-2"]
    assert [one["group_id"] for one in shell.json("groups", "list") if one["type"] == "client-balanced"] == ["g"]


def test_who_claims_what_it_does_not_own_is_warned_of(rig: GroupRig) -> None:
    client = rig.member("app-0")
    client.epoch, client.meta_version = 1, 1
    client.beat(owned=(OwnedKey("1:demo:2", 1),), owned_version=1)
    view = rig.view()
    assert missing_nodes(view) == [1]
    assert warnings(view)[-1] == "app-0 says that it reads 1:demo:2, which it does not own"
    both = msgspec.structs.replace(view, source_count=4)
    assert warnings(both)[0].startswith("nodes 1, 3 are missing, and nobody reads that share: 1 of 3")
    off = msgspec.structs.replace(view, source_count=None)
    assert warnings(off)[0] == "1 of 3 partitions are nobody's, 0 records"
    unknown = tuple(msgspec.structs.replace(one, lag=None) for one in off.partitions)
    without = msgspec.structs.replace(off, partitions=unknown)
    assert warnings(without)[0] == "1 of 3 partitions are nobody's, 0 records (not counted: 1 without an end)"


def test_groups_that_are_told_to_go_to_the_end_and_those_that_cannot(shell: Shell, rig: GroupRig) -> None:
    assert shell.lines("groups", "consume-from-max", "g") == ["Members of g go to the end with their next heartbeats."]
    assert shell.json("groups", "consume-from-max", "g") == [{"group_id": "g", "from_max_id": 2, "error": None}]
    client = rig.started("gone", group_id="left")
    client.leave()
    assert shell.complaint("groups", "consume-from-max", "left", "nobody", code=4) == (
        "muster: no member of group 'left' is online; there is no group 'nobody': see `muster groups list`\n"
    )


def test_a_group_whose_shard_is_not_served_is_told_of(
    shell: Shell, rig: GroupRig, monkeypatch: pytest.MonkeyPatch, node: FakeNode
) -> None:
    asked = node.answer

    def refuse(message: Message) -> Message:
        reply = asked(message)
        if isinstance(message, DescribeBalanced):
            assert isinstance(reply, DescribeBalancedReply)
            view = msgspec.structs.replace(reply.groups[0], error_code=ErrorCode.NOT_COORDINATOR)
            return DescribeBalancedReply((view,))
        return reply

    monkeypatch.setattr(node, "answer", refuse)
    assert "the shard of group 'g' is not served" in shell.complaint("groups", "describe", "g")


def test_explain_tells_who_came(shell: Shell, rig: GroupRig) -> None:
    lines = shell.lines("explain", "g")
    assert lines[1].endswith("Member: member joined, (unnamed) at 10.0.0.1, node 0 of 3. By app-0.")

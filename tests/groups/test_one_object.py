"""One object a group id, of one kind at a time (docs/spec/client-balanced-groups.md#12)."""

from collections import Counter
from typing import Any

import pytest

from coordinator.groups.classic import table as classic_table
from coordinator.groups.client_balanced import table as balanced_table
from coordinator.groups.table import Path
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, LeaveGroup, LeavingMember
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig
from tests.groups.checks import check_kinds


class Closed(dict[str, Any]):
    """A dictionary in which single entries are looked up, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all groups are looked at")

    __iter__ = keys = values = items = _refuse


def group_of(rig: GroupRig) -> Group:
    group = rig.node_rig.node.core.directory["g"]
    assert group.shard.groups["g"] is group, "the node and the shard have one object"
    check_kinds(group, rig.node_rig.node.core.purgatory)
    return group


def test_a_change_of_mode_is_a_change_of_the_kind_of_one_object() -> None:
    rig = GroupRig(group_initial_rebalance_delay_ms=0)
    joined = rig.node_rig.ask_inside(
        JoinGroup(
            "g",
            SESSION_MS,
            protocol_type="consumer",
            protocols=(JoinProtocol("range", b"\0\0\0\0\0\0"),),
            wants_member_id_first=False,
        )
    )
    assert isinstance(joined, JoinGroupReply) and not joined.error_code
    group = group_of(rig)
    assert (group.kind, group.is_empty, group.balanced) == (GroupKind.CLASSIC, False, None)
    assert rig.member("a").start().error_code is ErrorCode.INCONSISTENT_MODE
    rig.node_rig.ask_inside(LeaveGroup("g", (LeavingMember(joined.member_id),)))
    assert group_of(rig).is_empty
    client = rig.started("a")
    balanced = group_of(rig)
    assert (balanced.kind, balanced.is_empty) == (GroupKind.CLIENT_BALANCED, False)
    client.leave()
    left = group_of(rig)
    assert (left.kind, left.is_empty) == (GroupKind.CLASSIC, True)
    assert left.balanced is not None, "epochs stay on record"
    assert group is balanced and balanced is left


@pytest.mark.parametrize("stops", [True, False])
def test_a_restart_finds_the_kind_on_record(stops: bool) -> None:
    rig = GroupRig()
    client = rig.started("a")
    client.register(0)
    rig.stop() if stops else rig.restart()
    group = group_of(rig)
    assert group.kind is GroupKind.CLIENT_BALANCED
    assert group.balanced is not None and list(group.balanced.members) == ["a"]
    rig.node_rig.wait(2 * SESSION_MS)
    assert group_of(rig) is group and group.is_empty
    rig.stop() if stops else rig.restart()
    assert group_of(rig).is_empty


def test_an_event_is_of_one_kind_of_group() -> None:
    tables = (classic_table.TABLE, balanced_table.TABLE)
    events = Counter(row.event for table in tables for row in table.on(Path.FULL))
    assert set(events.values()) == {1}


def test_a_list_of_client_balanced_groups_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = GroupRig()
    rig.started("a")
    rig.started("b", group_id="h")
    for shard in rig.node_rig.node.core.shards:
        monkeypatch.setattr(shard, "groups", Closed(shard.groups))
    reply = rig.node_rig.ask_inside(DescribeBalanced(None))
    assert isinstance(reply, DescribeBalancedReply)
    assert [view.group_id for view in reply.groups] == ["g", "h"]
    rig.node_rig.make_topic("more", 1)


def test_requests_of_an_unknown_group_leave_no_object() -> None:
    rig = GroupRig()
    client = rig.member("a")
    client.epoch = 1
    assert client.beat().error_code is ErrorCode.NO_NODE
    assert client.register(0).error_code is ErrorCode.NO_NODE
    assert client.meta().error_code is ErrorCode.NO_NODE
    assert not rig.node_rig.node.core.directory

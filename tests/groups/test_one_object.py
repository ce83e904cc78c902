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
from tests.groups.balanced.house import SESSION_MS, House
from tests.groups.checks import check_kinds


class Closed(dict[str, Any]):
    """A dictionary in which single entries are looked up, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all groups are looked at")

    __iter__ = keys = values = items = _refuse


def group_of(house: House) -> Group:
    group = house.node_rig.node.core.directory["g"]
    assert group.shard.groups["g"] is group, "the node and the shard have one object"
    check_kinds(group, house.node_rig.node.core.purgatory)
    return group


def test_a_change_of_mode_is_a_change_of_the_kind_of_one_object() -> None:
    house = House(group_initial_rebalance_delay_ms=0)
    joined = house.node_rig.ask_inside(
        JoinGroup(
            "g",
            SESSION_MS,
            protocol_type="consumer",
            protocols=(JoinProtocol("range", b"\0\0\0\0\0\0"),),
            wants_member_id_first=False,
        )
    )
    assert isinstance(joined, JoinGroupReply) and not joined.error_code
    group = group_of(house)
    assert (group.kind, group.is_empty, group.balanced) == (GroupKind.CLASSIC, False, None)
    assert house.member("a").start().error_code is ErrorCode.INCONSISTENT_MODE
    house.node_rig.ask_inside(LeaveGroup("g", (LeavingMember(joined.member_id),)))
    assert group_of(house).is_empty
    guest = house.started("a")
    balanced = group_of(house)
    assert (balanced.kind, balanced.is_empty) == (GroupKind.CLIENT_BALANCED, False)
    guest.leave()
    left = group_of(house)
    assert (left.kind, left.is_empty) == (GroupKind.CLASSIC, True)
    assert left.balanced is not None, "epochs stay on record"
    assert group is balanced and balanced is left


@pytest.mark.parametrize("stops", [True, False])
def test_a_restart_finds_the_kind_on_record(stops: bool) -> None:
    house = House()
    guest = house.started("a")
    guest.register(0)
    house.stop() if stops else house.restart()
    group = group_of(house)
    assert group.kind is GroupKind.CLIENT_BALANCED
    assert group.balanced is not None and list(group.balanced.members) == ["a"]
    house.node_rig.wait(2 * SESSION_MS)
    assert group_of(house) is group and group.is_empty
    house.stop() if stops else house.restart()
    assert group_of(house).is_empty


def test_an_event_is_of_one_kind_of_group() -> None:
    tables = (classic_table.TABLE, balanced_table.TABLE)
    events = Counter(row.event for table in tables for row in table.on(Path.FULL))
    assert set(events.values()) == {1}


def test_a_list_of_client_balanced_groups_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    house.started("a")
    house.started("b", group_id="h")
    for shard in house.node_rig.node.core.shards:
        monkeypatch.setattr(shard, "groups", Closed(shard.groups))
    reply = house.node_rig.ask_inside(DescribeBalanced(None))
    assert isinstance(reply, DescribeBalancedReply)
    assert [view.group_id for view in reply.groups] == ["g", "h"]
    house.node_rig.make_topic("more", 1)


def test_requests_of_an_unknown_group_leave_no_object() -> None:
    house = House()
    guest = house.member("a")
    guest.epoch = 1
    assert guest.beat().error_code is ErrorCode.NO_NODE
    assert guest.register(0).error_code is ErrorCode.NO_NODE
    assert guest.meta().error_code is ErrorCode.NO_NODE
    assert not house.node_rig.node.core.directory

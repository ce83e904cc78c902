"""Expiry of client-balanced groups."""

import pytest

from coordinator.runtime.expiry_rules import KeepReason, Rule, group_expires_ms, rule_of
from protocol.errors import ErrorCode
from protocol.messages.balanced import PartitionsChanged
from protocol.messages.offsets import DescribeExpiry, DescribeExpiryReply
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.groups.balanced.group_rig import GroupRig
from tests.groups.checks import returned
from tests.node.node_rig import WALL_MS

HOUR_MS = 3_600_000


@pytest.fixture
def rig() -> GroupRig:
    made = GroupRig(offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000)
    made.node_rig.make_topic("other", 1)
    return made


def test_while_members_live_what_they_read_stays_and_when_the_last_has_gone_all_has_its_time(
    rig: GroupRig,
) -> None:
    client = rig.started("a", consume_position="first", session_timeout_ms=1_800_000)
    client.register(0)
    client.confirm(0, 0)
    for _ in range(20):
        rig.node_rig.wait(1_000_000)
        assert client.beat().error_code is ErrorCode.NONE
    assert rig.committed(0) == 0
    told = rig.node_rig.ask_inside(DescribeExpiry("g"))
    assert isinstance(told, DescribeExpiryReply)
    assert (told.group_kept_because, told.offsets[0].kept_because) == (KeepReason.HAS_MEMBERS, KeepReason.SUBSCRIBED)
    client.leave()
    rig.node_rig.wait(HOUR_MS - 60_001)
    assert rig.committed(0) == 0
    rig.node_rig.wait(120_002)
    assert rig.committed(0) == -1
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_never_committed_is_there_while_it_has_members(rig: GroupRig) -> None:
    client = rig.started("a", session_timeout_ms=1_800_000)
    client.register(0)
    rig.node_rig.wait(1_000_000)
    assert client.beat().error_code is ErrorCode.NONE
    rig.node_rig.wait(1_000_000)
    assert rig.owners()["1:demo:0"] == "a"


def test_the_line_of_the_table_that_such_a_group_is_in(rig: GroupRig) -> None:
    client = rig.started("a")
    rig.node_rig.wait(5_000)
    shard = rig.node_rig.node.core.shard_of("g")
    group = shard.groups["g"]
    assert rule_of(group) == Rule(None, frozenset({"demo"}))
    assert returned(group_expires_ms(group, shard.offsets, HOUR_MS)) is KeepReason.HAS_MEMBERS
    client.leave()
    assert rule_of(group) == Rule(WALL_MS + 5_000)


def test_a_member_is_told_on_the_connection_it_last_spoke_on(rig: GroupRig) -> None:
    client = rig.started("a")
    before, client.connection = client.connection, rig.connection()
    assert client.beat().error_code is ErrorCode.NONE
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 9),)))
    assert client.told() == [PartitionsChanged("g", ("demo",))]
    assert rig.node_rig.heard(before) == []

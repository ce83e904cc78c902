"""Settings of single groups at nodes that share a log: they are with the group, whichever node has it."""

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.cluster_log.effects import LogReplayed
from coordinator.cluster_log.events import FollowingWanted
from coordinator.cluster_node.events import ShardChanged
from coordinator.cluster_node.repair import present_values
from coordinator.records.codec import encode
from coordinator.records.records import GroupSettingsRecord
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigs,
    AlterConfigsReply,
    AlterConfigsResource,
    ConfigOperation,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ReplaceConfigsResource,
    ResourceType,
)
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol
from tests.cluster_log.rig import pairs_in
from tests.cluster_node.rig import LogNode
from tests.cluster_node.test_service import MOVED, NONE, joined, owner

SIZE, PINNED = "group.max.size", "group.offsets.pinned"


def setting(*group_ids: str, key: str = SIZE, value: str | None = "1") -> IncrementalAlterConfigs:
    """Set the key for each group; no value: reset it."""
    change = AlterableConfig(key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
    resources = [AlterConfigsResource(ResourceType.GROUP, group_id, (change,)) for group_id in group_ids]
    return IncrementalAlterConfigs(tuple(resources))


def errors(reply: Any) -> list[ErrorCode]:
    assert isinstance(reply, IncrementalAlterConfigsReply | AlterConfigsReply)
    return [one.error_code for one in reply.responses]


def value_of(node: LogNode, group_id: str, key: str = SIZE) -> str | ErrorCode | None:
    """Return the value in force, as the node describes it, or the error."""
    reply = node.ask(DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, group_id, (key,)),)))
    assert isinstance(reply, DescribeConfigsReply)
    (result,) = reply.results
    return result.error_code or result.configs[0].value


def joining(node: LogNode, group_id: str) -> ErrorCode:
    """Let another member join; return the error, or what it is told of a group that takes it."""
    asked = JoinGroup(group_id, 30_000, "", "consumer", (JoinProtocol("range"),), 30_000, wants_member_id_first=False)
    call = node.send(asked)
    reply = node.replied.get(call)
    assert reply is None or isinstance(reply, JoinGroupReply)
    return NONE if reply is None else reply.error_code


def test_the_next_owner_has_the_settings_of_groups_that_are_there_and_of_those_that_come() -> None:
    cluster, first = owner()
    joined(first, "a")
    assert errors(first.ask(setting("a", "b", "c"))) == [NONE] * 3
    assert errors(first.ask(setting("c", value=None))) == [NONE]
    second = cluster.start(2)
    first.step_down()
    cluster.give_all(second)
    assert [value_of(second, group_id) for group_id in "abc"] == ["1", "1", str(2**31 - 1)]
    assert joining(second, "a") is ErrorCode.GROUP_MAX_SIZE_REACHED
    joined(second, "b")
    assert joining(second, "b") is ErrorCode.GROUP_MAX_SIZE_REACHED
    joined(second, "c")
    assert joining(second, "c") is NONE


def test_a_node_that_does_not_have_the_group_neither_changes_nor_describes_its_settings() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    cluster.give_all(first)
    first.ask(setting("a"))
    assert errors(second.ask(setting("a", value="5"))) == [MOVED]
    replacing = ReplaceConfigsResource(ResourceType.GROUP, "a", ())
    assert errors(second.ask(AlterConfigs((replacing,)))) == [MOVED]
    assert value_of(second, "a") is MOVED
    assert value_of(first, "a") == "1"
    assert errors(first.ask(AlterConfigs((replacing,)))) == [NONE]
    assert value_of(first, "a") == str(2**31 - 1)


def test_a_change_is_answered_when_the_shard_of_each_group_has_it() -> None:
    cluster, node = owner()
    cluster.holds = True
    call = node.send(setting("a", "b", "c", "d"))
    shards = {shard for _, shard, _ in cluster.held}
    assert len(shards) > 1 and call not in node.replied
    before, shard, event = cluster.held.pop()
    before.step(ShardChanged(shard, event))
    assert call not in node.replied
    cluster.answer_writes()
    assert errors(node.replied[call]) == [NONE] * 4


def test_a_change_under_way_when_the_shard_is_lost_is_refused_and_not_in_force() -> None:
    cluster, first = owner()
    cluster.loses = True
    call = first.send(setting("a"))
    assert first.node.core.group_configs.own("a") == {SIZE: "1"}
    first.step_down()
    assert errors(first.replied[call]) == [MOVED]
    assert not first.node.core.group_configs.own("a")
    cluster.loses = False
    second = cluster.start(2)
    cluster.give_all(second)
    assert value_of(second, "a") == str(2**31 - 1)


def test_what_is_refused_writes_nothing() -> None:
    cluster, node = owner()
    ends = [partition.end for partition in cluster.partitions]
    assert errors(node.ask(setting("a", value="none"))) == [ErrorCode.INVALID_CONFIG]
    assert errors(node.ask(setting("a", key=PINNED, value="true"))) == [NONE]
    assert errors(node.ask(setting("a", key=PINNED, value="true"))) == [NONE]
    assert sum(partition.end for partition in cluster.partitions) == sum(ends) + 1


def test_settings_are_repaired_as_the_log_has_them() -> None:
    cluster, node = owner()
    node.ask(setting("a", "b"))
    node.ask(setting("b", value=None))
    checked = 0
    for partition, service in zip(cluster.partitions, node.side.services, strict=True):
        found = pairs_in(partition.fetch(0, 10**6)[1])
        assert dict(present_values(service.shard, found)) == found
        checked += len(found)
    assert checked == 2


def test_a_node_that_reads_along_takes_over_with_the_newest() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    for shard in range(len(second.side.services)):
        second.step(ShardChanged(shard, FollowingWanted(is_wanted=True)))
    first.ask(setting("a", value="7"))
    second.pass_ms(3_000)
    first.ask(setting("a", value="3"))
    first.step_down()
    cluster.give_all(second)
    assert value_of(second, "a") == "3"


def test_members_of_a_server_driven_group_keep_its_session_at_the_next_owner() -> None:
    cluster, first = owner()
    beat = ConsumerGroupHeartbeat("a", "m", rebalance_timeout_ms=60_000, subscribed_topic_names=("t",))
    reply = first.ask(replace(beat, topic_partitions=()))
    assert isinstance(reply, ConsumerGroupHeartbeatReply) and not reply.error_code
    assert errors(first.ask(setting("a", key="consumer.session.timeout.ms", value="60000"))) == [NONE]
    second = cluster.start(2)
    first.step_down()
    cluster.give_all(second)
    group = second.node.core.directory["a"]
    second.pass_ms(55_000)
    assert group.member_count == 1, "sessions of other groups last 45 s"
    second.pass_ms(6_000)
    assert group.member_count == 0


@pytest.mark.parametrize("value", [{SIZE: "many"}, {"group.offsets.backward": "sometimes"}])
def test_a_value_that_this_version_does_not_know_fails_the_shard(value: dict[str, str]) -> None:
    _, node = owner()
    service = node.side.services[0]
    service.take(LogReplayed(0, (encode(GroupSettingsRecord("a", value)),)), node.moment)
    node.rest()
    assert service.shard.state is ShardState.FAILED and "settings of the group a" in service.shard.failure

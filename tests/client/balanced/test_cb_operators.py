"""Topics and filters that an operator keeps from a group, as its consumer meets them
(docs/spec/client-balanced-groups.md#9, #15.2), against a real node."""

import pytest

from muster.core.balancing.loop import rebalance_once
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, ConfigOperation, ResourceType
from tests.client.balanced.rigs import BalancedNodeRig
from tests.client.balanced.world import GROUP, SimMember
from tests.topics.test_requests import altered

TOPICS, FILTERS = "group.forbidden.topics", "group.forbidden.filters"
K0, OTHER = "1:t:0", "1:other:0"


@pytest.fixture
def world() -> BalancedNodeRig:
    rig = BalancedNodeRig()
    rig.make("t", 1)
    rig.make("other", 1)
    for number in range(3):
        rig.append(K0, b"%d" % number)
    return rig


def forbid(world: BalancedNodeRig, name: str, value: str) -> None:
    world._wake()
    error, *_ = altered(world.node_rig, ResourceType.GROUP, GROUP, AlterableConfig(name, ConfigOperation.SET, value))
    assert error is ErrorCode.NONE
    world._deliver_pushes()


def member(world: BalancedNodeRig, **settings: object) -> SimMember:
    return world.member("A", **{"consume_position": "first", "fetch_max_bytes": 1, **settings})


@pytest.mark.parametrize(("name", "value", "code"), [(TOPICS, "t", 450), (FILTERS, "secret", 455)])
def test_who_may_not_start_is_told_at_once_and_asks_no_second_time(
    world: BalancedNodeRig, name: str, value: str, code: int
) -> None:
    forbid(world, name, value)
    one = member(world)
    assert one.start(t={"secret"}).code == code
    assert one.kinds().count("StartMember") == 1
    forbid(world, name, "")
    assert one.start(t={"secret"}).ok, "it may be started again"


def test_a_fetch_of_what_was_forbidden_meanwhile_is_403_and_the_partition_rests_for_two_seconds(
    world: BalancedNodeRig,
) -> None:
    one = member(world, ready_wait_ms=0)
    one.on_the_way(K0)
    assert one.confirm(one.batch().confirm_ctx).ok
    world.latency_ms, usual = 60_000, world.latency_ms  # the push is slower than the fetch
    forbid(world, TOPICS, "t")
    world.latency_ms = usual
    assert one.get().code == 403
    began_ms = world.now_ms
    one.sent.clear()
    assert one.core.registered == [K0]
    world.run(began_ms + 1_990 - world.now_ms)
    assert one.get().code == 407 and "FetchRegistered" not in one.kinds()
    world.run(began_ms + 2_020 - world.now_ms)
    assert one.get().code == 403


def test_what_is_connected_after_it_was_forbidden_is_450(world: BalancedNodeRig) -> None:
    one = member(world)
    one.on_the_way()
    world.latency_ms, usual = 60_000, world.latency_ms
    forbid(world, TOPICS, "t")
    world.latency_ms = usual
    said = one.connect(K0)
    assert (said.code, TOPICS in said.msg) == (450, True)
    assert one.core.registered == []


def test_a_forbidden_topic_is_given_up_by_itself_moves_nothing_else_and_comes_back(world: BalancedNodeRig) -> None:
    one = member(world)
    assert one.start(t=None, other=None).ok
    assert rebalance_once(one.as_consumer()).connected == (OTHER, K0)
    assert one.confirm(one.batch().confirm_ctx).ok
    forbid(world, TOPICS, "t")
    world.run(20_000)
    assert one.core.registered == [OTHER]
    assert one.meta().data == {OTHER: True, K0: False}, "the configured set is the same"
    assert rebalance_once(one.as_consumer()).connected == ()
    forbid(world, TOPICS, "")
    world.run(20_000)
    assert rebalance_once(one.as_consumer()).connected == (K0,)
    assert one.batch().messages[0].offset == 1

"""Refusals by a coordinator, and what members do about them: docs/spec/client-balanced-groups.md#5.6, #15.2."""

import pytest

from membership.events import CallFailed, Replied, SendRequest
from muster.core.balancing import BalancedConfig, coordinator
from muster.core.balancing.events import MetaAsked
from muster.core.balancing.member import BalancedMemberState, Phase
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages import balanced as b
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from tests.client.balanced.rigs import ModelRig
from tests.client.balanced.world import SimMember

K0 = "1:t:0"


@pytest.fixture
def world() -> ModelRig:
    rig = ModelRig()
    rig.make("t", 1)
    rig.append(K0, b"a")
    return rig


def reader(world: ModelRig, *keys: str, **settings: object) -> SimMember:
    return world.member("A", **{"consume_position": "first", "ready_wait_ms": 10_000, **settings}).on_the_way(*keys)


def once(world: ModelRig, reply: Message, times: int = 1) -> None:
    """The next requests of that kind are answered so."""
    kind = type(reply).__name__.removesuffix("Reply")
    left = [reply] * times
    world.model.instead = lambda message: left.pop() if left and type(message).__name__ == kind else None


@pytest.mark.parametrize(
    ("error", "told_ms", "pause_ms"),
    [
        (404, 0, 400),
        (403, 0, 2_000),
        (503, 0, 300),
        (301, 0, 200),
        (452, 0, 400),
        (452, 1_234, 1_234),
        (500, 0, 300),
    ],
)
def test_after_each_refusal_a_partition_rests_as_long_as_that_takes(
    world: ModelRig, error: int, told_ms: int, pause_ms: int
) -> None:
    one = reader(world, K0)
    once(world, b.FetchRegisteredReply(items=(b.FetchedPartition(K0, ErrorCode(error), told_ms),)))
    assert one.get().code == error
    refused_ms = world.now_ms
    assert one.values() == [b"a"]
    assert world.now_ms - refused_ms == pause_ms + 2


@pytest.mark.parametrize("error", [411, 412, 415])
def test_what_is_not_ours_any_more_is_gone_and_connected_again(world: ModelRig, error: int) -> None:
    one = reader(world, K0)
    once(world, b.FetchRegisteredReply(items=(b.FetchedPartition(K0, ErrorCode(error)),)))
    assert one.get().code == error
    assert one.core.registered == []
    assert one.connect(K0).ok
    assert one.values() == [b"a"]


def test_a_fetch_that_is_never_answered_counts_its_last_batch_as_not_consumed(world: ModelRig) -> None:
    one = reader(world, K0, confirm_in_local=True)
    assert one.confirm(one.batch().confirm_ctx).ok
    world.refuses_connections = one.is_cut = True
    assert one.get().code == 500
    one.is_cut = False
    one.sent.clear()
    world.run(1_000)
    one.get()
    (fetch,) = one.messages("FetchRegistered")
    assert not fetch.items[0].last_consumed


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_found_again_and_keys_are_kept(world: ModelRig, error: ErrorCode) -> None:
    one = reader(world, K0)
    once(world, b.MemberHeartbeatReply(error))
    world.run(11_000)
    assert "FindCoordinator" in one.kinds()
    assert one.core.registered == [K0]
    beats = [at_ms for at_ms, message in one.sent if type(message).__name__ == "MemberHeartbeat"]
    assert [later - earlier < 200 for earlier, later in zip(beats[-2:], beats[-1:], strict=False)] == [True]


def test_a_coordinator_that_loads_is_asked_again_a_second_later(world: ModelRig) -> None:
    one = reader(world)
    once(world, b.RegisterPartitionsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    began_ms = world.now_ms
    assert one.connect(K0).ok
    assert 1_000 <= world.now_ms - began_ms <= 1_010


def test_connecting_is_tried_twice_and_no_more(world: ModelRig) -> None:
    one = reader(world)
    once(world, b.RegisterPartitionsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), times=2)
    assert one.connect(K0).code == 14
    assert one.kinds().count("RegisterPartitions") == 2


def test_a_refusal_of_the_whole_request_is_an_answer_too(world: ModelRig) -> None:
    one = reader(world, K0)
    refusal = ErrorReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    world.model.instead = lambda message: refusal if type(message).__name__ == "RegisterPartitions" else None
    assert one.disconnect(K0).ok
    said = one.connect(K0)
    assert (said.code, said.msg) == (31, "not you")


def test_a_lookup_that_names_nobody_is_repeated(world: ModelRig) -> None:
    one = world.member("A")
    found = FindCoordinatorReply((FoundCoordinator("g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),))
    left: list[Message] = [found, FindCoordinatorReply()]
    world.model.instead = lambda message: left.pop() if left and isinstance(message, FindCoordinator) else None
    assert one.start().ok
    assert one.kinds().count("FindCoordinator") == 3


def test_after_a_failed_connect_to_the_coordinator_the_next_lookup_waits() -> None:
    member = BalancedMemberState(BalancedConfig(), "g", "A", phase=Phase.STARTED, is_joined=True)
    here = FindCoordinatorReply((FoundCoordinator("g", 0, "here", 1),))

    def called() -> list[tuple[int, Message]]:
        coordinator.settle(member)
        effects, member.effects = member.effects, []
        return [(one.call, one.message) for one in effects if isinstance(one, SendRequest)]

    pauses = []
    for _ in range(3):
        coordinator.ask(member, lambda: b.DescribeBalanced(("g",)), lambda _m, _answer: None)
        failed_ms = member.now_ms
        while not (calls := called()):
            member.now_ms += 1
            coordinator.pass_time(member)
            member.timers = {timer: at for timer, at in member.timers.items() if at > member.now_ms}
        pauses.append(member.now_ms - failed_ms)
        ((number, message),) = calls
        assert isinstance(message, FindCoordinator)
        coordinator.on_reply(member, Replied(number, here))
        ((number, message),) = called()
        coordinator.lost(member, CallFailed(number, is_unreached=True))
    assert pauses == [0, 100, 200]


def test_a_confirmation_that_is_never_answered_says_so_and_is_said_again_with_the_next_fetch(
    world: ModelRig,
) -> None:
    one = reader(world, K0)
    context = one.batch().confirm_ctx
    one.is_cut = world.refuses_connections = True
    assert one.confirm(context).code == 402
    one.is_cut = False
    world.run(1_000)
    assert one.get().code == 404
    assert world.committed() == {K0: 1}


def test_metadata_are_asked_for_once_a_period_and_by_one_at_a_time(world: ModelRig) -> None:
    one = world.member("A")
    assert one.start().ok
    one.sent.clear()
    both = [one.begin(MetaAsked), one.begin(MetaAsked)]
    world.run_until(lambda: all(call.is_over for call in both))
    assert [call.result.data for call in both] == [{K0: True}] * 2
    assert one.meta().ok
    assert one.kinds().count("PartitionMeta") == 1
    world.run(10_000)
    assert one.meta().ok
    assert one.kinds().count("PartitionMeta") == 2


def test_an_empty_list_with_a_new_version_empties_what_there_is(world: ModelRig) -> None:
    one = reader(world, K0)
    world.model.unconfigure(K0)
    world.run(11_000)
    assert one.meta().data == {}
    assert one.core.registered == []


def test_a_heartbeat_that_names_keys_as_lost_drops_those(world: ModelRig) -> None:
    world.make("t", 2)
    one = reader(world, K0, "1:t:1")
    del world.model.owners[K0]
    world.run(11_000)
    assert one.core.registered == ["1:t:1"]


def test_a_word_that_something_has_changed_brings_the_next_heartbeat_forward(world: ModelRig) -> None:
    one = reader(world)
    world.run(1_000)
    one.sent.clear()
    world.make("t", 3)
    one.push(b.PartitionsChanged("another", ("t",)))
    assert one.kinds() == []
    one.push(b.PartitionsChanged("g", ("t",)))
    world.run(10)
    assert one.kinds() == ["MemberHeartbeat"]
    assert len(one.meta().data) == 3

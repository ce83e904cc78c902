"""Finding the coordinator and keeping a place: docs/spec/consumer-client.md#H.1 to #H.13."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from membership.events import CommitAsked, HangUp, LostPartitions, NodeAddress, OffsetsAsked, OffsetToCommit, Polled
from membership.member import State
from membership.nodes import Nodes, nodes_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import SyncGroupReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply
from tests.client.consumer_rig import GROUP, LATENCY_MS, ConsumerRig, P
from tests.client.member_rig import P0, P1, MemberRig


def there(*ports: int) -> MetadataReply:
    return MetadataReply(tuple(MetadataBroker(port, "node", port) for port in ports))


def node(port: int) -> NodeAddress:
    return NodeAddress("node", port, port)


def refusal() -> FindCoordinatorReply:
    return FindCoordinatorReply((FoundCoordinator(GROUP, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),))


def test_h1_the_first_poll_looks_up_once_at_an_idle_node_that_is_connected() -> None:
    rig = MemberRig(jitter=0.99).poll().poll()
    assert rig.called == [(None, FindCoordinator((GROUP,)))]
    rig.answer(refusal()).answer(there(1, 2)).poll()  # the bootstrap has answered, these two not yet
    assert rig.called == [(None, Metadata(()))]
    assert rig.pass_time(150).called == [(None, FindCoordinator((GROUP,)))]


def test_h2_of_two_connected_nodes_the_one_with_fewer_requests_in_flight_is_asked() -> None:
    nodes = Nodes()
    nodes.learn([node(1), node(2), node(3)])
    nodes.answered(node(1))
    nodes.answered(node(2))
    for jitter in (0.0, 0.3, 0.6, 0.9):
        assert nodes.least_loaded({node(1): 3, node(2): 1}, jitter) == node(2)
    nodes.failed(node(2))
    assert nodes.least_loaded({node(1): 3, node(3): 1}, 0.9) == node(1), "better busy than not connected"
    nodes.failed(node(1))
    assert nodes.least_loaded({node(3): 1}, 0.0) == node(3), "one whose connection is under way"
    nodes.failed(None)
    nodes.failed(node(3))
    assert nodes.least_loaded({}, 0.9) == node(2), "the one that failed longest ago"


def test_a_member_whose_bootstrap_is_gone_asks_the_nodes_it_was_told_of() -> None:
    rig = MemberRig().poll().answer(refusal()).answer(there(1, 2)).pass_time(150)
    assert rig.called[-1] == (None, FindCoordinator((GROUP,)))
    rig.cut("FindCoordinator")
    assert rig.heard == [HangUp(None)]
    assert rig.called == [(node(1), Metadata(()))]
    assert rig.pass_time(300).called == [(node(1), FindCoordinator((GROUP,)))]
    rig.cut("Metadata").cut("FindCoordinator")
    assert rig.heard == [HangUp(node(1))]
    assert rig.called == [(node(2), Metadata(()))]
    assert rig.pass_time(600).called == [(node(2), FindCoordinator((GROUP,)))]


def test_after_a_failed_connect_to_the_coordinator_the_next_lookup_waits() -> None:
    rig = MemberRig().poll().find()
    assert rig.sent_kinds == ["FindCoordinator", "JoinGroup"]
    pauses = []
    for _ in range(3):
        failed_at_ms = rig.cut("JoinGroup", is_unreached=True).now_ms
        while "FindCoordinator" not in rig.pass_time(1).sent_kinds:
            pass
        pauses.append(rig.now_ms - failed_at_ms)
        rig.find().pass_time(2_000)
    assert pauses == [100, 200, 400]
    rig.join().sync(P0)
    rig.sent_kinds  # noqa: B018  (forgotten)
    assert rig.feed(Polled()).pass_time(3_000).cut("Heartbeat").sent_kinds[-1] == "FindCoordinator", "lost later"


def test_brokers_beside_musterd_are_asked_nothing_about_groups() -> None:
    """One that is asked for the coordinator names itself."""
    brokers = MetadataReply((MetadataBroker(1, "node", 1), MetadataBroker(2, "broker", 9092, None, "kafka")))
    assert nodes_of(brokers)[2] == NodeAddress("broker", 9092, 2, "kafka")
    nodes = Nodes()
    nodes.learn(nodes_of(brokers).values())
    nodes.answered(nodes_of(brokers)[2])
    nodes.failed(None)
    nodes.failed(node(1))
    assert {nodes.least_loaded({node(1): 9}, jitter / 10) for jitter in range(10)} == {node(1)}
    rig = MemberRig().poll().answer(refusal()).answer(replace(brokers, brokers=brokers.brokers[1:])).pass_time(150)
    for _ in range(4):
        assert {where for where, _ in rig.called} == {None}
        rig.cut("FindCoordinator")
        rig.answer(replace(brokers, brokers=brokers.brokers[1:])).pass_time(2_000)


def test_h3_with_no_node_there_a_poll_says_no_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.is_up = False
    began_ms = rig.now_ms
    assert consumer.poll(0.0) == []
    assert rig.now_ms == began_ms
    rig.is_up = True
    rig.steady(consumer)
    rig.is_up = False
    rig.run(5_000)
    began_ms = rig.now_ms
    assert consumer.poll(0.5) == []
    assert consumer.member.poll(0.5)  # its place is kept: nobody said otherwise
    assert rig.now_ms - began_ms in {500, 501}


def test_h4_lookups_back_off_look_at_the_nodes_again_and_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    refusals = 3

    def refuses(_who: str, message: Message) -> Message | None:
        nonlocal refusals
        if not isinstance(message, FindCoordinator) or not refusals:
            return None
        refusals -= 1
        return FindCoordinatorReply((FoundCoordinator(GROUP, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),))

    rig.script = refuses
    rig.polls(consumer, until=lambda: consumer.member.is_steady)
    at_ms = [one.at_ms for one in rig.requests if one.kind == "FindCoordinator"]
    pauses = [after - before - 2 * LATENCY_MS for before, after in pairwise(at_ms)]
    assert [80 <= pauses[0] <= 120, 160 <= pauses[1] <= 240, 320 <= pauses[2] <= 480] == [True] * 3
    assert rig.kinds()[:8] == ["FindCoordinator", "Metadata"] * 3 + ["FindCoordinator", "JoinGroup"]


def test_h7_whoever_needs_the_coordinator_there_is_one_lookup_on_the_wire() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.NOT_COORDINATOR)
    rig.poll().feed(CommitAsked(1, {P0: OffsetToCommit(1)}, rig.now_ms + 60_000))
    rig.feed(OffsetsAsked(2, (P1,), rig.now_ms + 60_000)).poll().pass_time(500)
    assert rig.sent_kinds == ["Heartbeat", "FindCoordinator"]
    rig.find("there", 2).pass_time(200)
    assert sorted(rig.sent_kinds) == ["Heartbeat", "OffsetCommit", "OffsetFetch"]


def test_h8_a_new_member_joins_under_the_id_it_is_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.polls(consumer, until=lambda: consumer.member.is_steady)
    first, second = (one for one in rig.requests if one.kind == "JoinGroup")
    assert first.message.member_id == ""  # type: ignore[attr-defined]
    assert second.message.member_id == consumer.member.member_id != ""  # type: ignore[attr-defined]
    assert second.at_ms - first.at_ms == 2 * LATENCY_MS
    assert rig.members() == [consumer.member.member_id]


def test_h10_a_sync_of_a_generation_gone_keeps_the_id_and_loses_what_was_owned() -> None:
    rig = MemberRig(assignors=("cooperative-sticky",)).steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2)
    rig.answer(SyncGroupReply(ErrorCode.ILLEGAL_GENERATION))
    assert (rig.member.generation_id, rig.member.member_id) == (-1, "me")
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert lost.partitions == (P0,)
    with_nothing = MemberRig().poll().find().join().answer(SyncGroupReply(ErrorCode.ILLEGAL_GENERATION))
    assert (with_nothing.member.generation_id, with_nothing.member.member_id) == (-1, "me")
    assert with_nothing.told == []
    assert with_nothing.member.state is State.JOINING


def test_h13_a_rebalance_waits_for_the_poll_of_a_member_whose_heart_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    how = {"session_timeout_ms": 10_000, "max_poll_interval_ms": 60_000}
    busy, other = rig.consumer("busy", "t", **how), rig.consumer("other", **how)
    rig.steady(busy)
    me = busy.member.member_id
    other.subscribe(["t"])
    rig.polls(other, for_ms=20_000)
    assert rig.told == []
    assert rig.kinds("busy", of=("Heartbeat",)) == ["Heartbeat"] * 6
    assert me in rig.members()
    rig.steady(busy, other)
    assert busy.member.member_id == me
    assert sorted((*busy.assignment, *other.assignment)) == P[:6]

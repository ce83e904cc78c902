"""Rebalances in which things go wrong (docs/spec/consumer-client.md#E3, #E4, #E5)."""

from collections.abc import Callable

import msgspec
import pytest

from muster.errors import CannotConnect, GroupRefused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from protocol.messages.groups import HeartbeatReply, JoinGroup, JoinGroupReply, SyncGroup
from protocol.messages.offsets import OffsetCommit
from tests.client.consumer_rig import Never, P
from tests.client.streams.order import check_order
from tests.client.streams.rig import ConnectorRig


def _raises() -> None:
    raise RuntimeError("the listener fell over")


def _whole_log(rig: ConnectorRig) -> None:
    for player in rig.players:
        check_order(one for one in rig.log if one.who == player.who)


@pytest.mark.parametrize("when", ["before_releasing", "before_starting"])
def test_what_a_listener_raises_holds_up_nothing_and_is_told(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)
    player = rig.player("C1").reads(t=1).iterates()
    player.listener.does[when] = _raises
    other = rig.player("C2").reads(t=1).iterates()
    rig.settled(player, other)
    assert sorted(player.owned["t"]) == [0, 1]
    rig.run(10)
    assert [str(error) for error in player.errors] == ["the listener fell over"]
    _whole_log(rig)


def test_what_it_raises_at_the_start_is_raised_where_the_streams_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    player = rig.player("C1")
    player.listener.does["before_starting"] = _raises
    with pytest.raises(RuntimeError, match="fell over"):
        player.reads(t=1)
    assert player.owned == {"t": {0: 0}}, "the rebalance stands"


def test_only_the_leader_knows_what_everyone_has(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    first = rig.player("C1").reads(t=1).iterates()
    second = rig.player("C2").reads(t=2).iterates()
    rig.settled(first, second)
    assert second.listener.everyone is None
    ids = first.connector.member_id, second.connector.member_id
    assert first.listener.everyone == {ids[0]: {"t": {0: 0}}, ids[1]: {"t": {1: 0, 2: 1}}}


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_rebalance_waits_for_messages_in_hand_but_not_for_long(
    monkeypatch: pytest.MonkeyPatch, is_prompt: bool
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    rig.append(*P[:2], count=5)
    slow = rig.player("slow", hand_over_wait_ms=2_000).reads(t=1)
    rig.run(500)
    (in_hand,) = slow.take(slow.streams[0], at_most=1)
    slow.takes_one_in(1_500 if is_prompt else 60_000)
    late = rig.player("late").reads(t=2).iterates()
    (committed,) = rig.of("OffsetCommit", who="slow")
    (stopped,) = rig.of("stop", who="slow")
    assert in_hand.partition == 0
    waited_ms = committed.at_ms - stopped.at_ms
    at = {part.partition_index: part.committed_offset for part in committed.about.topics[0].partitions}
    if is_prompt:
        assert 1_400 <= waited_ms <= 1_600
        assert at[0] == 1
    else:
        assert waited_ms == 2_000
        assert at[0] == 0, "it will come again"
    rig.settled(slow, late)


def test_two_triggers_in_a_row_cause_one_more_rebalance_after(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 6)
    player = rig.player("C1").reads(t=1).iterates()
    others = [rig.player(f"C{number}") for number in (2, 3, 4)]
    entered: list[int] = []

    def others_come() -> None:
        entered.append(rig.now_ms)
        if len(entered) == 1:
            for one in others[1:]:
                one.begins({"t": 1})
                one.iterates()
            rig.run(300)

    player.listener.does["before_starting"] = others_come
    others[0].begins({"t": 1})
    others[0].iterates()
    rig.until(lambda: len(rig.members()) == 4)
    rig.settled(player, *others)
    # One at a time: nothing of the second begins before the first is over.
    _whole_log(rig)
    assert len(rig.of("before_releasing", who="C1")) <= 3
    assert sorted(number for one in (player, *others) for number in one.owned["t"]) == list(range(6))


@pytest.mark.parametrize("kind", ["OffsetFetch", "ClaimPartitions"])
def test_who_waits_for_an_answer_follows_the_next_rebalance_at_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    first = rig.player("C1").reads(t=1).iterates()
    rig.script = lambda who, message: Never if (who, type(message).__name__) == ("C2", kind) else None
    second, third = rig.player("C2"), rig.player("C3")
    second.begins({"t": 1})
    rig.run(1_000)
    rig.script = lambda _who, _message: None
    third.begins({"t": 1})
    began_ms = rig.now_ms
    rig.settled(first, second, third)
    assert rig.now_ms - began_ms < 1_000
    assert [len(one.owned["t"]) for one in (first, second, third)] == [1, 1, 1]
    _whole_log(rig)


def test_the_commit_before_a_release_is_tried_for_half_the_rebalance_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    rig.append(*P[:2], count=3)
    player = rig.player("C1", rebalance_timeout_ms=10_000, request_timeout_ms=1_000).reads(t=1).iterates()
    rig.run(500)
    rig.script = lambda who, message: Never if who == "C1" and isinstance(message, OffsetCommit) else None
    late = rig.player("C2").reads(t=1).iterates()
    (stopped,) = rig.of("stop", who="C1")
    (told,) = rig.of("before_releasing", who="C1")
    assert told.at_ms - stopped.at_ms == 5_000
    assert len(rig.of("OffsetCommit", who="C1")) >= 3
    assert [type(error) for error in player.errors] == [RequestTimedOut]
    rig.settled(player, late)
    _whole_log(rig)


def test_a_member_that_is_no_more_loses_what_it_had_without_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=3)
    player = rig.player("C1").reads(t=1)
    rig.run(500)
    player.take_all(at_most=2)
    rig.log.clear()
    rig.script = _answers_once("Heartbeat", HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID))
    rig.until(lambda: bool(rig.of("start")))
    assert rig.of("OffsetCommit") == []
    steps = [one.what for one in rig.of("stop", "clear", "before_releasing", "JoinGroup", "ClaimPartitions", "start")]
    assert steps == ["stop", "clear", "before_releasing", "JoinGroup", "JoinGroup", "ClaimPartitions", "start"]
    rig.run(500)
    assert [record.offset for record in player.take_all()] == [0, 1, 2], "it was not committed"


def _answers_once(kind: str, reply: Message) -> Callable[[str, Message], Message | None]:
    left = [reply]
    return lambda _who, message: left.pop() if type(message).__name__ == kind and left else None


def test_a_connector_that_is_refused_later_says_so_hands_out_nothing_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    player = rig.player("C1", rebalance_backoff_ms=200).reads(t=1).iterates()

    def refuses(who: str, message: Message) -> Message | None:
        refused = JoinGroupReply(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
        return refused if who == "C1" and isinstance(message, JoinGroup) else None

    rig.script = refuses
    other = rig.player("C2").reads(t=1).iterates()
    rig.until(lambda: bool(player.errors))
    assert player.owned == {}
    errors = list(player.errors)
    rig.script = lambda _who, _message: None
    rig.until(lambda: len(player.owned.get("t", {})) == 1)
    rig.settled(player, other)
    assert player.errors == errors
    assert {type(error) for error in errors} == {GroupRefused}
    _whole_log(rig)


def test_a_thread_that_is_not_there_ends_a_member_that_is_assigned_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    leader = rig.player("C1").reads(t=2).iterates()
    rig.script = _gives_a_thread_too_many
    late = rig.player("C2")
    with pytest.raises(GroupRefused, match="leader of group orders assigned t-2 for thread 1 of 1"):
        late.reads(t=1)
    late.leave()
    rig.script = lambda _who, _message: None
    rig.until(lambda: leader.owned == {"t": {0: 0, 1: 0, 2: 1}})


def _gives_a_thread_too_many(_who: str, message: Message) -> None:
    """Change on its way what the leader writes for the other."""
    if isinstance(message, SyncGroup):
        for line in message.assignments:
            if line.member_id != message.member_id:
                msgspec.structs.force_setattr(line, "assignment", line.assignment.replace(b"\x02\x00", b"\x02\x01"))


def test_a_grant_that_the_registry_does_not_know_has_the_group_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    player = rig.player("C1").reads(t=1).iterates()
    refused = (FetchTopicReply("t", (FetchPartitionReply(0, ErrorCode.NOT_OWNER),)),)
    once = [FetchReply(responses=refused)]
    rig.script = lambda _who, message: once.pop() if isinstance(message, Fetch) and once and message.topics else None
    rig.log.clear()
    rig.until(lambda: bool(rig.of("start")))
    assert rig.of("JoinGroup")[0].about.reason == "the registry no longer names this member for t-0"
    rig.append(P[0])
    rig.run(500)
    assert rig.handed_out() == [("t", 0, 0)]
    assert player.errors == []


def test_a_connector_that_reaches_nobody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.is_up = False
    player = rig.player("C1", request_timeout_ms=3_000)
    with pytest.raises(CannotConnect, match="node"):
        player.reads(t=1)
    assert rig.now_ms < 6_000
    player.leave()

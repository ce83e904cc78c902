"""Claims, releases and leases, as a connector meets them:
docs/spec/consumer-client.md#H.81 to #H.87 and #H.97 to #H.99."""

from itertools import pairwise
from typing import Any

import pytest

from muster.errors import ClientClosed, RebalanceFailed
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
)
from protocol.messages.ownership import (
    ClaimedPartition,
    ClaimItem,
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleaseItem,
    ReleasePartitions,
    ReleasePartitionsReply,
)
from tests.client.consumer_rig import GROUP, Never, P
from tests.client.streams.rig import ConnectorRig, Happened, SimApplication

SESSION_MS, REBALANCE_MS, BACKOFF_MS = 6_000, 3_000, 500
HASTY: dict[str, Any] = {
    "session_timeout_ms": SESSION_MS,
    "rebalance_timeout_ms": REBALANCE_MS,
    "rebalance_backoff_ms": BACKOFF_MS,
    "rebalance_max_retries": 40,
}


def _owner_of(rig: ConnectorRig) -> dict[int, str]:
    return {one.partition: one.member_id for one in rig.owners()}


def _stuck(rig: ConnectorRig, for_ms: int, partitions: int = 3) -> tuple[SimApplication, SimApplication]:
    """One that owns everything, and is stuck in `before_releasing` from the moment the second comes."""
    rig.make("t", partitions).append(*P[:partitions], count=3)
    stuck = rig.player("stuck", **HASTY).reads(t=1).iterates()
    stuck.listener.does["before_releasing"] = lambda: rig.run(for_ms)
    rig.run(1_000)
    rig.log.clear()
    return stuck, rig.player("late", **HASTY).reads(t=1).iterates()


def _claims(rig: ConnectorRig, who: str) -> list[Happened]:
    return rig.of("ClaimPartitions", who=who)


@pytest.mark.parametrize("ends_with", ["a release", "the lease"])
def test_h81_what_another_still_owns_is_claimed_again_until_it_is_free(
    monkeypatch: pytest.MonkeyPatch, ends_with: str
) -> None:
    rig = ConnectorRig(monkeypatch)
    stuck, late = _stuck(rig, for_ms=REBALANCE_MS + 1_700 if ends_with == "a release" else 60_000)
    (stopped, *_) = rig.of("stop", who="stuck")
    granted = rig.of("publish", who="late")[0].at_ms
    claims = _claims(rig, "late")
    claims = [one for one in claims if one.about.generation_id == claims[0].about.generation_id]
    assert len(claims) > 2
    assert all(after.at_ms - before.at_ms >= BACKOFF_MS for before, after in pairwise(claims))
    assert not [one for one in rig.of("Fetch", who="late") if one.at_ms < granted], "nothing is fetched before"
    if ends_with == "a release":
        assert granted - stopped.at_ms < REBALANCE_MS + 1_700 + 2 * BACKOFF_MS
    else:
        assert granted - stopped.at_ms > SESSION_MS - 2_000
    assert late.connector.member_id in _owner_of(rig).values()
    assert stuck.errors == late.errors == []


def test_h82_two_free_and_one_owned_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch)
    seen: list[dict[int, str]] = []

    def lets_two_go(who: str, message: Message) -> None:
        if who == "late" and isinstance(message, ClaimPartitions):
            owned = [one for one in rig.owners() if one.partition < 2 and one.member_id != message.member_id]
            for one in owned:
                item = (ReleaseItem("t", one.partition, one.epoch),)
                rig.node.ask_inside(ReleasePartitions(GROUP, one.member_id, items=item), call=94)
            rig.after(2, lambda: seen.append(_owner_of(rig)))

    rig.script = lets_two_go
    _stuck(rig, for_ms=60_000)
    assert len(seen) > 2
    owned_by_stuck = {owner for owners in seen[:-1] for owner in owners.values()}
    assert all(owners.keys() == {2} for owners in seen[:-1]), "the two are free all the while"
    assert len(owned_by_stuck) == 1
    assert seen[-1].keys() == {0, 1, 2}


def test_h83_a_claim_whose_answer_is_lost_is_granted_again_by_the_same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    epochs: list[list[int]] = []

    def loses_the_first_answer(_who: str, message: Message) -> type[Never] | None:
        if isinstance(message, ClaimPartitions) and not epochs:
            assert isinstance(rig.node.ask_inside(message, call=94), ClaimPartitionsReply)
            epochs.append([one.epoch for one in rig.owners()])
            return Never
        return None

    rig.script = loses_the_first_answer
    player = rig.player("C1", request_timeout_ms=2_000).reads(t=1)
    assert len(_claims(rig, "C1")) == 2
    assert [one.epoch for one in rig.owners()] == epochs[0] == [1, 1]
    assert player.owned == {"t": {0: 0, 1: 0}}


def test_h84_a_release_by_an_older_epoch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    first = rig.player("C1").reads(t=1)
    rig.player("C2").reads(t=1)
    rig.settled(first)
    owned = rig.owners()
    assert [one.epoch for one in owned] == [2]
    release = ReleasePartitions(GROUP, owned[0].member_id, items=(ReleaseItem("t", 0, 1),))
    reply = rig.node.ask_inside(release, call=94)
    assert isinstance(reply, ReleasePartitionsReply)
    assert reply.items[0].error_code == ErrorCode.NOT_OWNER
    assert rig.owners() == owned


def test_h85_what_is_assigned_to_somebody_else_cannot_be_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    first, second = rig.player("C1").reads(t=1), rig.player("C2").reads(t=1)
    rig.settled(first, second)
    owned = rig.owners()
    generation_id = first.parts.membership.generation_id
    ((others, _),) = second.owned["t"].items()
    claim = ClaimPartitions(GROUP, first.connector.member_id, generation_id, (ClaimItem("t", others, 0),))
    reply = rig.node.ask_inside(claim, call=94)
    assert isinstance(reply, ClaimPartitionsReply)
    assert [one.error_code for one in reply.items] == [ErrorCode.NOT_ASSIGNED]
    assert rig.owners() == owned


def _owned_by_another(_who: str, message: Message) -> Message | None:
    if isinstance(message, ClaimPartitions):
        items = (ClaimedPartition(one.topic, one.partition, ErrorCode.OWNED, "ghost") for one in message.items)
        return ClaimPartitionsReply(items=tuple(items))
    return None


def test_h86_tries_used_up_at_the_start_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    rig.script = _owned_by_another
    player = rig.player("C1")
    with pytest.raises(RebalanceFailed, match=r"group orders.*4 tries: partitions are .*: t-0 by ghost, t-1 by ghost"):
        player.reads(t=1)
    claims = _claims(rig, "C1")
    assert len(claims) == 16, "four times the group is asked, each time the registry four times"
    pauses = [after.at_ms - before.at_ms for before, after in pairwise(claims)]
    assert sum(pause >= 2_000 for pause in pauses) >= 3
    assert rig.of("Fetch", "publish", "before_starting") == []
    player.leave()
    with pytest.raises(ClientClosed):
        player.connector.create_message_streams({"t": 1})


def test_h87_tries_used_up_later_are_told_and_it_recovers_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)
    player = rig.player("C1", rebalance_backoff_ms=500).reads(t=1).iterates()
    other = rig.player("C2").reads(t=1).iterates()
    rig.settled(player, other)
    rig.script = lambda who, message: _owned_by_another(who, message) if who == "C1" else None
    other.leave()
    rig.until(lambda: bool(player.errors))
    assert [type(error) for error in player.errors] == [RebalanceFailed]
    assert player.owned == {}
    rig.script = lambda _who, _message: None
    failed_ms = rig.now_ms
    rig.append(*P[:4])
    rig.until(lambda: len(rig.handed_out("C1")) == 4)
    assert 4_900 <= rig.of("publish", who="C1")[-1].at_ms - failed_ms <= 5_100, "ten backoffs, and no trigger"
    assert len(player.errors) == 1
    assert set(_owner_of(rig).values()) == {player.connector.member_id}


def test_h97_what_is_committed_between_the_reading_of_offsets_and_the_claim_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    rig.append(*P[:2], count=10)
    former = rig.player("C1", auto_commit_enable=False).reads(t=1)
    read: list[int] = []

    def commits_in_between(who: str, message: Message) -> None:
        if who == "C2" and isinstance(message, OffsetFetch):
            read.append(rig.now_ms)
        if who == "C2" and isinstance(message, ClaimPartitions) and len(read) == 1:
            (item,) = message.items
            part = OffsetCommitPartition(item.partition, 7)
            commit = OffsetCommit(
                GROUP, (OffsetCommitTopic("t", (part,)),), message.generation_id, former.connector.member_id
            )
            reply = rig.node.ask_inside(commit, call=94)
            assert isinstance(reply, OffsetCommitReply)
            assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE

    rig.script = commits_in_between
    newcomer = rig.player("C2").reads(t=1).iterates()
    rig.run(1_000)
    ((partition, _),) = newcomer.owned["t"].items()
    assert rig.handed_out("C2") == [("t", partition, offset) for offset in (7, 8, 9)]


def test_h98_a_release_that_is_lost_is_made_up_for_by_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)
    former = rig.player("C1").reads(t=1).iterates()
    rig.script = lambda _who, message: Never if isinstance(message, ReleasePartitions) else None
    newcomer = rig.player("C2").iterates()
    newcomer.begins({"t": 1})
    rig.settled(former, newcomer)
    assert len(rig.of("ReleasePartitions", who="C1")) == 1
    assert len(_claims(rig, "C2")) == 1, "the first try"
    assert sorted(_owner_of(rig)) == [0, 1, 2, 3]
    assert newcomer.owned == {"t": {2: 0, 3: 0}}


def test_h99_who_is_stuck_and_thrown_out_keeps_its_partitions_until_its_lease_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch)
    stuck, late = _stuck(rig, for_ms=60_000)
    stopped = rig.of("stop", who="stuck")[0]
    beats = [one.at_ms for one in rig.of("Heartbeat", who="stuck") if one.at_ms <= stopped.at_ms + REBALANCE_MS]
    assert beats[-1] > stopped.at_ms, "it goes on sending heartbeats until it is thrown out"
    granted = rig.of("publish", who="late")[0]
    assert granted.at_ms >= beats[-1] + SESSION_MS
    assert not [one for one in rig.of("handed out", who="stuck") if one.at_ms > stopped.at_ms]
    rig.run(70_000)  # it is no longer stuck
    rig.settled(stuck, late)
    assert sorted(_owner_of(rig)) == [0, 1, 2]
    assert len(set(_owner_of(rig).values())) == 2

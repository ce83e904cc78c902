"""Shutting down in whatever phase a rebalance is: it ends at once, and nothing of it stays
(docs/spec/consumer-client.md#D8, #E5)."""

from typing import Any

import pytest

from muster.errors import ClientClosed
from muster.streams.rebalance import RebalancePhase
from protocol.messages.groups import DescribeGroups
from tests.client.consumer_rig import GROUP, Never, P
from tests.client.streams.rig import ConnectorRig

HASTY: dict[str, Any] = {"rebalance_timeout_ms": 10_000, "rebalance_backoff_ms": 500}
STUCK = {
    RebalancePhase.COMMITTING: "OffsetCommit",
    RebalancePhase.RELEASING: "ReleasePartitions",
    RebalancePhase.JOINING: "JoinGroup",
    RebalancePhase.READING: "OffsetFetch",
    RebalancePhase.CLAIMING: "ClaimPartitions",
}


@pytest.mark.parametrize(
    "phase",
    [
        *STUCK,
        RebalancePhase.RUNNING,
        RebalancePhase.FINISHING,
        RebalancePhase.BEFORE_RELEASING,
        RebalancePhase.BEFORE_STARTING,
    ],
    ids=lambda one: one.name,
)
def test_shutting_down_in_the_middle_leaves_the_group_and_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, phase: RebalancePhase
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)
    rig.append(*P[:4], count=3)
    leaver = rig.player("leaver", **HASTY).reads(t=2)
    other = rig.player("other", consumer_timeout_ms=0, **HASTY)
    rig.run(1_000)
    leaver.take_all(at_most=1)
    if phase is not RebalancePhase.FINISHING:
        leaver.iterates()
    if phase in STUCK:
        rig.script = lambda who, message: Never if (who, type(message).__name__) == ("leaver", STUCK[phase]) else None
    told = {RebalancePhase.BEFORE_RELEASING: "before_releasing", RebalancePhase.BEFORE_STARTING: "before_starting"}
    if phase in told:
        leaver.listener.does[told[phase]] = lambda: rig.run(5_000, until=lambda: leaver.has_stopped)
    if phase is not RebalancePhase.RUNNING:
        other.begins({"t": 2})
    rig.until(lambda: leaver.parts.steps.phase is phase)
    rig.script = lambda _who, _message: None
    began_ms = rig.now_ms
    leaver.leave()
    assert rig.now_ms - began_ms < 7_000, "what is under way may take its time, and no more"
    assert leaver.parts.steps.phase is RebalancePhase.CLOSED
    assert leaver.owned == {}
    rig.until(lambda: phase is RebalancePhase.RUNNING or sorted(other.owned.get("t", {})) == [0, 1, 2, 3])
    assert len(rig.members()) == (phase is not RebalancePhase.RUNNING)
    assert all(one.member_id == other.connector.member_id for one in rig.owners())
    assert [next(stream, None) for stream in leaver.streams] == [None, None]


def test_shutting_down_before_there_are_streams_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    player = rig.player("C1")
    player.leave()
    assert rig.of("JoinGroup", "FindCoordinator") == []
    with pytest.raises(ClientClosed):
        player.connector.set_rebalance_listener(player.listener)


def test_shutting_down_while_the_streams_are_being_made_raises_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    player = rig.player("C1")
    rig.script = lambda _who, message: Never if type(message).__name__ == "JoinGroup" else None
    rig.after(1_000, player.connector.shutdown)
    with pytest.raises(ClientClosed):
        player.reads(t=1)


def test_the_last_commit_is_tried_so_often_and_then_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=3)
    player = rig.player("C1", request_timeout_ms=500, offsets_commit_max_retries=3).reads(t=1)
    rig.run(1_000)
    player.take_all()
    rig.script = lambda _who, message: Never if type(message).__name__ == "OffsetCommit" else None
    player.leave()
    assert len(rig.of("OffsetCommit")) == 3
    assert len(rig.of("LeaveGroup")) == 1
    assert rig.node.ask_inside(DescribeGroups((GROUP,)), call=93) is not None
    assert rig.members() == []

"""Rebalances cause no flush, push, check or turn that nobody needs."""

from collections.abc import Hashable
from typing import Any

import pytest

from coordinator.core.budget import READS_A_STEP
from coordinator.keys import PhaseKey
from coordinator.node.effects import Effect, Flush, Pause, Send
from coordinator.node.events import Lost, Received
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from tests.node.test_kafka import KafkaNodeRig, Peer

OFFERS = (JoinProtocol("range", b"x"), JoinProtocol("cooperative-sticky", b"x"))
DELAY_MS, NOTES_MS = 3_000, 1_000
NATIVE = 7


def join(member_id: str = "") -> JoinGroup:
    return JoinGroup("g", 60_000, member_id, "consumer", OFFERS, 60_000, wants_member_id_first=False)


class Fleet:
    """A group of Kafka's clients, a connection each, which stands."""

    def __init__(self, size: int) -> None:
        self.node_rig = KafkaNodeRig(group_initial_rebalance_delay_ms=DELAY_MS)
        self.peers = [Peer(self.node_rig, number) for number in range(100, 100 + size)]
        for peer in self.peers:
            peer.send((join(), 3))
        for _ in range(2):  # the second member prolongs the wait
            self.node_rig.wait(DELAY_MS)
        self.joined = [reply for peer in self.peers for reply in peer.heard() if isinstance(reply, JoinGroupReply)]
        for sync in self.syncs():
            self.node_rig.step(sync)
        assert all(
            isinstance(reply, SyncGroupReply) and reply.assignment for peer in self.peers for reply in peer.heard()
        )

    def syncs(self) -> list[Received]:
        """A SyncGroup of each member."""
        given = tuple([SyncGroupAssignment(one.member_id, b"share") for one in self.joined])
        asked = [
            SyncGroup("g", one.generation_id, one.member_id, assignments=given if one.members else ())
            for one in self.joined
        ]
        return [Received(peer.number, peer.data((sync, 3))) for peer, sync in zip(self.peers, asked, strict=True)]

    def rejoins(self) -> list[Received]:
        """A JoinGroup of each member, as before."""
        rejoining = zip(self.peers, self.joined, strict=True)
        return [Received(peer.number, peer.data((join(one.member_id), 3))) for peer, one in rejoining]

    def add(self) -> list[Effect]:
        """Let a new member begin a rebalance."""
        return Peer(self.node_rig, 99).send((join(), 3))


def kinds(effects: list[Effect]) -> set[type[Effect]]:
    return {type(effect) for effect in effects}


def test_joins_that_wait_force_no_flush_and_their_notes_go_with_the_assignments() -> None:
    fleet = Fleet(3)
    store = fleet.node_rig.store
    assert kinds(fleet.add()) == set()
    assert all(Flush not in kinds(fleet.node_rig.step(rejoin)) for rejoin in fleet.rejoins())
    assert store.flushed < store.position, "the notes of the rebalance"
    fleet.joined = [reply for peer in fleet.peers for reply in peer.heard() if isinstance(reply, JoinGroupReply)]
    assert Flush in kinds(fleet.node_rig.step(fleet.syncs()[0]))
    assert store.flushed >= store.position


def test_a_list_of_groups_does_not_wait_for_notes() -> None:
    fleet = Fleet(3)
    fleet.add()
    assert fleet.node_rig.store.flushed < fleet.node_rig.store.position
    listed = fleet.node_rig.ask_inside(ListGroups())
    assert isinstance(listed, ListGroupsReply)
    assert [group.group_id for group in listed.groups] == ["g"]


def test_notes_that_nothing_else_has_flushed_are_on_disk_a_second_later() -> None:
    fleet = Fleet(3)
    fleet.add()
    store = fleet.node_rig.store
    assert store.flushed < store.position
    fleet.node_rig.wait(NOTES_MS)
    assert store.flushed >= store.position


def test_connections_that_can_receive_pushes_are_known_while_they_are_open() -> None:
    rig = KafkaNodeRig()
    Peer(rig, 1)
    rig.connect(NATIVE)
    assert rig.node.core.outbox.listening == {NATIVE}
    rig.step(Lost(NATIVE))
    assert not rig.node.core.outbox.listening


def test_all_that_join_again_in_one_turn_are_served_in_one_step() -> None:
    fleet = Fleet(READS_A_STEP - 1)
    fleet.add()
    effects = fleet.node_rig.node.step_many(fleet.rejoins(), fleet.node_rig._moment())
    sent = [effect.connection for effect in effects if isinstance(effect, Send)]
    assert sorted(sent) == [99, *(peer.number for peer in fleet.peers)]
    assert Pause not in kinds(effects)


def test_while_a_group_waits_for_others_the_purgatory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(4)
    fleet.add()
    purgatory = fleet.node_rig.node.core.purgatory
    check, asked = purgatory.check_and_complete, []

    def noted(key: Hashable) -> list[Any]:
        asked.append(key)
        return check(key)

    monkeypatch.setattr(purgatory, "check_and_complete", noted)
    *waiting, last = fleet.rejoins()
    for rejoin in waiting:
        fleet.node_rig.step(rejoin)
    assert PhaseKey("g") not in asked
    fleet.node_rig.step(last)
    assert asked.count(PhaseKey("g")) == 1
    fleet.joined = [reply for peer in fleet.peers for reply in peer.heard() if isinstance(reply, JoinGroupReply)]
    for sync in fleet.syncs():
        fleet.node_rig.step(sync)
    assert asked.count(PhaseKey("g")) == 1, "the new member has not synced"

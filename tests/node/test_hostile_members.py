"""Random histories of clients of both protocols that keep to none, in one group that changes its kind again and again:
any member id with any epoch, generation and instance, topics that come and go, and restarts from the log and from
snapshots. Afterwards a consumer must still get every partition (docs/spec/consumer-group-protocol.md#1.4, #12, #13)."""

import random
from typing import Any

import pytest

from coordinator.runtime.group import GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, TopicIdPartitions
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics, DeletableTopic, DeleteTopics
from tests.enumerations import some
from tests.groups.checks import consumer_state
from tests.node.consumer_rig import Rig, encoded

MEMBERS, INSTANCES = ("a", "b", "c", "d"), (None, None, "i", "j")
NAMES: tuple[tuple[str, ...], ...] = ((), ("T",), ("U",), ("T", "U"), ("missing",))
PARKED = (JoinGroup, SyncGroup)
SILENCE = 20 * (5_000,)
"""Waits that together are longer than a rebalance and all sessions."""


class Crowd:
    """The clients, and the one group."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig = Rig(
            group_consumer_assignment_interval_ms=self.chance.choice((0, 0, 3_000)),
            group_consumer_max_size=self.chance.choice((2, 100, 100)),
        )
        self.known = set(MEMBERS)
        self.call = 1_000

    def ask(self, message: Message) -> Any:
        """The reply, which only a JoinGroup and a SyncGroup may wait for."""
        self.call += 1
        self.rig.ask_aside(message, self.call)
        self.rig.describe()  # the invariants hold, and the log says the same
        reply = self.rig.node_rig.replied.get(self.call)
        assert reply is not None or isinstance(message, PARKED), f"no reply to {message}"
        assert getattr(reply, "error_code", 0) != ErrorCode.UNKNOWN_SERVER_ERROR, (message, reply)
        self.known.add(getattr(reply, "member_id", None) or "a")
        return reply

    def step(self) -> None:
        draw = self.chance.random()
        if draw < 0.85:
            self.ask(self.drawn())
        elif draw < 0.90:
            self.rig.node_rig.wait(self.chance.choice((1, 1_000, 4_000, 11_000, 50_000)))
        elif draw < 0.95:
            self.change_topics()
        else:
            self.restart()

    def drawn(self) -> Message:
        chance, group = self.chance, self.rig.node_rig.node.core.directory.get("g")
        name, instance = chance.choice(sorted(self.known)), chance.choice(INSTANCES)
        epoch = chance.choice((-3, -2, -2, -1, 0, 0, 0, 1, 2))
        if group is not None and chance.random() < 0.6:
            if group.kind is GroupKind.CONSUMER and (member := group.as_consumer().members.get(name)) is not None:
                epoch = chance.choice((member.current.epoch, member.current.epoch, member.current.previous_epoch))
                instance = chance.choice((instance, member.subscription.instance_id))
            elif group.kind is GroupKind.CLASSIC:
                epoch = group.classic.generation_id
        draw = chance.random()
        if draw < 0.4:
            return self.consumer_beat(name, epoch, instance)
        if draw < 0.6:
            owned: dict[str, tuple[int, ...]] = {"T": (0, 1)} if chance.random() < 0.2 else {}
            joining = "" if chance.random() < 0.3 else name
            topics = chance.choice(NAMES)
            return self.rig.join_group(joining, topics, owned, group_instance_id=instance)
        if draw < 0.7:
            given = (SyncGroupAssignment(name, encoded({"T": (0, 1, 2, 3)})),)
            return SyncGroup("g", epoch, name, instance, assignments=given if chance.random() < 0.7 else ())
        if draw < 0.8:
            return Heartbeat("g", epoch, name, instance)
        if draw < 0.85:
            return LeaveGroup("g", (LeavingMember(name, instance), LeavingMember(chance.choice(MEMBERS))))
        parts = (OffsetCommitPartition(chance.randrange(5), 7),)
        return OffsetCommit("g", (OffsetCommitTopic(chance.choice(("T", "U")), parts),), epoch, name)

    def consumer_beat(self, name: str, epoch: int, instance: str | None) -> ConsumerGroupHeartbeat:
        chance, fields = self.chance, dict[str, Any]()
        if epoch == 0 or chance.random() < 0.2:
            fields = {"subscribed_topic_names": chance.choice(NAMES), "rebalance_timeout_ms": 5_000}
            if chance.random() < 0.3:
                fields["subscribed_topic_regex"] = chance.choice(("T|U", "U.*", "", "("))
        claims: tuple[TopicIdPartitions, ...] | None = ()
        if epoch != 0:
            topic_id = self.rig.node_rig.node.core.topics.id_of("T") or bytes(16)
            claims = chance.choice((None, (), (TopicIdPartitions(topic_id, (0, 1)),)))
        return ConsumerGroupHeartbeat("g", name, epoch, instance, topic_partitions=claims, **fields)

    def change_topics(self) -> None:
        """Delete a topic, and mostly make it again under its name."""
        name = self.chance.choice(("T", "U"))
        if self.rig.node_rig.node.core.topics.id_of(name) is not None:
            self.ask(DeleteTopics((DeletableTopic(name),)))
        if self.chance.random() < 0.8:
            self.ask(CreateTopics((CreatableTopic(name, self.chance.randrange(1, 5)),)))

    def restart(self) -> None:
        before = self.state()
        self.rig.restart(is_clean=self.chance.random() < 0.5)
        assert self.state() == before, "a restart has changed the group"

    def state(self) -> Any:
        """State of a consumer group, which a restart must keep; None for a classic one, and for none."""
        group = self.rig.node_rig.node.core.directory.get("g")
        if group is not None and group.kind is GroupKind.CONSUMER:
            return consumer_state(group.as_consumer())
        return None

    def end(self) -> None:
        """All fall silent; then a consumer gets everything."""
        for wait_ms in SILENCE:
            self.rig.node_rig.wait(wait_ms)
        if self.rig.node_rig.node.core.topics.id_of("T") is None:
            self.ask(CreateTopics((CreatableTopic("T", 3),)))
        reply = self.ask(ConsumerGroupHeartbeat("g", "z", 0, None, None, 5_000, ("T",), topic_partitions=()))
        assert not reply.error_code, reply
        for _ in range(3):
            self.rig.node_rig.wait(3_001)
            reply = self.rig.beat("z", reply.member_epoch)
            assert not reply.error_code, reply
        group = self.rig.group.as_consumer()
        assert group.members.keys() == {"z"} and group.state.title == "Stable"
        found = group.topics.find("T")
        assert found is not None
        held = {number for topic_id, number, _ in group.members["z"].current.held if topic_id == found.topic_id}
        assert held == set(range(found.partitions))


@pytest.mark.parametrize("seed", some(range(12)))
def test_a_group_outlives_clients_that_keep_to_no_protocol(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(80):
        crowd.step()
    crowd.end()

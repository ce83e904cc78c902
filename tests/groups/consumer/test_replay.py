"""Loading and random histories (docs/spec/consumer-group-protocol.md#19.10). Each test names its scenarios."""

import random
from typing import Any

import pytest

from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.offsets import refuse_commit
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.records.codec import decode, encode
from coordinator.records.consumer_records import AssignmentRecord
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.enumerations import some
from tests.groups.checks import consumer_state
from tests.groups.consumer.rig import Rig

JOIN_AGAIN = (25, 110)


def test_scenario_84_a_restart_in_the_middle_of_a_revocation() -> None:
    rig = Rig()
    rig.join("A", "T", rebalance_timeout_ms=1_500)
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.heartbeat("B", 3)
    before = rig.described, rig.held("A"), rig.held("B")
    rig.wait(1_000)
    rig.restart()
    assert (rig.described, rig.held("A"), rig.held("B")) == before
    assert rig.seen("B", 3) == (0, 3, None)
    assert rig.seen("A", 2, "T0,1,2,3") == (0, 2, None)
    rig.wait(1_499)
    assert "A" in rig.group.members
    rig.wait(1)
    assert "A" not in rig.group.members, "the rebalance timer runs again, in full"
    assert rig.seen("B", 3) == (0, 4, "T0,1,2,3")


def test_scenario_84_sessions_begin_anew_after_a_restart() -> None:
    rig = Rig(session_timeout_ms=1_000)
    rig.join("A", "T")
    rig.wait(900)
    rig.restart()
    rig.wait(999)
    assert rig.seen("A", 2) == (0, 2, None)


def test_scenario_85_the_reply_was_lost_in_a_crash() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.heartbeat("A", 2, "T0,1")
    rig.restart()
    assert rig.seen("A", 2, "T0,1") == (0, 3, None)


def test_scenario_86_assignments_without_epochs_have_that_of_their_record() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.topics.grow("T", 5)
    rig.heartbeat("A", 2)
    topic = rig.topics.find("T")
    assert topic is not None
    value = b"\0\0" + b"\0\0\0\3\0\0\0\2\0" + b"\2" + topic.topic_id + b"\2\0\0\0\0\0" + b"\1" + b"\0"
    key, _ = encode(AssignmentRecord("g", "A", 3, 2))
    record = decode(key, value)
    assert isinstance(record, AssignmentRecord)
    apply(rig.group, record)
    parts = (OffsetCommitPartition(0, 7),)
    assert refuse_commit(rig.group, OffsetCommit("g", (OffsetCommitTopic("T", parts),), 2, "A")) == 113
    assert refuse_commit(rig.group, OffsetCommit("g", (OffsetCommitTopic("T", parts),), 3, "A")) == 0


class Client:
    """A member that follows the protocol, but for replies that it may lose."""

    def __init__(self, rig: Rig, name: str, chance: random.Random, instance_id: str | None) -> None:
        self.rig, self.name, self.chance, self.instance_id = rig, name, chance, instance_id
        self.names: tuple[str, ...] = ("T",)
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.is_full = False

    def beat(self) -> None:
        fields: dict[str, Any] = {}
        if self.instance_id is not None:
            fields["instance_id"] = self.instance_id
        if self.epoch == 0 or self.is_full:
            fields |= {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": self.names}
        if self.epoch == 0:
            self.owned = set()
        says = self.epoch == 0 or self.is_full or self.chance.random() < 0.5
        reply = self.rig.heartbeat(self.name, self.epoch, self._owned() if says else None, **fields)
        if self.chance.random() < 0.1:
            self.is_full = True
            return
        self._hear(reply)

    def _hear(self, reply: ConsumerGroupHeartbeatReply) -> None:
        if reply.error_code in JOIN_AGAIN:
            self.epoch = 0
        elif reply.error_code:
            self.is_full = True
        else:
            assert reply.member_epoch >= self.epoch, "a member's epoch went back"
            self.epoch, self.is_full = reply.member_epoch, False
            if reply.assignment is not None:
                self.owned = {
                    (self.rig.topics.name_of(one.topic_id) or "", number)
                    for one in reply.assignment.topic_partitions
                    for number in one.partitions
                }

    def _owned(self) -> str:
        return " ".join(f"{name}{number}" for name, number in sorted(self.owned) if self.rig.topics.find(name))

    def leave(self) -> None:
        if self.epoch > 0:
            epoch = -2 if self.instance_id is not None and self.chance.random() < 0.7 else -1
            fields = {"instance_id": self.instance_id} if self.instance_id is not None else {}
            self.rig.heartbeat(self.name, epoch, **fields)
        self.epoch, self.owned = 0, set()


def compacted(rig: Rig, chance: random.Random) -> ConsumerGroup:
    """Replay what compaction left: the last record of a key, and earlier ones of some keys."""
    latest: dict[bytes, int] = {}
    log = [encode(record) for batch in rig.batches for record in batch]
    for at, (key, _value) in enumerate(log):
        latest[key] = at
    dirty_from = chance.randrange(len(log) + 1)
    kept = [decode(*one) for at, one in enumerate(log) if at >= dirty_from or latest[one[0]] == at]
    return rig.replayed([[record for record in kept if record is not None]])  # type: ignore[misc]


@pytest.mark.parametrize("seed", some(range(24)))
def test_any_history_keeps_its_invariants_and_converges(seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig({"T": 7, "U": 4}, assignment_interval_ms=chance.choice((0, 0, 3_000)), session_timeout_ms=10_000)
    names = [("a", None), ("b", "i"), ("c", None), ("d", "j")]
    clients = [Client(rig, name, chance, instance_id) for name, instance_id in names]
    for step in range(80):
        client = chance.choice(clients)
        draw = chance.random()
        if draw < 0.75:
            client.beat()
        elif draw < 0.82:
            client.leave()
        elif draw < 0.88:
            client.names, client.is_full = chance.choice([("T",), ("U",), ("T", "U"), ()]), True
        elif draw < 0.92:
            rig.wait(chance.randrange(6_000))
        elif draw < 0.95:
            rig.topics.grow("U", 4 + step // 10)
        else:
            rig.restart()
        held = [place for one in clients for place in one.owned if one.epoch > 0 and _is_member(rig, one)]
        assert len(held) == len(set(held)), f"seed {seed}: two clients hold one partition"
        assert consumer_state(compacted(rig, chance)) == consumer_state(rig.group)
    for _ in range(30):
        rig.wait(1_000)
        for client in clients:
            client.chance = random.Random(1)  # a sequence without a loss at its start
            client.beat()
    assert rig.group.state.title == "Stable", f"seed {seed}"
    for client in clients:
        assert client._owned() == " ".join(f"{n}{p}" for n, p in sorted(_targets(rig, client.name)))


def _is_member(rig: Rig, client: Client) -> bool:
    member = rig.group.members.get(client.name)
    return member is not None and member.current.epoch >= client.epoch


def _targets(rig: Rig, member_id: str) -> set[tuple[str, int]]:
    target = rig.group.targets.get(member_id, {}).items()
    return {(rig.topics.name_of(topic_id) or "", number) for topic_id, numbers in target for number in numbers}

"""Pushes to members of server-driven groups: how long it takes, with heartbeats of 5 s, until everybody has its share.

Members are played here, natively, on the node's clock. Each beats every 5 s, and at once when it has partitions to give
up or is pushed; one that `is_deaf` overhears the pushes, as every member does that speaks Kafka's protocol.
"""

import pytest

from coordinator.groups.consumer import target
from protocol.messages.consumer_groups import (
    LEAVING,
    AssignmentChanged,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicIdPartitions,
)
from tests.node.consumer_rig import Rig

HEARTBEAT_MS = 5_000


class Player:
    """A member on a connection of its own."""

    def __init__(self, rig: Rig, number: int, *, is_deaf: bool = False) -> None:
        self.rig, self.name, self.is_deaf = rig, f"m{number}", is_deaf
        self.connection = rig.node_rig.connect(number + 10)
        self.epoch = self.beats = self.pushes = 0
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self.next_ms = 0
        self.beat()

    @property
    def count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    def beat(self, *, is_mute: bool = False) -> None:
        """Report what it owns, which acknowledges a revocation; one that `is_mute` does not."""
        is_new = self.epoch == 0
        self._ask(
            ConsumerGroupHeartbeat(
                "g",
                self.name,
                self.epoch,
                topic_partitions=None if is_mute else self.owned,
                rebalance_timeout_ms=60_000 if is_new else -1,
                subscribed_topic_names=("W",) if is_new else None,
            )
        )

    def leave(self) -> None:
        self.rig.node_rig.ask(self.connection, ConsumerGroupHeartbeat("g", self.name, LEAVING))

    def _ask(self, request: ConsumerGroupHeartbeat) -> None:
        self.beats += 1
        self.next_ms = self.rig.node_rig.now_ms + HEARTBEAT_MS
        self._hear(*self.rig.node_rig.ask(self.connection, request))

    def hear(self) -> None:
        self._hear(*self.rig.node_rig.heard(self.connection))

    def _hear(self, *messages: object) -> None:
        for message in messages:
            if isinstance(message, AssignmentChanged):
                self.pushes += 1
                self.next_ms = self.next_ms if self.is_deaf else self.rig.node_rig.now_ms
            elif isinstance(message, ConsumerGroupHeartbeatReply):
                assert not message.error_code
                self.epoch = message.member_epoch
                if message.assignment is not None and message.assignment.topic_partitions != self.owned:
                    self.owned = message.assignment.topic_partitions
                    self.next_ms = self.rig.node_rig.now_ms


class Team:
    """Members of `g`, which read W."""

    def __init__(self, members: int, partitions: int, *, is_deaf: bool = False, interval_ms: int = 0) -> None:
        self.rig = Rig(group_consumer_assignment_interval_ms=interval_ms)
        self.rig.node_rig.make_topic("W", partitions)
        self.partitions, self.is_deaf = partitions, is_deaf
        self.members: list[Player] = []
        for _ in range(members):
            self.add()
            self.settle()

    def add(self) -> Player:
        self.members.append(Player(self.rig, len(self.members) + 1, is_deaf=self.is_deaf))
        return self.members[-1]

    @property
    def is_balanced(self) -> bool:
        counts = [one.count for one in self.members]
        return sum(counts) == self.partitions and max(counts) - min(counts) <= 1

    def settle(self) -> int:
        """Let time pass until everybody has its share, and nothing is said; return how long that took, in ms."""
        node_rig = self.rig.node_rig
        began_ms = node_rig.now_ms
        while True:
            node_rig.wake_until_idle()
            for one in self.members:
                one.hear()
                while one.next_ms <= node_rig.now_ms:
                    one.beat()
            next_ms = min(one.next_ms for one in self.members)
            if next_ms > node_rig.now_ms and not any(node_rig.received[one.connection] for one in self.members):
                if self.is_balanced:
                    return node_rig.now_ms - began_ms
                assert node_rig.now_ms - began_ms < 60_000, "nobody converges"
                due_ms = node_rig.node.next_deadline_ms
                node_rig.now_ms = next_ms if due_ms is None else max(min(next_ms, due_ms), node_rig.now_ms)

    def count(self) -> tuple[int, int]:
        """Return how many heartbeats were sent, and how many pushes came."""
        return sum(one.beats for one in self.members), sum(one.pushes for one in self.members)


@pytest.mark.parametrize("at_once_us", [0, target.AT_ONCE_US])
def test_a_member_that_joins_gets_its_share_without_waiting_for_a_heartbeat(
    monkeypatch: pytest.MonkeyPatch, at_once_us: int
) -> None:
    monkeypatch.setattr(target, "AT_ONCE_US", at_once_us)
    took: dict[bool, int] = {}
    for is_deaf in (True, False):
        team = Team(4, 20, is_deaf=is_deaf)
        team.add()
        took[is_deaf] = team.settle()
    assert took[False] == 0
    assert took[True] >= HEARTBEAT_MS


def test_only_who_waits_for_what_became_free_is_told() -> None:
    """The newcomer takes one partition of each other member: its owners are told of the new target, and it is told of
    each partition, and nobody of anything else."""
    team = Team(30, 1_000)
    before = team.count()
    team.add()
    assert team.settle() == 0
    beats, pushes = team.count()
    moved = team.members[-1].count
    owners = sum(one.count < 34 for one in team.members[:-1])
    assert pushes - before[1] <= owners + moved
    assert beats - before[0] <= 3 * owners + moved + 2, "a target, a revocation, an acknowledgement"


@pytest.mark.parametrize("ends", ["leaves", "falls silent", "does not revoke"])
def test_what_a_member_holds_that_goes_is_given_to_who_waits_for_it(ends: str) -> None:
    """`m1` is told to give up half, and does not; `m2` waits for that half."""
    rig = Rig(group_consumer_session_timeout_ms=45_000)
    rig.node_rig.make_topic("W", 4)
    first = Player(rig, 1)
    second = Player(rig, 2)
    first.beat()
    assert (first.count, second.count, second.pushes) == (2, 0, 0)
    if ends == "leaves":
        first.leave()
    else:
        timeout_ms = 45_000 if ends == "falls silent" else 60_000
        while rig.node_rig.now_ms < timeout_ms:
            rig.node_rig.wait(1_000)
            second.hear()
            assert second.pushes == 0 or rig.node_rig.now_ms == timeout_ms
            second.beat()
            if ends == "does not revoke" and rig.node_rig.now_ms < timeout_ms:
                first.beat(is_mute=True)
    second.hear()
    assert second.pushes == 2, "one for what is free, one for the target that is due"


def test_a_target_that_is_due_is_computed_by_heartbeats_that_were_asked_for() -> None:
    """With an interval of a second between two targets: who joins within it waits for its end, and not for anybody's
    next heartbeat. Members that cannot be told wait for one."""
    took: dict[bool, tuple[int, int]] = {}
    for is_deaf in (True, False):
        team = Team(3, 12, is_deaf=is_deaf, interval_ms=1_000)
        team.rig.node_rig.now_ms += 1_500
        team.add()
        team.add()
        joined = team.settle()
        team.rig.node_rig.now_ms += 1_500
        team.members.pop(0).leave()
        took[is_deaf] = joined, team.settle()
    assert took[False] == (1_000, 0)
    assert took[True][0] > 4_000 and took[True][1] > 2_000


def test_a_group_that_nobody_can_be_told_of_keeps_its_target_until_a_heartbeat() -> None:
    rig = Rig(group_consumer_assignment_interval_ms=1_000)
    rig.join("A", "T")
    rig.join("B", "T")
    rig.node_rig.wait(4_000)
    assert rig.epochs == "Assigning 3/2"
    rig.beat("B", 2)
    assert rig.epochs == "Reconciling 3/3"

"""A member of a server-driven consumer group in the simulated world: it sends heartbeats, revokes what it is told to
revoke, at once or later, and drops all when its session expires by its own clock, as Kafka's clients do. Now and then
it also sends a request with an epoch that it does not have, as a zombie would. It speaks the native protocol, where
pushes tell it to ask at once, or Kafka's.
"""

import re
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroupHeartbeat,
    TopicIdPartitions,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.simulation.faults import Seen
from tests.simulation.native_member import SESSION_MS, NativeMember, Watcher
from tests.simulation.network import Clock, Link
from tests.simulation.wires import NATIVE, Dialect, server_driven_versions

GROUP = "consumers"
HEARTBEAT_MS = 1_000
_MORE_THAN_ANY = 100  # topic has partitions
REBALANCE_MS = 3 * SESSION_MS
_SUBSCRIPTIONS = (("alpha",), ("beta",), ("alpha", "beta"), ("alpha", "beta"))
_REVOCATIONS_MS = (0, 0, 700, 3_000)
"""Times that members take to revoke: to finish what they do, and to commit."""
_JOIN_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)

TopicIdPartition = tuple[bytes, int]


class ConsumerWatcher(Watcher, Protocol):
    """Checks everything that could be wrong."""

    @property
    def is_quiet(self) -> bool:
        """True once the faults have stopped: nothing changes any more."""

    def took(self, member: "ConsumerSim") -> None: ...

    def epoch_answered(self, member: "ConsumerSim", before: int, after: int) -> None: ...

    def wronged(self, member: "ConsumerSim", how: str) -> None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...


def draw_dialect(random: Random, kafka: float, *, is_static: bool) -> Dialect:
    """Draw the dialect of a member; this share of them speaks Kafka's protocol. Nothing is drawn if none does: then a
    seed is the world that it was when all members were native ones.

    An instance keeps the regular expression that it had (docs/spec/consumer-group-protocol.md#7.2), and cannot clear it
    in a version that has none."""
    if not kafka or random.random() >= kafka:
        return NATIVE
    return Dialect("kafka", server_driven_versions(random, has_regex=is_static))


class ConsumerSim(NativeMember[ConsumerWatcher]):
    """After a failure its next heartbeat is a full request. In version 0 of Kafka's heartbeat the coordinator makes its
    id, and it has no regular expression.
    """

    give_up_ms = 2_500

    def __init__(
        self,
        name: str,
        instance_id: str | None,
        clock: Clock,
        random: Random,
        open_link: Callable[..., Link | None],
        watcher: ConsumerWatcher,
        seen: Seen,
        dialect: Dialect = NATIVE,
    ) -> None:
        super().__init__(name, instance_id, clock, random, open_link, watcher, seen, dialect)
        is_oldest = dialect.versions.get(ConsumerGroupHeartbeat) == 0
        self.member_id = "" if is_oldest else name
        """The id that the coordinator knows it by."""
        self.epoch = JOINING
        self.owned: set[TopicIdPartition] = set()
        self._topics = random.choice(_SUBSCRIPTIONS)
        regex = random.choice(("", "", "alpha|beta", "al.*"))
        self._regex = "" if is_oldest else regex
        self._is_full, self._must_report = True, False
        self._revocation_ms = random.choice(_REVOCATIONS_MS)
        self._goal: tuple[set[TopicIdPartition], int] | None = None
        self._losses = 0  # since it joined: a request that was given up may arrive later than the next one
        self._untrue: Message | None = None
        self._next_ms = self._offset = 0

    @property
    def subscribed(self) -> set[str]:
        """Return the topics that it reads."""
        matched = [name for name in ("alpha", "beta") if self._regex and re.fullmatch(self._regex, name)]
        return {*self._topics, *matched}

    @property
    def places(self) -> set[tuple[str, int]]:
        """Return the partitions that it holds, by topic."""
        return {(self._watcher.topic_name(topic_id) or "", number) for topic_id, number in self.owned}

    def _drop_if_over(self) -> None:
        if self.owned and not self.is_alive:
            self._seen.add("consumer sessions that were over by the member's clock")
            self._join_again()

    # --- what to say ---

    def _next(self) -> Message | None:
        if self._leaving and self.epoch > JOINING:
            self.owned.clear()
            is_back_soon = self.instance_id is not None and self._random.random() < 0.7
            return self._heartbeat(epoch=LEAVING_FOR_NOW if is_back_soon else LEAVING)
        if self._leaving:
            self.running = False
            return None
        now_ms = self._clock.now_ms
        self._revoke_if_due()
        if self.owned and self._random.random() < 0.05:
            return self._commit()
        if self.epoch > JOINING and not self._is_full and self._random.random() < 0.01:
            self._untrue = self._of_another_epoch()
            return self._untrue
        if now_ms < self._next_ms and not self._must_report:
            return None
        if self._random.random() < 0.03 and not self._watcher.is_quiet:
            self._topics, self._is_full = self._random.choice(_SUBSCRIPTIONS), True
        self._next_ms = now_ms + HEARTBEAT_MS
        if self.epoch == JOINING:
            self.owned.clear()
            return self._heartbeat(owned=(), **self._properties())
        if self._is_full:
            return self._heartbeat(owned=self._reported(), **self._properties())
        says_more = self._must_report or (self._goal is None and self._random.random() < 0.3)
        return self._heartbeat(owned=self._reported() if says_more else None)

    def _properties(self) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": self._topics,
            "subscribed_topic_regex": self._regex,
        }

    def _heartbeat(self, *, epoch: int | None = None, owned: Any = None, **fields: Any) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            GROUP,
            self.member_id,
            self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            topic_partitions=owned,
            **fields,
        )

    def _reported(self) -> tuple[TopicIdPartitions, ...]:
        numbers: dict[bytes, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            numbers.setdefault(topic_id, []).append(number)
        return tuple(TopicIdPartitions(topic_id, tuple(some)) for topic_id, some in numbers.items())

    def _of_another_epoch(self) -> ConsumerGroupHeartbeat:
        """Build a request that no member may send: with an epoch that it has never had, or with the one before and all
        partitions. It may have the next epoch if it has given up a heartbeat: that may arrive late."""
        topic_ids = {topic_id for topic_id, _ in self.owned}
        if self.epoch == 1 or not topic_ids or self._random.random() < 0.5:
            ahead = self._random.choice((1, 1_000))
            return self._heartbeat(epoch=self.epoch + (1_000 if self._losses else ahead))
        claims = tuple(TopicIdPartitions(topic_id, (*range(_MORE_THAN_ANY),)) for topic_id in sorted(topic_ids))
        return self._heartbeat(epoch=self.epoch - 1, owned=claims)

    def _commit(self) -> Message | None:
        topic_id, number = self._random.choice(sorted(self.owned))
        name = self._watcher.topic_name(topic_id)
        if name is None:
            return None
        self._offset += 1
        parts = (OffsetCommitPartition(number, self._offset),)
        return OffsetCommit(GROUP, (OffsetCommitTopic(name, parts),), self.epoch, self.member_id)

    # --- what is heard ---

    def _lost(self, message: Message | None) -> None:
        self._is_full = True
        self._losses += isinstance(message, ConsumerGroupHeartbeat) and message is not self._untrue

    def _pushed(self) -> None:
        self._next_ms = 0

    def _heard(self, message: Message, reply: Any, asked_ms: int) -> None:
        if isinstance(message, OffsetCommit):
            self._seen.add(f"consumer: commit {reply.topics[0].partitions[0].error_code.name}")
            return
        assert isinstance(message, ConsumerGroupHeartbeat)
        if message is self._untrue:
            self._seen.add(f"consumer: another epoch {reply.error_code.name}")
            if not reply.error_code:
                self._watcher.wronged(self, f"may say epoch {message.member_epoch}, it was told {self.epoch}")
            return
        self._seen.add(f"consumer: heartbeat {reply.error_code.name}")
        if self.epoch == JOINING < message.member_epoch:
            return  # its session was over by its own clock before the answer came: it joins again
        if reply.error_code in _JOIN_AGAIN:
            is_told = message.topic_partitions is not None
            if reply.error_code is ErrorCode.FENCED_MEMBER_EPOCH and is_told and self._losses <= 1:
                self._watcher.wronged(self, f"is fenced at epoch {self.epoch}, and lost {self._losses} replies")
            self._join_again()
        elif reply.error_code:
            self._is_full = True
            if reply.error_code is ErrorCode.UNRELEASED_INSTANCE_ID:
                self._next_ms = self._clock.now_ms + HEARTBEAT_MS
        elif message.member_epoch < JOINING:
            self.running = False
        else:
            self._answered(message, reply, asked_ms)

    def _answered(self, message: ConsumerGroupHeartbeat, reply: Any, asked_ms: int) -> None:
        self._watcher.epoch_answered(self, message.member_epoch, reply.member_epoch)
        self.session_from_ms, self.member_id = asked_ms, reply.member_id or self.member_id
        self.epoch, self._is_full, self._must_report = reply.member_epoch, False, False
        if reply.assignment is None:
            return
        told = {(one.topic_id, number) for one in reply.assignment.topic_partitions for number in one.partitions}
        strange = {self._watcher.topic_name(topic_id) for topic_id, _ in told} - self.subscribed
        if strange:
            self._watcher.wronged(self, f"is given {strange}, and subscribes to {self.subscribed}")
        if self.owned <= told or not self._revocation_ms:
            self._take(told)
            return
        due_ms = self._clock.now_ms + self._revocation_ms if self._goal is None else self._goal[1]
        self._goal = told, due_ms

    def _revoke_if_due(self) -> None:
        if self._goal is not None and self._clock.now_ms >= self._goal[1]:
            self._seen.add("consumer: revocations that took time")
            self._take(self._goal[0])

    def _take(self, told: set[TopicIdPartition]) -> None:
        """Hold the partitions of this answer from now on."""
        self._goal = None
        self._must_report = told != self.owned
        self.owned = told
        if not self.is_alive:
            self._join_again()
        else:
            self._seen.add("consumer: assignments")
            self._seen.add(f"consumer: assignments in the {self.dialect.name} dialect")
            self._watcher.took(self)

    def _join_again(self) -> None:
        self.epoch, self._must_report, self._goal, self._losses = JOINING, False, None, 0
        self.owned.clear()
        self._next_ms = 0

"""A member of a server-driven consumer group in the simulated world: it sends heartbeats, revokes what it is told to
revoke, and drops all when its session is over by its own clock, as Kafka's clients do.
"""

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
from protocol.native.client import NativeAnswer
from tests.simulation.faults import Seen
from tests.simulation.network import Clock, Link
from tests.simulation.wires import NATIVE

GROUP = "consumers"
SESSION_MS, HEARTBEAT_MS, ACT_MS = 6_000, 1_000, 150
REBALANCE_MS = 3 * SESSION_MS
_GIVE_UP_MS = 2_500  # on an answer
_SUBSCRIPTIONS = (("alpha",), ("beta",), ("alpha", "beta"), ("alpha", "beta"))
_JOIN_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)

Place = tuple[bytes, int]


class Watcher(Protocol):
    """Told of everything that could be wrong."""

    @property
    def is_quiet(self) -> bool:
        """True once the faults have stopped: nobody changes anything any more."""

    def took(self, member: "ConsumerSim") -> None: ...

    def epoch_answered(self, member: "ConsumerSim", before: int, after: int) -> None: ...

    def sent(self, message: Any, link: Link, now_ms: int) -> None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...


class ConsumerSim:
    """One request at a time. After a failure the next heartbeat says everything."""

    dialect = NATIVE

    def __init__(
        self,
        name: str,
        instance_id: str | None,
        clock: Clock,
        random: Random,
        open_link: Callable[..., Link | None],
        watcher: Watcher,
        seen: Seen,
    ) -> None:
        self.name, self.instance_id = name, instance_id
        self.running, self.stalled_until_ms = True, -1
        self.syncs_after_ms, self.tamper, self.dies_as_leader = -1, None, False  # what other members have
        self.link: Link | None = None
        self.epoch = JOINING
        self.owned: set[Place] = set()
        self.session_from_ms = -SESSION_MS
        self._clock, self._random, self._open_link = clock, random, open_link
        self._watcher, self._seen = watcher, seen
        self._client = NATIVE.connect(name)
        self._asked: tuple[int, Message, int] | None = None
        self._topics = random.choice(_SUBSCRIPTIONS)
        self._regex = random.choice(("", "", "alpha|beta", "al.*"))
        self._is_full, self._must_report = True, False
        self._next_ms = self._offset = 0
        self._leaving = False
        self._unread: list[bytes] = []

    @property
    def is_alive(self) -> bool:
        """Return true if the member's session holds by its own clock."""
        return self.running and self._clock.now_ms - self.session_from_ms < SESSION_MS

    def start(self) -> None:
        self._later()

    def leave(self) -> None:
        self._leaving = True

    def kill(self) -> None:
        self.running = False
        if self.link is not None and self._random.random() < 0.5:
            self.link.cut(self._clock, self._random)

    def _later(self) -> None:
        self._clock.after(int(ACT_MS * (0.2 + 1.6 * self._random.random())), self._act)

    def _act(self) -> None:
        if not self.running:
            return
        if self._clock.now_ms >= self.stalled_until_ms:
            self._read_on()
            if self.owned and not self.is_alive:
                self._seen.add("consumer sessions that were over by the member's clock")
                self._join_again()
            if self._asked is not None and self._clock.now_ms - self._asked[2] > _GIVE_UP_MS and self.link is not None:
                self.link.close_by_client()
                self._lost_link()
            if self._asked is None and self.running:
                message = self._next()
                if message is not None:
                    self._ask(message)
        self._later()

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
        if self.owned and self._random.random() < 0.05:
            return self._commit()
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
        says_more = self._must_report or self._random.random() < 0.3
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
            self.name,
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

    def _commit(self) -> Message | None:
        topic_id, number = self._random.choice(sorted(self.owned))
        name = self._watcher.topic_name(topic_id)
        if name is None:
            return None
        self._offset += 1
        parts = (OffsetCommitPartition(number, self._offset),)
        return OffsetCommit(GROUP, (OffsetCommitTopic(name, parts),), self.epoch, self.name)

    # --- the wire ---

    def _ask(self, message: Message) -> None:
        if self.link is None:
            self.link = self._open_link(self, self._received, self._lost_link)
            if self.link is None:
                return
        number, data = self._client.encode_request(message)
        self._asked = number, message, self._clock.now_ms
        self.link.to_daemon.send(data)
        self._watcher.sent(message, self.link, self._clock.now_ms)

    def _lost_link(self) -> None:
        """Drop the connection; its unanswered request may have been carried out."""
        self.link, self._unread = None, []
        self._client = NATIVE.connect(self.name)
        self._asked, self._is_full = None, True

    def _received(self, data: bytes) -> None:
        if not self.running:
            return
        if self._clock.now_ms < self.stalled_until_ms:
            self._unread.append(data)
        else:
            self._read_on()
            self._hear(data)

    def _read_on(self) -> None:
        unread, self._unread = self._unread, []
        for data in unread:
            if self.running:
                self._hear(data)

    def _hear(self, data: bytes) -> None:
        for said in self._client.receive_data(data):
            if not isinstance(said, NativeAnswer):
                self._seen.add(f"pushes: {type(said.message).__name__}")
                self._next_ms = 0
            elif self._asked is not None and said.number == self._asked[0]:
                _number, message, asked_ms = self._asked
                self._asked = None
                self._heard(message, said.reply, asked_ms)

    def _heard(self, message: Message, reply: Any, asked_ms: int) -> None:
        if isinstance(message, OffsetCommit):
            self._seen.add(f"consumer: commit {reply.topics[0].partitions[0].error_code.name}")
            return
        assert isinstance(message, ConsumerGroupHeartbeat)
        self._seen.add(f"consumer: heartbeat {reply.error_code.name}")
        if reply.error_code in _JOIN_AGAIN:
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
        self.session_from_ms = asked_ms
        self.epoch, self._is_full, self._must_report = reply.member_epoch, False, False
        if reply.assignment is None:
            return
        told = {(one.topic_id, number) for one in reply.assignment.topic_partitions for number in one.partitions}
        self._must_report = told != self.owned
        self.owned = told
        if not self.is_alive:
            self._join_again()
        else:
            self._seen.add("consumer: assignments")
            self._watcher.took(self)

    def _join_again(self) -> None:
        self.epoch, self._must_report = JOINING, False
        self.owned.clear()
        self._next_ms = 0

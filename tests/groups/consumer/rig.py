"""One consumer group with its log: requests go in, replies come out, time passes. Every record is applied from its
bytes, and after every event a second group that reads the log must be the same."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.clock import Moment
from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.events import (
    ConsumerAway,
    ConsumerBeat,
    ConsumerEvent,
    ConsumerJoin,
    ConsumerLeave,
    ConsumerLoaded,
    refuse_heartbeat,
)
from coordinator.groups.consumer.guards import refuse_invalid
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerGroupSettings
from coordinator.groups.consumer.table import handle
from coordinator.groups.consumer.topics import TopicOfGroup
from coordinator.groups.outcome import Outcome, Steps
from coordinator.records.codec import decode, encode
from coordinator.records.consumer_records import ConsumerRecord, ConsumerTombstone
from coordinator.records.records import Note
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicIdPartitions
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperationPurgatory
from tests.groups.checks import CountingIds, consumer_state

WALL_MS = 1_700_000_000_000
_NUMBERS = {
    "ConsumerGroupRecord": "k3",
    "ConsumerMemberRecord": "k5",
    "TargetRecord": "k6",
    "MemberTargetRecord": "k7",
    "AssignmentRecord": "k8",
    "RegexRecord": "k16",
}


class FakeTopics:
    """All topics."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.is_known = True
        self.version = 1
        self._topics: dict[str, TopicOfGroup] = {}
        self._made = 0
        for name, partitions in topics.items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> None:
        self._made += 1
        self._topics[name] = TopicOfGroup(self._made.to_bytes(16, "big"), name, partitions)
        self.version += 1

    def grow(self, name: str, partitions: int) -> None:
        self._topics[name] = self._topics[name]._replace(partitions=partitions)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def find(self, name: str) -> TopicOfGroup | None:
        return self._topics.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((topic.name for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return tuple(self._topics)


class Rig:
    """The group `g`."""

    def __init__(self, topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.settings = ConsumerGroupSettings(**{"assignment_interval_ms": 0, **settings})
        self.topics = FakeTopics({"T": 4, "U": 3} if topics is None else topics)
        self.now_ms = self.set_back_ms = 0
        self.batches: list[list[ConsumerRecord]] = []
        self.notes: list[Note] = []
        self.pushes: list[tuple[int, int]] = []
        self.client = "client"
        self.ids = CountingIds()
        self.purgatory: DelayedOperationPurgatory[ConsumerEvent] = DelayedOperationPurgatory(0)
        self.group = ConsumerGroup("g", self.settings, self.topics)
        self.work: deque[Steps] = deque()
        self.holds_work = False
        self._requests = 0

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms - self.set_back_ms)

    # --- requests ---

    def join(self, member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatReply:
        """A full request with epoch 0."""
        given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "owned": ""}
        return self.heartbeat(member_id, 0, **{**given, **fields})

    def heartbeat(
        self, member_id: str, epoch: int, owned: str | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatReply:
        """`owned` as in `T0,1 U2`; None: the request leaves them out."""
        if owned is not None:
            fields["topic_partitions"] = self.partitions(owned)
        request = ConsumerGroupHeartbeat("g", member_id, epoch, **fields)
        return self.ask(request)

    def ask(self, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply:
        refused = refuse_invalid(request, self.settings.assignors)
        if refused is not None:
            return refuse_heartbeat(*refused)
        kinds = {0: ConsumerJoin, -1: ConsumerLeave, -2: ConsumerAway}
        kind: Any = kinds.get(request.member_epoch, ConsumerBeat)
        self._requests += 1
        ref = RequestRef(1, self._requests)
        replies = self.happen(kind(ref, request, self.client, "/10.0.0.1"))
        (reply,) = replies
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return reply

    def partitions(self, text: str) -> tuple[TopicIdPartitions, ...]:
        found = []
        for word in text.split():
            topic = self.topics.find(word[0])
            assert topic is not None
            found.append(TopicIdPartitions(topic.topic_id, tuple(int(one) for one in word[1:].split(",") if one)))
        return tuple(found)

    # --- what happens ---

    def happen(self, event: ConsumerEvent) -> list[Any]:
        """Apply the event and return the replies; work in slices that it begins is done, unless the test holds it."""
        replies = self._happen(event)
        while self.work and not self.holds_work:
            self.work_on()
        return replies

    def work_on(self) -> int:
        """Do one slice of the work and return its cost."""
        cost = next(self.work[0], None)
        if cost is None:
            self.work.popleft()
        elif not isinstance(cost, int):
            self._happen(cost)
        return cost if isinstance(cost, int) else 0

    def _happen(self, event: ConsumerEvent) -> list[Any]:
        replies: list[Any] = []
        events = deque((event,))
        while events:
            out = Outcome(self.moment, self.ids)
            handle(self.group, events.popleft(), out)
            batch: list[Any] = []
            for record in out.records:
                key, value = encode(record)
                again = decode(key, value)
                assert again == record
                batch.append(again)
            for one in batch:
                apply(self.group, one)
            if batch:
                self.batches.append(batch)
            for key_, operation in out.watched.items():
                if operation is None:
                    self.purgatory.cancel(key_)
                else:
                    events.extend(self.purgatory.try_complete_else_watch(operation))
            replies += [answer.reply for answer in out.replies]
            self.notes += out.notes
            self.pushes += [(connection, message.group_epoch) for connection, message in out.pushes]  # type: ignore[attr-defined]
            events.extend(out.follow_ups)
            self.work += out.work
        self.check()
        return replies

    def wait(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.purgatory.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            while (events := self.purgatory.pop_overdue(self.now_ms)) is not None:
                for event in events:
                    self.happen(event)
        self.now_ms = until_ms

    def restart(self) -> None:
        """Restart the node: it loads the log."""
        self.group = self.replayed()
        self.work.clear()
        self.purgatory = DelayedOperationPurgatory(self.now_ms)
        self.happen(ConsumerLoaded("g"))

    def replayed(self, batches: Iterable[list[ConsumerRecord]] | None = None) -> ConsumerGroup:
        group = ConsumerGroup("g", self.settings, self.topics)
        for batch in self.batches if batches is None else batches:
            for record in batch:
                apply(group, record)
        return group

    def check(self) -> None:
        self.group.check()
        other = self.replayed()
        assert consumer_state(other) == consumer_state(self.group)
        for member in self.group.members.values():
            session = member.session
            assert session is not None and self.purgatory.get(session.key) is session, (
                f"{member.member_id} never expires"
            )

    # --- what is seen ---

    def told(self, reply: ConsumerGroupHeartbeatReply) -> str | None:
        """Return the assignment of a reply, as in `T0,1 U2`; None if it has none."""
        if reply.assignment is None:
            return None
        return self.named({one.topic_id: one.partitions for one in reply.assignment.topic_partitions})

    def named(self, assigned: Mapping[bytes, Iterable[int]]) -> str:
        names = {self.topics.name_of(topic_id) or "?": sorted(numbers) for topic_id, numbers in assigned.items()}
        return " ".join(f"{name}{','.join(map(str, names[name]))}" for name in sorted(names))

    def seen(self, member_id: str, epoch: int, owned: str | None = None, **fields: Any) -> tuple[Any, ...]:
        """Send a heartbeat: (error code, epoch, assignment)."""
        reply = self.heartbeat(member_id, epoch, owned, **fields)
        return int(reply.error_code), reply.member_epoch, self.told(reply)

    def joined(self, member_id: str, *names: str, **fields: Any) -> tuple[Any, ...]:
        """Send a join: (error code, epoch, assignment)."""
        reply = self.join(member_id, *names, **fields)
        return int(reply.error_code), reply.member_epoch, self.told(reply)

    @property
    def described(self) -> str:
        """Return state, group epoch and target epoch."""
        return f"{self.group.state.title} {self.group.epoch}/{self.group.target_epoch}"

    def held(self, member_id: str) -> str:
        current = self.group.members[member_id].current
        both: dict[bytes, set[int]] = {}
        for topic_id, number, _ in current.held:
            both.setdefault(topic_id, set()).add(number)
        return self.named(both)

    def target(self, member_id: str) -> str:
        return self.named(self.group.targets.get(member_id, {}))

    def written(self, since: int = 0) -> str:
        """Return the records of the batches from this one on, as in `k5 k3 k7 k6 k8 | -k8 -k7 -k5 k3`."""
        return " | ".join(" ".join(map(_number, batch)) for batch in self.batches[since:])


def _number(record: ConsumerRecord) -> str:
    return f"-k{record.key.value}" if isinstance(record, ConsumerTombstone) else _NUMBERS[type(record).__name__]

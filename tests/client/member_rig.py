"""A rig for a member: the test acts as application, coordinator and clock."""

from typing import Any

from membership.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from membership.core import Membership
from membership.events import (
    Assigned,
    CallFailed,
    Fatal,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    NodeAddress,
    Polled,
    Pushed,
    Released,
    Replied,
    Revoked,
    SendRequest,
    TimePassed,
)
from membership.member import MemberSettings
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply, JoinGroupMember, JoinGroupReply, SyncGroupReply
from protocol.messages.node import FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import MetadataPartitionReply, MetadataReply, MetadataTopicReply

GROUP = "orders"
SETTINGS: dict[str, Any] = {
    "group_id": GROUP,
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 3_000,
    "max_poll_interval_ms": 60_000,
    "request_timeout_ms": 9_000,
}
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


class MemberRig:
    """A member. `heard` has all effects other than requests since the last access; `sent` all requests since then."""

    def __init__(self, *, topics: tuple[str, ...] = ("t",), jitter: float = 0.5, **settings: object) -> None:
        self.now_ms = 1_000
        self.settings = MemberSettings(**{**SETTINGS, **settings})
        self.member = self.make(topics, jitter)
        self._called: list[tuple[NodeAddress | None, Message]] = []
        self._heard: list[MemberEffect] = []
        self.waiting: dict[int, Message] = {}
        self.ended: list[MemberEffect] = []

    def make(self, topics: tuple[str, ...], jitter: float) -> Membership:
        return Membership(self.settings, topics, lambda: jitter)

    def feed(self, event: MemberEvent) -> "MemberRig":
        for effect in self.member.step(event, self.now_ms):
            if isinstance(effect, SendRequest):
                self._called.append((effect.node, effect.message))
                self.waiting[effect.call] = effect.message
            else:
                self._heard.append(effect)
        return self

    def poll(self) -> "MemberRig":
        return self.feed(Polled())

    def released(self) -> "MemberRig":
        return self.feed(Released())

    def push(self, message: Message) -> "MemberRig":
        return self.feed(Pushed(message))

    def answer(self, reply: Message, kind: str = "") -> "MemberRig":
        """Answer the oldest pending request of that type."""
        return self.feed(Replied(self._oldest(kind or type(reply).__name__.removesuffix("Reply")), reply))

    def cut(self, kind: str, *, is_unreached: bool = False) -> "MemberRig":
        """Lose the connection of the oldest pending request of that type, or say that it was never opened."""
        return self.feed(CallFailed(self._oldest(kind), is_unreached))

    def pass_time(self, milliseconds: int) -> "MemberRig":
        """Let time pass, waking the member whenever it asked for it."""
        end = self.now_ms + milliseconds
        steps = 0
        while (due := self.member.next_deadline_ms) is not None and due <= end:
            self.now_ms = max(due, self.now_ms)
            self.feed(TimePassed())
            steps += 1
            assert steps < 2_000, "the member never rests"
        self.now_ms = end
        return self

    def _oldest(self, kind: str) -> int:
        number = next((n for n, message in self.waiting.items() if type(message).__name__ == kind), None)
        assert number is not None, f"no {kind} is waiting, only {list(self.waiting.values())}"
        del self.waiting[number]
        return number

    @property
    def sent(self) -> list[Message]:
        return [message for _, message in self.called]

    @property
    def called(self) -> list[tuple[NodeAddress | None, Message]]:
        """Return requests as `sent` does, each with its node."""
        called, self._called = self._called, []
        return called

    @property
    def sent_kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.sent]

    @property
    def heard(self) -> list[MemberEffect]:
        heard, self._heard = self._heard, []
        return heard

    @property
    def told(self) -> list[MemberEffect]:
        """Return the effects for the application, without those for connections."""
        return [one for one in self.heard if isinstance(one, Assigned | Revoked | LostPartitions | Fatal)]

    # -- common starting points

    def find(self, host: str = "here", port: int = 1) -> "MemberRig":
        return self.answer(FindCoordinatorReply((FoundCoordinator(GROUP, 0, host, port),)))

    def join(self, generation: int = 1, *, leader: str = "other", member_id: str = "me") -> "MemberRig":
        members = roster(member_id) if leader == member_id else ()
        return self.answer(
            JoinGroupReply(
                generation_id=generation,
                protocol_type="consumer",
                protocol_name=self.settings.assignors[0],
                leader=leader,
                member_id=member_id,
                members=members,
            )
        )

    def sync(self, *partitions: TopicPartition) -> "MemberRig":
        return self.answer(synced(*partitions, protocol=self.settings.assignors[0]))

    def steady(self, *partitions: TopicPartition, generation: int = 1) -> "MemberRig":
        """Make it a steady member, not the leader, with these partitions; forget everything before."""
        self.poll().find().join(generation).sync(*partitions)
        assert self.sent is not None
        assert self.heard is not None
        return self

    def beat(self, error: ErrorCode = ErrorCode.NONE) -> "MemberRig":
        """Let the heartbeat fall due, and answer it."""
        if not any(isinstance(one, Heartbeat) for one in self.waiting.values()):
            self.pass_time(SETTINGS["heartbeat_interval_ms"])
        return self.answer(HeartbeatReply(error))


def synced(*partitions: TopicPartition, protocol: str = "range") -> SyncGroupReply:
    assignment = encode_assignment(ConsumerAssignment(tuple(partitions)))
    return SyncGroupReply(protocol_type="consumer", protocol_name=protocol, assignment=assignment)


def roster(*member_ids: str, topics: tuple[str, ...] = ("t",)) -> tuple[JoinGroupMember, ...]:
    return tuple(JoinGroupMember(one, None, encode_subscription(ConsumerSubscription(topics))) for one in member_ids)


def metadata(**partition_counts: int) -> MetadataReply:
    return MetadataReply(
        topics=tuple(
            MetadataTopicReply(name, partitions=tuple(MetadataPartitionReply(n, 0) for n in range(count)))
            for name, count in partition_counts.items()
        )
    )

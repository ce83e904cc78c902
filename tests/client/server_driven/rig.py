"""A rig for a member of a group that the coordinator balances; the test acts as application, coordinator and clock."""

from membership.core import Membership
from membership.events import Released
from membership.server_driven import ServerDrivenMembership
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    MemberAssignment,
    TopicIdPartitions,
)
from protocol.messages.topics import MetadataReply, MetadataTopicReply
from tests.client.member_rig import GROUP, MemberRig

__all__ = ["GROUP", "IDS", "T0", "T1", "T2", "T3", "ServerDrivenRig", "accepted", "refused"]

IDS = {"t": bytes(15) + b"\x01", "u": bytes(15) + b"\x02"}
T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatReply:
    return ConsumerGroupHeartbeatReply(code, "why")


def accepted(
    epoch: int, *partitions: TopicPartition, unchanged: bool = False, interval_ms: int = 5_000
) -> ConsumerGroupHeartbeatReply:
    topics = {one.topic for one in partitions}
    assignment = MemberAssignment(
        tuple(
            TopicIdPartitions(IDS[topic], tuple(one.partition for one in partitions if one.topic == topic))
            for topic in sorted(topics)
        )
    )
    return ConsumerGroupHeartbeatReply(
        member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=None if unchanged else assignment
    )


class ServerDrivenRig(MemberRig):
    """A member. `last_beat` is the only heartbeat since the last access."""

    member: ServerDrivenMembership

    def make(self, topics: tuple[str, ...], jitter: float) -> Membership:
        return ServerDrivenMembership(self.settings, topics, lambda: jitter)

    @property
    def beats(self) -> list[ConsumerGroupHeartbeat]:
        return [message for message in self.sent if isinstance(message, ConsumerGroupHeartbeat)]

    @property
    def last_beat(self) -> ConsumerGroupHeartbeat:
        (beat,) = self.beats
        return beat

    def hear(self, epoch: int, *partitions: TopicPartition, unchanged: bool = False) -> "ServerDrivenRig":
        self.answer(accepted(epoch, *partitions, unchanged=unchanged))
        return self

    def name_topics(self, *names: str) -> "ServerDrivenRig":
        topics = tuple(MetadataTopicReply(name, IDS[name]) for name in names or ("t",))
        self.answer(MetadataReply(topics=topics), "Metadata")
        return self

    def holding(self, *partitions: TopicPartition, epoch: int = 2) -> "ServerDrivenRig":
        """Make it hold and report these partitions; forget everything before."""
        self.poll().find()
        self.hear(epoch, *partitions)
        if partitions:
            self.name_topics(*sorted({one.topic for one in partitions}))
            self.hear(epoch, unchanged=True)
        assert self.member.held == tuple(sorted(partitions))
        assert self.member.is_steady
        _ = self.sent, self.heard
        return self

    def let_go(self) -> "ServerDrivenRig":
        self.feed(Released())
        return self

    @property
    def is_waiting(self) -> bool:
        """True if a heartbeat is in flight."""
        return any(isinstance(message, ConsumerGroupHeartbeat) for message in self.waiting.values())

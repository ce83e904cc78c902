"""State of a member that the coordinator balances. Its generation is the member epoch."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from membership.member import MemberState
from membership.topic_partition import TopicPartition
from protocol.messages.consumer_groups import TopicIdPartitions
from protocol.messages.topics import NO_TOPIC_ID, MetadataReply


@dataclass(slots=True)
class ServerDrivenState(MemberState):
    """Adds what the coordinator has sent and was sent since the last join."""

    target: tuple[TopicIdPartitions, ...] | None = None
    """Newest assignment, by topic id; None before the first."""
    reported: tuple[TopicIdPartitions, ...] | None = None
    """Held partitions as last reported to the coordinator; None: they must be reported."""
    reported_topics: tuple[str, ...] | None = None
    """Subscription as last sent to the coordinator; None: it must be sent."""
    regex: str | None = None
    """Regular expression that the coordinator matches; empty: it was removed; None: there never was one."""
    reported_regex: str | None = None
    """Regular expression as last sent to the coordinator; None: it must be sent."""
    is_full: bool = True
    """True if the next heartbeat must have all fields: at a join, and after an error."""
    is_urgent: bool = False
    """True if the next heartbeat must be sent at once."""
    leaves_first: bool = False
    """True if a static member must leave before it joins: its instance may still be a member, under the former id, so
    that the join would be refused (docs/spec/consumer-group-protocol.md#7.2)."""
    names: dict[bytes, str] = field(default_factory=dict)
    """Known names of topics by id."""

    @property
    def is_subscribed(self) -> bool:
        """True if the member subscribes to topics, known or not."""
        return bool(self.topics or self.regex) or self.pattern is not None

    @property
    def is_subscription_sent(self) -> bool:
        """True if the coordinator knows the member's subscription."""
        return self.reported_topics == self.topics and self.reported_regex == self.regex

    def learn_topics(self, reply: MetadataReply) -> None:
        """Learn the ids of topics. A topic that was deleted and created again has another id."""
        for topic in reply.topics:
            if topic.name and topic.topic_id != NO_TOPIC_ID:
                self.names[topic.topic_id] = topic.name

    def make_id(self) -> str:
        """Make a member id: 22 characters of base64url, as Kafka's clients do (KIP-1082)."""
        words = (int(self.jitter() * (1 << 32)) for _ in range(4))
        data = b"".join(word.to_bytes(4, "big") for word in words)
        return urlsafe_b64encode(data).decode().rstrip("=")

    @property
    def unnamed(self) -> tuple[bytes, ...]:
        """Topics of the target whose names are not known."""
        return tuple(one.topic_id for one in self.target or () if one.topic_id not in self.names)

    @property
    def share(self) -> tuple[TopicPartition, ...]:
        """Partitions of the target whose names are known."""
        return tuple(
            sorted(
                TopicPartition(self.names[one.topic_id], partition)
                for one in self.target or ()
                if one.topic_id in self.names
                for partition in one.partitions
            )
        )

    def owned(self) -> tuple[TopicIdPartitions, ...]:
        """Return the held partitions by topic id."""
        return by_topic_id(self.held, {name: topic_id for topic_id, name in self.names.items()})


def by_topic_id(partitions: Iterable[TopicPartition], ids: Mapping[str, bytes]) -> tuple[TopicIdPartitions, ...]:
    """Group partitions by the id of their topic; topics without a known id are left out."""
    grouped: dict[bytes, list[int]] = {}
    for one in sorted(partitions):
        if one.topic in ids:
            grouped.setdefault(ids[one.topic], []).append(one.partition)
    return tuple(TopicIdPartitions(topic_id, tuple(numbers)) for topic_id, numbers in sorted(grouped.items()))

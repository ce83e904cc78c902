"""The group protocol of members with streams: each reports its number of threads for each topic, and the leader assigns
every partition to one of them (docs/spec/consumer-client.md#E1).
"""

from collections.abc import Mapping

from membership.member import MemberState
from membership.topic_partition import TopicPartition
from muster.streams.assignment import MemberThreads, Shares, share_by_range, share_in_circle
from protocol.errors import ProtocolViolation
from protocol.messages.topics import MetadataReply
from protocol.streams_protocol import (
    PROTOCOL_TYPE,
    StreamsSubscription,
    decode_streams_assignment,
    decode_streams_subscription,
    encode_streams_assignment,
    encode_streams_subscription,
)

STRATEGIES = {"range": share_by_range, "roundrobin": share_in_circle}


class StreamsProtocol:
    """The protocol of type `streams`. `threads` is the newest assignment; `everyone` is that of all members, if this
    one is the leader. `counts` are the numbers of threads by topic; with a `pattern`, every matching topic has `count`.
    """

    protocol_type = PROTOCOL_TYPE

    def __init__(
        self, strategy: str, counts: Mapping[str, int] | None = None, pattern: str | None = None, count: int = 0
    ) -> None:
        self._strategy = strategy
        self._counts = counts
        self._pattern = pattern
        self._count = count
        self.threads: dict[TopicPartition, int] = {}
        self.everyone: Shares | None = None

    def offered(self, _m: MemberState) -> tuple[str, ...]:
        return (f"{self._strategy}-threads",)

    def encode_subscription(self, m: MemberState, _protocol: str) -> bytes:
        self.everyone = None
        topics = {topic: self.threads_of(topic) for topic in m.topics}
        return encode_streams_subscription(StreamsSubscription(topics, self._pattern))

    def threads_of(self, topic: str) -> int:
        """Return this member's number of threads for the topic."""
        return self._count if self._counts is None else self._counts.get(topic, 0)

    def topics_of(self, metadata: bytes) -> tuple[str, ...]:
        return tuple(_read(metadata))

    def assign(self, m: MemberState, partition_counts: Mapping[str, int], _reply: MetadataReply) -> Mapping[str, bytes]:
        members = [MemberThreads(one.member_id, _read(one.metadata), one.group_instance_id) for one in m.roster]
        self.everyone = STRATEGIES[self._strategy](partition_counts, members)
        return {who: encode_streams_assignment(share) for who, share in self.everyone.items()}

    def encode_nothing(self) -> bytes:
        return encode_streams_assignment({})

    def decode_assignment(self, assignment: bytes) -> tuple[TopicPartition, ...]:
        self.threads = {
            TopicPartition(topic, partition): thread
            for topic, threads in decode_streams_assignment(assignment).items()
            for partition, thread in threads.items()
        }
        return tuple(self.threads)

    def unknown_threads(self) -> list[str]:
        """Return the partitions that the leader assigned to threads that this member does not have."""
        return [
            f"{one} for thread {thread} of {self.threads_of(one.topic)}"
            for one, thread in sorted(self.threads.items())
            if not 0 <= thread < self.threads_of(one.topic)
        ]


def _read(metadata: bytes) -> Mapping[str, int]:
    try:
        return decode_streams_subscription(metadata).topics
    except ProtocolViolation:
        return {}  # it gets no partitions; the other members are not affected

"""Topics of a producer: their partitions and leaders, and pending metadata requests."""

from membership.events import NodeAddress
from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from muster.core.producing.settings import ProducerSettings
from muster.errors import MusterError, Refused
from protocol.errors import ErrorCode
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic, MetadataTopicReply

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_MS = 1_000
"""Time for which an unknown topic is requested again, since brokers learn of new topics one after another."""


class ProducerTopics:
    """The topics that the application writes to."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._counts: dict[str, int] = {}
        self._leaders: dict[TopicPartition, NodeAddress] = {}
        self._brokers: list[NodeAddress] = []
        """Brokers with the records, if they are not the nodes that answer Metadata."""
        self._known_at_ms: dict[str, int] = {}
        self._errors: dict[str, MusterError] = {}
        self._wanted: dict[str, int] = {}  # with the time of the first request
        self._asked: list[str] = []
        self._failures = 0
        self._ask_at_ms = 0

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions; None if unknown. Raises `Refused`, once, for a topic that cannot be written
        to."""
        if topic in self._errors:
            raise self._errors.pop(topic)
        return self._counts.get(topic)

    def is_wanted(self, topic: str) -> bool:
        return topic in self._wanted

    def refresh(self, topic: str, now_ms: int) -> None:
        """Request a topic again after a while, since it may have more partitions."""
        if self._known_at_ms[topic] + self._settings.metadata_max_age_ms <= now_ms:
            self.want(topic, now_ms)

    def leader(self, one: TopicPartition) -> NodeAddress | None:
        return self._leaders.get(one)

    def has_leader(self, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) in self._leaders

    def id_giver(self, failures: int) -> NodeAddress | None:
        """Return the node to ask for a producer id, after this number of failures: one that has records. None: any
        node."""
        return self._brokers[failures % len(self._brokers)] if self._brokers else None

    def want(self, topic: str, now_ms: int) -> None:
        self._wanted.setdefault(topic, now_ms)

    def doubt(self, one: TopicPartition, now_ms: int) -> None:
        """Forget a leader that may have moved."""
        self._leaders.pop(one, None)
        self.want(one.topic, now_ms)

    @property
    def ask_at_ms(self) -> int | None:
        """Return the time of the next request; None if none is needed."""
        return self._ask_at_ms if self._wanted else None

    def request(self) -> Metadata:
        self._asked = sorted(self._wanted)
        return Metadata(tuple(MetadataTopic(name) for name in self._asked))

    def on_metadata(self, reply: MetadataReply, now_ms: int) -> None:
        nodes = nodes_of(reply)
        self._brokers = sorted(one for one in nodes.values() if one.speaks)
        for topic in reply.topics:
            if topic.name is not None:
                self._on_topic(topic.name, topic, nodes, now_ms)
        is_answered = not any(name in self._wanted for name in self._asked)
        if is_answered and all(_is_whole(topic, nodes) for topic in reply.topics):
            self._failures = 0
        else:
            self.ask_later(now_ms)

    def ask_later(self, now_ms: int) -> None:
        """Retry later, since the reply did not come, or was incomplete."""
        self._ask_at_ms = now_ms + self._settings.backoff_ms(self._failures)
        self._failures += 1

    def _on_topic(self, name: str, topic: MetadataTopicReply, nodes: dict[int, NodeAddress], now_ms: int) -> None:
        if not topic.partitions:
            self._on_error(name, topic.error_code or ErrorCode.LEADER_NOT_AVAILABLE, now_ms)
            return
        self._counts[name] = len(topic.partitions)
        self._known_at_ms[name] = now_ms
        for one in topic.partitions:
            if one.leader_id in nodes:
                self._leaders[TopicPartition(name, one.partition_index)] = nodes[one.leader_id]
        self._wanted.pop(name, None)  # requested again when a leader is missing

    def _on_error(self, name: str, code: ErrorCode, now_ms: int) -> None:
        since_ms = self._wanted.get(name, now_ms)
        if name in self._counts:
            self._wanted.pop(name, None)  # the topic existed: it is requested again when a record needs it
            return
        if code.retriable and (code != _UNKNOWN or now_ms - since_ms < _UNKNOWN_MS):
            return
        if code == _UNKNOWN:
            sentence = f"there is no topic {name!r}: create it with `muster topics create`"
        else:
            sentence = f"topic {name!r}: {code.name}"
        self._errors[name] = Refused(code, sentence)
        self._wanted.pop(name, None)


def _is_whole(topic: MetadataTopicReply, nodes: dict[int, NodeAddress]) -> bool:
    return topic.error_code == ErrorCode.NONE and all(one.leader_id in nodes for one in topic.partitions)

"""View of the embedded topics for consumer groups."""

from collections.abc import Iterable

from coordinator.groups.consumer.topics import TopicOfGroup
from coordinator.topics.embedded import EmbeddedTopics
from coordinator.topics.rules import OFFSETS_TOPIC


class EmbeddedTopicImage:
    """All topics of this node, in their present state at each call."""

    __slots__ = ("_topics",)

    is_known = True

    def __init__(self, topics: EmbeddedTopics) -> None:
        self._topics = topics

    @property
    def version(self) -> int:
        """Write-ahead position of the last change, which only grows."""
        return self._topics.position

    def find(self, name: str) -> TopicOfGroup | None:
        """Return the topic of the name, if it exists."""
        topic_id, partitions = self._topics.id_of(name), self._topics.partition_count(name)
        return None if topic_id is None or partitions is None else TopicOfGroup(topic_id, name, partitions)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic, if it exists."""
        return self._topics.name_of(topic_id)

    def names(self) -> Iterable[str]:
        """Return the names of all topics, including internal ones."""
        names = [topic.record.name for topic in self._topics]
        return [*names, OFFSETS_TOPIC] if self._topics.id_of(OFFSETS_TOPIC) is not None else names

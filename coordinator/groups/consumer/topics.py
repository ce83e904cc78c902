"""View of the topics for consumer groups: the existing ones, with their ids and numbers of partitions."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class TopicOfGroup(NamedTuple):
    """A topic that exists."""

    topic_id: bytes
    name: str
    partitions: int


class TopicImage(Protocol):
    """All present topics."""

    @property
    def is_known(self) -> bool:
        """False until the topics have been received; an unknown image must not be taken for an empty one."""

    @property
    def version(self) -> int:
        """Number that grows with every change of a topic."""

    def find(self, name: str) -> TopicOfGroup | None:
        """Return the topic with the name, if it exists."""

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic, if it exists."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""


class NoTopics:
    """An image without a topic, for groups whose topics are not known here."""

    is_known = True
    version = 0

    def find(self, name: str) -> TopicOfGroup | None:
        return None

    def name_of(self, topic_id: bytes) -> str | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def metadata_hash(topics: Iterable[TopicOfGroup]) -> int:
    """Digest the topics as a signed number of 64 bits, independent of their order; 0 for none
    (docs/spec/consumer-group-protocol.md#9.1)."""
    whole = 0
    for topic in topics:
        name = topic.name.encode()
        data = b"".join((topic.topic_id, topic.partitions.to_bytes(4, "big"), name))
        whole ^= int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)
    return whole

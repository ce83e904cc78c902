"""Interface to topics for groups: names, ids, and numbers of partitions, wherever the records are."""

from typing import Protocol

from coordinator.clock import Moment
from protocol.messages.topics import Metadata, MetadataTopicReply


class Topics(Protocol):
    """Topics that groups commit offsets for: embedded in this node, or those of the cluster behind a gateway."""

    @property
    def topic_count(self) -> int:
        """Number of topics."""
        ...

    @property
    def position(self) -> int:
        """Write-ahead position that a reply about topics waits for; 0 if none of their state is in this node's log."""
        ...

    def partition_count(self, name: str) -> int | None:
        """Number of the topic's partitions; None if there is no such topic."""
        ...

    def name_of(self, topic_id: bytes) -> str | None:
        """Name of the topic with the id; None if no topic has it."""
        ...

    def id_of(self, name: str) -> bytes | None:
        """Id of the topic; None if there is no such topic."""
        ...

    def id_to_record(self, name: str) -> bytes:
        """Topic id for the record of a commit; `NO_TOPIC_ID` if the id is uncertain or not needed."""
        ...

    def may_own(self, name: str, topic_id: bytes) -> bool:
        """Return false if offsets recorded with this id are certainly of another topic than the one that has the name
        now."""
        ...

    def metadata(self, message: Metadata, moment: Moment) -> tuple[MetadataTopicReply, ...]:
        """Describe topics for a Metadata; the reply waits for `position`."""
        ...

"""Topics as groups see them: names, ids, and numbers of partitions, whoever keeps the records."""

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
        """Id that a commit for the topic is recorded with; `NO_TOPIC_ID`: none, since it is not certain or needed."""
        ...

    def may_own(self, name: str, topic_id: bytes) -> bool:
        """Return false if offsets recorded with this id are certainly not those of the topic that has the name now."""
        ...

    def metadata(self, message: Metadata, moment: Moment) -> tuple[MetadataTopicReply, ...]:
        """Describe topics for a Metadata; the reply waits for `position`."""
        ...

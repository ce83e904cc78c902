"""The unit that groups assign: one partition of one topic."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic name, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

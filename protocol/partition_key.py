"""Names of partitions in client-balanced groups: `brokerId:topic:partitionId`
(docs/spec/client-balanced-groups.md#3)."""

import re
from typing import Final, NamedTuple

MAX_TOPIC_CHARACTERS: Final = 64

_NUMBER = r"0|[1-9][0-9]{0,9}"
_TOPIC: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII)
_KEY: Final = re.compile(rf"({_NUMBER}):({_TOPIC.pattern}):({_NUMBER})", re.ASCII)
_LARGEST: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition and the broker it is configured on, which never changes. Keys must be sorted by `place`, the order in
    which shares are computed, not as tuples."""

    broker_id: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.topic}:{self.partition}"

    @property
    def place(self) -> tuple[str, int, int]:
        """Sort key: topic, broker and partition, with the numbers as numbers."""
        return self.topic, self.broker_id, self.partition


def parse_key(text: str) -> PartitionKey | None:
    """Parse a key; None if the text is invalid. Numbers have no sign and no leading zeros."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    key = PartitionKey(int(found[1]), found[2], int(found[3]))
    return key if max(key.broker_id, key.partition) <= _LARGEST else None


def may_be_keyed(topic: str) -> bool:
    """Return true if partitions of a topic of this name can have keys: a letter, then letters, digits and `._-`, at
    most 64 characters. The specification allows no dots and hyphens, but topics here may have them."""
    return _TOPIC.fullmatch(topic) is not None

"""Keys of partitions in the application's calls, and the contexts that confirm batches."""

import re
from collections.abc import Iterable

from protocol.partition_key import PartitionKey, parse_key

_CONTEXT = re.compile(r"(.+):(0|[1-9][0-9]*)", re.ASCII)


def parsed(text: str) -> PartitionKey:
    """Parse a key. Raises ValueError for anything else."""
    key = parse_key(text)
    if key is None:
        raise ValueError(f"{text!r} is no partition key: brokerId:topic:partitionId is wanted, like 1:orders:0")
    return key


def sort_keys(keys: Iterable[str]) -> list[str]:
    """Sort by topic, broker and number, not as texts. Raises ValueError."""
    return sorted(keys, key=lambda key: parsed(key).place)


def context(key: str, token: int) -> str:
    """Return the context for confirming a batch: its partition, and the batch's token."""
    return f"{key}:{token}"


def parse_context(text: str) -> tuple[str, int]:
    """Parse a context. Raises ValueError."""
    match = _CONTEXT.fullmatch(text)
    if match is None or parse_key(match[1]) is None:
        raise ValueError(f"{text!r} is no confirm context: it must be the one that came with a batch")
    return match[1], int(match[2])

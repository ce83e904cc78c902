"""The targets of `start`, checked before any request is sent (docs/spec/client-balanced-groups.md#5.1)."""

from collections.abc import Iterable, Mapping

from protocol.messages.balanced import SERVER_MODE
from protocol.partition_key import MAX_TOPIC_CHARACTERS, may_be_keyed

MAX_TOPICS = 1024
MAX_FILTERS = 500
MAX_FILTER_LENGTH = 256

Targets = dict[str, tuple[str, ...]]
"""Filters by topic, both sorted; no filters: all records."""


def checked_targets(targets: Mapping[str, Iterable[str] | None] | None) -> Targets:
    """Return the targets with trimmed names and filters. Raises ValueError with the error message."""
    if not targets:
        raise ValueError("no topic is wanted: start needs one at least")
    if len(targets) > MAX_TOPICS:
        raise ValueError(f"{len(targets)} topics are wanted, {MAX_TOPICS} are the most")
    wanted = {_topic(name): _filters(name, filters) for name, filters in targets.items()}
    return dict(sorted(wanted.items()))


def check_mode(mode: str, source_count: int) -> None:
    """Raise ValueError for a server-balanced group with a source count."""
    if mode == SERVER_MODE and source_count >= 0:
        raise ValueError(f"source_count is {source_count}: it must be negative if the coordinator assigns")


def check_node(source_count: int, node_id: int) -> None:
    """Raise ValueError for an invalid source count or node id."""
    if source_count == 0:
        raise ValueError("source_count is 0: give how many members there are, or -1 to go without that check")
    if source_count > 0 and not 0 <= node_id < source_count:
        raise ValueError(
            f"node_id is {node_id}, with source_count {source_count} it must be from 0 to {source_count - 1}"
        )


def _topic(name: str) -> str:
    name = name.strip()
    if not name:
        raise ValueError("a topic without a name is wanted")
    if len(name) > MAX_TOPIC_CHARACTERS:
        raise ValueError(f"the topic's name {name!r} has {len(name)} characters, {MAX_TOPIC_CHARACTERS} are the most")
    if not may_be_keyed(name):
        raise ValueError(f"{name!r} cannot be in a partition key: a letter, then letters, digits and ._- are wanted")
    return name


def _filters(topic: str, filters: Iterable[str] | None) -> tuple[str, ...]:
    trimmed = sorted({one.strip() for one in filters or ()})
    if len(trimmed) > MAX_FILTERS:
        raise ValueError(f"{len(trimmed)} filters are wanted of topic {topic}, {MAX_FILTERS} are the most")
    for one in trimmed:
        if not one:
            raise ValueError(f"a filter of topic {topic} is blank")
        if len(one) > MAX_FILTER_LENGTH:
            raise ValueError(f"a filter of topic {topic} has {len(one)} characters, {MAX_FILTER_LENGTH} are the most")
    return tuple(trimmed)

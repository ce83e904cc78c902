"""Facts that nodes know about each other."""

from typing import Final

import msgspec

from coordinator.records.records import Note

COORDINATOR_IDS: Final = 1_000_000_000
"""Added to a node's id: Kafka's clients know coordinators by ids that no broker of a cluster has."""
NOBODY: Final = -1
"""Node id of no node."""


class NodeView(msgspec.Struct, frozen=True):
    """A node. `addresses`: advertised host and port for clients of each dialect. `listeners`: those of its listeners in
    front of brokers, by the broker's id."""

    node_id: int
    addresses: dict[str, tuple[str, int]] = {}
    listeners: dict[int, tuple[str, int]] = {}
    version: str = ""


class LetGo(msgspec.Struct, frozen=True):
    """A node has handed over the shard that it served under the claim at offset `tag`."""

    shard: int
    tag: int
    wall_ms: int


class Taken(msgspec.Struct, frozen=True):
    """A node serves the shard, under its claim at offset `tag`."""

    shard: int
    tag: int
    node_id: int


News = Note | LetGo | Taken
"""News that nodes share."""

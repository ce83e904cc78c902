"""Placement: the node of each shard and topic partition. Nothing may assume that "the coordinator" is this node: ask
here."""

import msgspec

from protocol.messages import LONGEST_GROUP_ID


class AdvertisedAddress(msgspec.Struct, frozen=True):
    """Address of a node for clients of one dialect."""

    node_id: int
    host: str
    port: int


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapping at 32 bits, signed
    (docs/spec/group-protocol.md#5.1)."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(data), 2):
            value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


class Placement:
    """One node serves every shard and every topic partition."""

    def __init__(self, node_id: int, shards: int, addresses: dict[str, tuple[str, int]]) -> None:
        self.node_id = node_id
        self.shards = shards
        self.addresses = addresses

    def shard_of(self, group_id: str) -> int:
        """Partition of the offsets topic for the group. The smallest hash has no absolute value; it counts as 0. An
        invalid group id belongs to no shard in particular, and is not hashed."""
        if len(group_id) > LONGEST_GROUP_ID:
            return 0
        value = java_string_hash(group_id)
        return 0 if value == -0x8000_0000 else abs(value) % self.shards

    def is_mine(self, shard: int) -> bool:
        """Return true if this node serves the shard."""
        return 0 <= shard < self.shards

    def coordinator_of(self, shard: int, dialect: str) -> AdvertisedAddress | None:
        """Coordinator of the groups of the shard, with its address for clients of the dialect; None if it has none
        now."""
        return self._self(dialect)

    def is_moving(self, shard: int) -> bool:
        """Return true if a client should wait for the shard's next coordinator."""
        return False

    def settles_by_ms(self, shard: int, now_ms: int) -> int:
        """Return the clock reading until which a lookup that comes now should wait for the shard's next coordinator; 0
        if the present one serves. May begin a wait."""
        return 0

    def is_listed_by(self, shard: int, broker: int) -> bool:
        """Return true if a client that asks this broker for its groups is told those of the shard."""
        return True

    def leader_of(self, topic: str, partition: int) -> int:
        """Node of the partition of an embedded topic."""
        return self.node_id

    @property
    def unowned_shards(self) -> int:
        """Number of shards that no node has."""
        return 0

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of all nodes."""
        return (self.node_id,)

    def nodes(self, dialect: str) -> tuple[AdvertisedAddress, ...]:
        """All nodes, with their addresses for clients of the dialect."""
        return (self._self(dialect),)

    def _self(self, dialect: str) -> AdvertisedAddress:
        host, port = self.addresses.get(dialect) or next(iter(self.addresses.values()), ("", -1))
        return AdvertisedAddress(self.node_id, host, port)

"""Data that nodes exchange through their group: each member's identity when it joins, and the leader's table of all
nodes with the assignment. Both are MessagePack; unknown fields are ignored.
"""

import msgspec

from coordinator.cluster_node.nodes import NodeView
from membership.assignors.user_data import cooperative_user_data

_GENERATION_BYTES = len(cooperative_user_data((), -1))


class Candidate(msgspec.Struct, frozen=True):
    """A node that joins. `incarnation` changes at each start; of two nodes with one id, the one with the smaller
    incarnation is older. `is_ready` is false until the node has read the logs of the shards that it would be given;
    nodes of versions before do not say it, and are given shards at once."""

    node: NodeView
    incarnation: str
    is_ready: bool = True


class OwnerTable(msgspec.Struct, frozen=True):
    """The living nodes; for each shard, the ids of its owner and of the node that would inherit it. `awaited`: for each
    node that is not ready, the shards that it would be given if it were."""

    nodes: tuple[Candidate, ...] = ()
    owners: tuple[int, ...] = ()
    heirs: tuple[int, ...] = ()
    awaited: dict[int, tuple[int, ...]] = {}

    def holder(self, node_id: int) -> Candidate | None:
        """Return the living node of this id."""
        return next((one for one in self.nodes if one.node.node_id == node_id), None)


def encode_candidate(candidate: Candidate, generation_id: int) -> bytes:
    """Encode the user data of a subscription. It begins like the user data of any member with a cooperative
    assignor."""
    return cooperative_user_data((), generation_id) + msgspec.msgpack.encode(candidate)


def decode_candidate(data: bytes | None) -> Candidate | None:
    """Return a member's identity; None if the member is not a node."""
    try:
        return msgspec.msgpack.decode((data or b"")[_GENERATION_BYTES:], type=Candidate)
    except (msgspec.DecodeError, ValueError):
        return None


def encode_table(table: OwnerTable) -> bytes:
    """Encode the user data of an assignment."""
    return msgspec.msgpack.encode(table)


def decode_table(data: bytes | None) -> OwnerTable | None:
    """Return the leader's table; None: it cannot be read."""
    try:
        return msgspec.msgpack.decode(data or b"", type=OwnerTable)
    except (msgspec.DecodeError, ValueError):
        return None

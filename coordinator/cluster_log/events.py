"""Events of a shard in the cluster's log."""

import msgspec

from protocol.errors import ErrorCode


class ShardEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of these events."""


class OwnershipGiven(ShardEvent, frozen=True):
    """The nodes' group has given the shard to this node."""


class OwnershipRevoked(ShardEvent, frozen=True):
    """The shard is to be handed over. It stays this node's until `ShardHandedOver`."""


class OwnershipLost(ShardEvent, frozen=True):
    """The node is no longer a member of the nodes' group: other nodes may own the shard already."""


class FollowingWanted(ShardEvent, frozen=True):
    """Begin or stop to follow the log while another node owns the shard, so that a take-over has only the rest to
    read."""

    is_wanted: bool


class ProducerIdAnswered(ShardEvent, frozen=True):
    """Answer to `AskProducerId`; `error` None: there was no answer."""

    number: int
    error: ErrorCode | None
    producer_id: int = -1
    producer_epoch: int = -1


class BatchAnswered(ShardEvent, frozen=True):
    """Answer to `WriteBatch` for the partition; `error` None: there was no answer."""

    number: int
    error: ErrorCode | None
    base_offset: int = -1


class LogRead(ShardEvent, frozen=True):
    """Answer to `ReadLog`; `error` None: there was no answer. `high_watermark`: the end of the readable records."""

    number: int
    error: ErrorCode | None
    data: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = 0

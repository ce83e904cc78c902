"""The client's side of client-balanced groups, without I/O: `BalancedMembership`, and the functions that choose
partitions."""

from muster.core.balancing.config import BalancedConfig
from muster.core.balancing.core import BalancedMembership
from muster.core.balancing.results import Batch, Code, Confirm, OffsetInfo, Result
from muster.core.balancing.shares import Share, hash_mod, index_mod, range_share
from protocol.partition_key import PartitionKey

__all__ = [
    "BalancedConfig",
    "BalancedMembership",
    "Batch",
    "Code",
    "Confirm",
    "OffsetInfo",
    "PartitionKey",
    "Result",
    "Share",
    "hash_mod",
    "index_mod",
    "range_share",
]

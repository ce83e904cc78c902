"""The client's side of client-balanced groups, without I/O: `BalancedMember`, and the functions that share out."""

from muster.balancing.config import BalancedConfig
from muster.balancing.core import BalancedMember
from muster.balancing.results import Batch, Code, Confirm, OffsetInfo, Result
from muster.balancing.shares import Share, hash_mod, index_mod, range_share
from protocol.partition_key import PartitionKey

__all__ = [
    "BalancedConfig",
    "BalancedMember",
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

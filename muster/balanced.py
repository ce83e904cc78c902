"""Client-balanced groups: members choose their partitions, the coordinator grants each partition to one member.

    from muster.balanced import BalancedConfig, BalancedLoop, ClientBalancedConsumer

    with ClientBalancedConsumer("127.0.0.1:9390", "billing") as consumer:
        consumer.start({"orders": None}, source_count=2, node_id=0)
        with BalancedLoop(consumer):
            while True:
                said = consumer.get_message()
                if said.ok:
                    work_on(said.data.messages)
                    consumer.confirm_consume(said.data.confirm_ctx)

docs/balanced.md is the guide.
"""

from muster.blocking.balanced import ClientBalancedConsumer
from muster.blocking.balanced_loop import BalancedLoop
from muster.core.balancing import (
    BalancedConfig,
    Batch,
    Code,
    Confirm,
    OffsetInfo,
    PartitionKey,
    Result,
    Share,
    hash_mod,
    index_mod,
    range_share,
)
from muster.core.balancing.keys import sort_keys
from muster.core.balancing.loop import Round, Shortfall, rebalance_once, shortfall
from muster.core.balancing.results import NORMAL

__all__ = [
    "NORMAL",
    "BalancedConfig",
    "BalancedLoop",
    "Batch",
    "ClientBalancedConsumer",
    "Code",
    "Confirm",
    "OffsetInfo",
    "PartitionKey",
    "Result",
    "Round",
    "Share",
    "Shortfall",
    "hash_mod",
    "index_mod",
    "range_share",
    "rebalance_once",
    "shortfall",
    "sort_keys",
]

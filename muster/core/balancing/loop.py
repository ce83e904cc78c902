"""The recommended loop for applications of a client-balanced group, one round at a time
(docs/spec/client-balanced-groups.md#10), and its warnings (docs/spec/client-balanced-groups.md#6.3).
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from muster.core.balancing.keys import sort_keys
from muster.core.balancing.results import Code, Result
from muster.core.balancing.shares import Share, hash_mod
from protocol.messages.balanced import BalancedGroupView


class Balanced(Protocol):
    """The part of a `ClientBalancedConsumer` that a round needs."""

    def is_shutdown(self) -> bool: ...
    def source_count(self) -> int | None: ...
    def node_id(self) -> int | None: ...
    def partition_meta(self) -> Result: ...
    def registered_partitions(self) -> list[str]: ...
    def connect_partition(self, key: str, bootstrap_offset: int = -1) -> Result: ...
    def disconnect_partition(self, key: str) -> Result: ...


class Round(msgspec.Struct, frozen=True):
    """The result of a round. `refused`: partitions that could not be connected, with the messages; the next round
    retries. `is_last`: the consumer was shut down. `trouble`: the reason if nothing could be done.
    """

    connected: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    refused: dict[str, Result] = {}
    is_last: bool = False
    trouble: Result | None = None


class Shortfall(msgspec.Struct, frozen=True):
    """The partitions that a group with numbered members does not read. `missing_nodes` are those without a member;
    `unread` the subscribable partitions of their shares that no member owns. No other node takes over a missing node's
    share.
    """

    missing_nodes: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing_nodes)


def rebalance_once(consumer: Balanced, share: Share = hash_mod, saved: Mapping[str, int] | None = None) -> Round:
    """Disconnect partitions outside this member's share, then connect missing ones; `saved` has start offsets, if the
    application stores its own. Shares are computed over all configured partitions, and then reduced to subscribable
    ones, so that an outage moves no other partition. Without `source_count`, `share` is called for node 0 of 1.
    """
    if consumer.is_shutdown():
        return Round(is_last=True)
    said = consumer.partition_meta()
    if not said.ok:
        return Round(is_last=said.code == Code.CLIENT_SHUTDOWN, trouble=said)
    meta: dict[str, bool] = said.data
    mine = share(list(meta), consumer.source_count() or 1, consumer.node_id() or 0)
    released: list[str] = []
    for key in consumer.registered_partitions():
        if key not in mine or not meta.get(key):
            if consumer.disconnect_partition(key).code == Code.CLIENT_SHUTDOWN:
                return Round(released=tuple(released), is_last=True)
            released.append(key)
    kept = set(consumer.registered_partitions())
    connected: list[str] = []
    refused: dict[str, Result] = {}
    for key in sort_keys(one for one in mine if meta.get(one) and one not in kept):
        result = consumer.connect_partition(key, (saved or {}).get(key, -1))
        if result.code == Code.CLIENT_SHUTDOWN:
            return Round(tuple(connected), tuple(released), refused, is_last=True)
        if result.ok:
            connected.append(key)
        else:
            refused[key] = result
    return Round(tuple(connected), tuple(released), refused)


def shortfall(view: BalancedGroupView, source_count: int | None, share: Share = hash_mod) -> Shortfall:
    """Return the missing nodes and unread partitions of a group, from the coordinator's description; empty if members
    are not numbered."""
    if source_count is None:
        return Shortfall()
    there = {member.node_id for member in view.members}
    missing = tuple(node for node in range(source_count) if node not in there)
    keys = [one.key for one in view.partitions]
    left: set[str] = set().union(*(share(keys, source_count, node) for node in missing))
    unowned = (one.key for one in view.partitions if one.subscribable and one.owner is None and one.key in left)
    return Shortfall(missing, tuple(sort_keys(unowned)))

"""Shares of members, by functions that every member computes for itself (docs/spec/client-balanced-groups.md#10).

Each takes all configured keys, the number of members, and this member's number. Equal keys give equal shares on every
machine, and every key is in exactly one share; so none of them uses Python's `hash`, which differs between processes.
Compute shares over *all* configured partitions, including unreadable ones, so that an outage moves no partition.
"""

from collections.abc import Callable, Iterable

from muster.core.balancing.keys import sort_keys

Share = Callable[[Iterable[str], int, int], set[str]]
"""(all configured keys, source_count, node_id) -> the keys of that node."""


def java_hash(text: str) -> int:
    """The hash of a string in Java, as an unsigned number of 32 bits: over its UTF-16 units, h = 31 h + unit."""
    units = text.encode("utf-16-le", "surrogatepass")
    h = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        h = (31 * h + (high << 8 | low)) & 0xFFFFFFFF
    return h


def hash_mod(keys: Iterable[str], source_count: int, node_id: int) -> set[str]:
    """Return the keys with `java_hash` mod `source_count` equal to `node_id`: a key's node does not depend on the other
    keys; shares may be uneven. Raises ValueError for an invalid `node_id`.
    """
    _check(source_count, node_id)
    return {key for key in keys if java_hash(key) % source_count == node_id}


def index_mod(keys: Iterable[str], source_count: int, node_id: int) -> set[str]:
    """Return every `source_count`-th of the sorted keys: the sizes of shares differ by at most one; a new key moves
    those that sort after it. Raises ValueError.
    """
    _check(source_count, node_id)
    return set(sort_keys(set(keys))[node_id::source_count])


def range_share(keys: Iterable[str], source_count: int, node_id: int) -> set[str]:
    """Return a run of the sorted keys; if they do not divide evenly, the first runs are longer by one. Raises
    ValueError."""
    _check(source_count, node_id)
    ordered = sort_keys(set(keys))
    each, extra = divmod(len(ordered), source_count)
    start = each * node_id + min(node_id, extra)
    return set(ordered[start : start + each + (node_id < extra)])


def _check(source_count: int, node_id: int) -> None:
    if not 0 <= node_id < source_count:
        raise ValueError(
            f"node {node_id} is none of {source_count}: a share is that of a node from 0 to source_count - 1"
        )

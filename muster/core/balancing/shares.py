"""Shares of members, by functions that every member computes for itself (docs/spec/client-balanced-groups.md#10).

Each takes all configured keys, how many members there are, and which of them this one is. The same keys give the same
shares on every machine, and every key is in exactly one: none of them uses Python's `hash`, which differs from process
to process. Compute shares over *all* configured partitions, also those that cannot be read at present: then an outage
moves no partition.
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
    """Return those whose `java_hash` leaves `node_id`: a key stays where it is whatever else comes or goes; shares may
    be uneven. Raises ValueError for a node that is none of so many.
    """
    _check(source_count, node_id)
    return {key for key in keys if java_hash(key) % source_count == node_id}


def index_mod(keys: Iterable[str], source_count: int, node_id: int) -> set[str]:
    """Every so manieth of the sorted keys: shares differ by one at most; a new key moves those that sort after it.
    Raises ValueError.
    """
    _check(source_count, node_id)
    return set(sort_keys(set(keys))[node_id::source_count])


def range_share(keys: Iterable[str], source_count: int, node_id: int) -> set[str]:
    """A run of the sorted keys; the first runs are one longer where they do not divide evenly. Raises ValueError."""
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

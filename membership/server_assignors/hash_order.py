"""Orders of hash tables (docs/spec/consumer-group-protocol.md#5.1): Kafka's assignors visit members, topics and
partitions in the order of Java's hash tables, which determines the assignment.
"""

from array import array
from functools import lru_cache
from operator import mul

LEAST_BUCKETS = 16
_BITS_32 = 0xFFFFFFFF


def _powers(count: int) -> list[int]:
    powers = [1]
    while len(powers) < count:
        powers.append(powers[-1] * 31 & _BITS_32)
    return powers


_POWERS = _powers(8_192)


@lru_cache(maxsize=65_536)
def hash_of_text(text: str) -> int:
    """Return Java's hash of a string, over UTF-16 code units, as an unsigned number."""
    units = array("H", text.encode("utf-16-le", "surrogatepass"))
    powers = _POWERS if len(units) <= len(_POWERS) else _powers(len(units))
    whole: int = sum(map(mul, reversed(units), powers))
    return whole & _BITS_32


def hash_of_id(topic_id: bytes) -> int:
    """Return Java's hash of a UUID, as an unsigned number."""
    halves = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (halves >> 32 ^ halves) & _BITS_32


def bucket(hash_code: int, buckets: int) -> int:
    return (hash_code ^ hash_code >> 16) & (buckets - 1)


def buckets_of_list(count: int) -> int:
    """Return the number of buckets of a set made from a list of `count` elements."""
    return _power_of_two(max(LEAST_BUCKETS, count * 4 // 3 + 1))


def buckets_grown_to(count: int) -> int:
    """Return the number of buckets of a table that grew to `count` elements."""
    buckets = LEAST_BUCKETS
    while count * 4 > buckets * 3:
        buckets *= 2
    return buckets


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()

"""The partition of a key, by Kafka's murmur2, so that all clients choose the same."""

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as Kafka's default partitioner does."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with Kafka's seed, unsigned."""
    length = len(data)
    mixed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        mixed = (mixed * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * _MULTIPLIER & _MASK
    return mixed ^ mixed >> 15

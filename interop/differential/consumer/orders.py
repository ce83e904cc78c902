"""Ids that leave Kafka's assignors one order to visit members and topics in: no two fall into one bucket of a hash
table (docs/spec/consumer-group-protocol.md#5.1)."""

from collections.abc import Iterable, Mapping
from string import ascii_lowercase

BUCKETS = 16


def member_ids(clients: int, each: int) -> tuple[tuple[str, ...], ...]:
    """So many ids for each client: the processes that it is one after the other."""
    taken: set[int] = set()
    found = []
    for client in range(clients):
        ids: list[str] = []
        for letter in ascii_lowercase:
            name = f"c{client + 1}-{letter}"
            if len(ids) < each and (at := _bucket(_hash_of_text(name))) not in taken:
                taken.add(at)
                ids.append(name)
        assert len(ids) == each, f"{clients} times {each} ids do not fit into {BUCKETS} buckets"
        found.append(tuple(ids))
    return tuple(found)


def order(topic_ids: Mapping[str, bytes]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names of the topics by the buckets of their ids, and by the ids; None if two are in one bucket."""
    buckets = {name: _bucket(_hash_of_id(topic_id)) for name, topic_id in topic_ids.items()}
    if len(set(buckets.values())) < len(buckets):
        return None
    halves = {name: tuple(_halves(topic_id)) for name, topic_id in topic_ids.items()}
    return tuple(sorted(topic_ids, key=buckets.__getitem__)), tuple(sorted(topic_ids, key=halves.__getitem__))


def _bucket(hash_code: int) -> int:
    return (hash_code ^ hash_code >> 16) & (BUCKETS - 1)


def _hash_of_text(text: str) -> int:
    """Java's hash of a string of ASCII."""
    code = 0
    for char in text:
        code = (31 * code + ord(char)) & 0xFFFFFFFF
    return code


def _halves(topic_id: bytes) -> Iterable[int]:
    return (int.from_bytes(half, "big", signed=True) for half in (topic_id[:8], topic_id[8:]))


def _hash_of_id(topic_id: bytes) -> int:
    """Java's hash of a UUID."""
    halves = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (halves >> 32 ^ halves) & 0xFFFFFFFF

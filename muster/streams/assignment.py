"""Assignment of partitions to the threads of members (docs/spec/consumer-client.md#D7, #G): pure functions that the
leader runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from membership.errors import CannotShareOut

Shares = dict[str, dict[str, dict[int, int]]]
"""Threads of partitions, by member and topic. Every member has an entry."""


class MemberThreads(NamedTuple):
    """The number of threads that a member has for each topic it reads."""

    member_id: str
    topics: Mapping[str, int]
    group_instance_id: str | None = None


class _Thread(NamedTuple):
    member_id: str
    number: int


def share_by_range(partition_counts: Mapping[str, int], members: Sequence[MemberThreads]) -> Shares:
    """Assign contiguous partitions of each topic: with T threads for P partitions, thread i begins at n*i + min(i, r)
    and gets n, one more if i < r, where n = P div T and r = P mod T. Threads beyond the partitions get none.
    """
    shares: Shares = {one.member_id: {} for one in members}
    for topic in _topics(partition_counts, members):
        threads = _threads(topic, members)
        quota, more = divmod(partition_counts[topic], len(threads))
        for i, thread in enumerate(threads):
            begin = quota * i + min(i, more)
            for partition in range(begin, begin + quota + (i < more)):
                shares[thread.member_id].setdefault(topic, {})[partition] = thread.number
    return shares


def share_in_circle(partition_counts: Mapping[str, int], members: Sequence[MemberThreads]) -> Shares:
    """Assign all partitions of all topics, in the order of the hashes of their names, to the threads in turn. Raises
    CannotShareOut unless all topics have the same threads.
    """
    shares: Shares = {one.member_id: {} for one in members}
    topics = _topics(partition_counts, members)
    threads = _threads(topics[0], members) if topics else []
    for topic in topics:
        if _threads(topic, members) != threads:
            raise CannotShareOut(
                f"topics {topics[0]} and {topic} are not read by the same threads: the roundrobin strategy needs every "
                "member to read the same topics with the same number of streams each"
            )
    deck = [(topic, number) for topic in topics for number in range(partition_counts[topic])]
    deck.sort(key=lambda one: (_hash(f"{one[0]}-{one[1]}"), one))
    for at, (topic, partition) in enumerate(deck):
        thread = threads[at % len(threads)]
        shares[thread.member_id].setdefault(topic, {})[partition] = thread.number
    return shares


def _topics(partition_counts: Mapping[str, int], members: Sequence[MemberThreads]) -> list[str]:
    return sorted({topic for one in members for topic in one.topics if partition_counts.get(topic, 0) > 0})


def _threads(topic: str, members: Sequence[MemberThreads]) -> list[_Thread]:
    """Return the threads that read the topic, in the order of members and thread numbers: thread 2 before thread 10."""
    ordered = sorted(
        members, key=lambda one: (one.group_instance_id is None, one.group_instance_id or one.member_id, one.member_id)
    )
    return [_Thread(one.member_id, number) for one in ordered for number in range(one.topics.get(topic, 0))]


def _hash(text: str) -> int:
    """Return Java's hash of a string, which Kafka's old consumers used."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value

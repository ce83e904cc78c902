"""Who gets which partition: pure functions that the leader of a group runs (group-protocol 6.2 to 6.4).

An assignor is a name and a function; `register` adds one. What every assignor promises: each partition of a
subscribed topic goes to exactly one member that subscribed to it, every member has an entry (possibly empty), and the
same input gives the same answer wherever it runs.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from muster.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> what it gets, in the order of topics and numbers."""


class Subscriber(msgspec.Struct, frozen=True):
    """A member as an assignor sees it."""

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    user_data: bytes | None = None


Assign = Callable[[Mapping[str, int], Sequence[Subscriber]], Assignment]
"""(topic -> number of partitions, members) -> assignment. A topic missing from the first is skipped."""


class Assignor(msgspec.Struct, frozen=True):
    """One way of sharing out, under the name members agree on."""

    name: str
    assign: Assign


def assign_range(partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber]) -> Assignment:
    """Per topic, consecutive partitions in member order; the first `partitions mod members` get one more."""
    assignment = _nothing(subscribers)
    members = in_member_order(subscribers)
    for topic in _topics(partition_counts, members):
        subscribed = [member for member in members if topic in member.topics]
        share, extra = divmod(partition_counts[topic], len(subscribed))
        first = 0
        for place, member in enumerate(subscribed):
            end = first + share + (place < extra)
            assignment[member.member_id].extend(TopicPartition(topic, number) for number in range(first, end))
            first = end
    return assignment


def assign_round_robin(partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber]) -> Assignment:
    """All partitions in order, dealt in a circle that skips members not subscribed to the topic."""
    assignment = _nothing(subscribers)
    members = in_member_order(subscribers)
    place = 0
    for topic in _topics(partition_counts, members):
        for number in range(partition_counts[topic]):
            while topic not in members[place].topics:
                place = (place + 1) % len(members)
            assignment[members[place].member_id].append(TopicPartition(topic, number))
            place = (place + 1) % len(members)
    return assignment


def in_member_order(subscribers: Sequence[Subscriber]) -> list[Subscriber]:
    """Static members first, by instance id, so that a restart moves nothing; then the others by member id."""
    return sorted(
        subscribers,
        key=lambda one: (one.group_instance_id is None, one.group_instance_id or one.member_id, one.member_id),
    )


def register(assignor: Assignor) -> None:
    """Make an assignor known under its name. Raises ValueError if the name is taken."""
    if assignor.name in _BY_NAME:
        raise ValueError(f"an assignor named {assignor.name!r} is registered already")
    _BY_NAME[assignor.name] = assignor


def by_name(name: str) -> Assignor:
    """The assignor of that name. Raises ValueError naming the known ones."""
    if name not in _BY_NAME:
        raise ValueError(f"there is no assignor named {name!r}; known are {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]


def _nothing(subscribers: Sequence[Subscriber]) -> Assignment:
    return {subscriber.member_id: [] for subscriber in subscribers}


def _topics(partition_counts: Mapping[str, int], members: Sequence[Subscriber]) -> list[str]:
    subscribed = {topic for member in members for topic in member.topics}
    return sorted(topic for topic in subscribed if partition_counts.get(topic, 0) > 0)


_BY_NAME: dict[str, Assignor] = {}

register(Assignor("range", assign_range))
register(Assignor("roundrobin", assign_round_robin))

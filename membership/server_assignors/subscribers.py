"""Members of each topic."""

from collections.abc import Generator, Sequence

from membership.pace import Pace, chunks
from membership.server_assignors.spec import SubscribedMember

_MEMBER_US, _TOPIC_US, _NUMBER_US = 2.0, 1.0, 0.06


def subscribers(ordered: Sequence[SubscribedMember], pace: Pace) -> Generator[int, object, dict[bytes, Sequence[int]]]:
    """Return the members of each topic by their places in `ordered`, ascending. Members that subscribe alike form one
    class, and topics with the same classes share one list, so that the cost is not the product of members and
    topics."""
    classes: dict[frozenset[bytes], list[int]] = {}
    for number, member in enumerate(ordered):
        classes.setdefault(member.topics, []).append(number)
        if pace.add(_MEMBER_US):
            yield pace.take()
    of_topic: dict[bytes, list[int]] = {}
    for place, topics in enumerate(classes):
        for chunk in chunks(sorted(topics)):  # the order of a set of bytes differs between processes
            for topic_id in chunk:
                of_topic.setdefault(topic_id, []).append(place)
            if pace.add(_TOPIC_US * len(chunk)):
                yield pace.take()
    found: dict[bytes, Sequence[int]] = {}
    numbers, merged = list(classes.values()), dict[tuple[int, ...], list[int]]()
    for topic_id, places in of_topic.items():
        key = tuple(places)
        if key not in merged:
            merged[key] = sorted(number for place in key for number in numbers[place])
            pace.add(_NUMBER_US * len(merged[key]))
        found[topic_id] = merged[key]
        if pace.add(_TOPIC_US + _NUMBER_US * len(key)):
            yield pace.take()
    return found

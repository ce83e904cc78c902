"""`uniform` for members that subscribe to different topics (docs/spec/consumer-group-protocol.md#5.3).

Members keep their partitions, free partitions go to the members with the fewest, and then sizes are balanced topic by
topic. Members are numbered in member order, and represented by their numbers here.
"""

from collections.abc import Generator, Mapping, Sequence

from membership.pace import Pace, chunks, sort
from membership.server_assignors.cursors import Loads
from membership.server_assignors.orders import in_member_order
from membership.server_assignors.spec import Computation, SubscribedMember, SubscribedTopic, Targets
from membership.server_assignors.subscribers import subscribers

MOST_ROUNDS = 16
_NOBODY = -1
_TOPIC_US, _PARTITION_US, _SUBSCRIBER_US, _SORTED_US = 3.0, 0.3, 0.06, 0.15


def assign_heterogeneous(members: Sequence[SubscribedMember], topics: Mapping[bytes, SubscribedTopic]) -> Computation:
    """Assign so that no partition could move and make two members' sizes more equal, but for the last one."""
    pace = Pace()
    ordered = yield from in_member_order(members, pace)
    of_topic = yield from subscribers(ordered, pace)
    state = _State(ordered, of_topic, pace)
    yield from state.begin(topics)
    yield from state.keep()
    order = yield from sort(of_topic, state.urgency, pace)
    for topic_id in order:
        yield from state.give_out(topic_id)
    yield from state.balance([topic_id for topic_id in order if len(of_topic[topic_id]) > 1])
    targets = yield from state.targets()
    return targets


class _State:
    """The assignment so far: `_owners` has the owner of each partition, `_sizes` the partitions of each member,
    `_balanced` lists of subscribers that are balanced, by identity."""

    def __init__(
        self,
        ordered: Sequence[SubscribedMember],
        of_topic: Mapping[bytes, Sequence[int]],
        pace: Pace,
    ) -> None:
        self._members = ordered
        self._subscribers = of_topic
        self._owners: dict[bytes, list[int]] = {}
        self._sizes = [0] * len(ordered)
        self._balanced: set[int] = set()
        self._pace = pace

    def begin(self, topics: Mapping[bytes, SubscribedTopic]) -> Generator[int, object, None]:
        """Begin without owners."""
        for topic_id in self._subscribers:
            self._owners[topic_id] = [_NOBODY] * topics[topic_id].partitions
            if self._pace.add(_TOPIC_US):
                yield self._pace.take()

    def keep(self) -> Generator[int, object, None]:
        """Let members keep their previous partitions of topics to which they still subscribe."""
        for number, member in enumerate(self._members):
            for topic_id, partitions in member.target.items():
                if topic_id not in member.topics:
                    continue
                owners = self._owners[topic_id]
                for partition in partitions:
                    if partition < len(owners) and owners[partition] == _NOBODY:
                        owners[partition] = number
                        self._sizes[number] += 1
                if self._pace.add(_TOPIC_US + _PARTITION_US * len(partitions)):
                    yield self._pace.take()

    def urgency(self, topic_id: bytes) -> tuple[float, int, int, int]:
        """Sort topics with most partitions a subscriber first, then those with few subscribers, then by id."""
        subscribers = len(self._subscribers[topic_id])
        high = int.from_bytes(topic_id[:8], "big", signed=True)
        low = int.from_bytes(topic_id[8:], "big", signed=True)
        return -len(self._owners[topic_id]) / subscribers, subscribers, high, low

    def give_out(self, topic_id: bytes) -> Generator[int, object, None]:
        """Give the topic's free partitions to the members with the fewest."""
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if self._pace.add(_TOPIC_US + _SUBSCRIBER_US * len(owners)):
            yield self._pace.take()
        if not free:
            return
        loads = self._sorted(topic_id)
        for partition in free:
            least = loads.least()
            owners[partition] = least
            self._sizes[least] += 1
            if self._pace.add(_PARTITION_US * 2):
                yield self._pace.take()

    def _sorted(self, topic_id: bytes) -> Loads:
        numbers = self._subscribers[topic_id]
        self._pace.add(_SORTED_US * len(numbers))
        return Loads(numbers, self._sizes)

    def balance(self, topic_ids: Sequence[bytes]) -> Generator[int, object, None]:
        """Move partitions, topic by topic, until a whole round has moved none."""
        last_moved: bytes | None = None
        for _ in range(MOST_ROUNDS):
            for topic_id in topic_ids:
                moved = yield from self._balance(topic_id)
                if moved or last_moved is None:
                    last_moved = topic_id
                elif topic_id == last_moved:
                    return

    def _balance(self, topic_id: bytes) -> Generator[int, object, bool]:
        """Move partitions of the topic from large members to small ones. Return true if one has moved."""
        if self._pace.add(_TOPIC_US + self._look(topic_id)):
            yield self._pace.take()
        if id(self._subscribers[topic_id]) in self._balanced:
            return False
        loads, owned = self._sorted(topic_id), (yield from self._by_owner(topic_id))
        owners, has_moved = self._owners[topic_id], False
        while True:
            most = loads.most()
            while most is not None and not owned.get(most):
                loads.skip()
                if self._pace.add(_PARTITION_US * 2):
                    yield self._pace.take()
                most = loads.most()
            if most is None:
                return has_moved
            least = loads.least()
            if loads.difference <= 1:
                return has_moved
            self._balanced.clear()
            owners[owned[most].pop()] = least
            self._sizes[most] -= 1
            self._sizes[least] += 1
            has_moved = True
            if self._pace.add(_PARTITION_US * 4):
                yield self._pace.take()

    def _look(self, topic_id: bytes) -> float:
        """Check whether the sizes of the topic's subscribers differ by at most one, and return the cost. The answer is
        kept until a partition moves, since topics share lists of subscribers."""
        numbers = self._subscribers[topic_id]
        if id(numbers) in self._balanced:
            return 0
        sizes = [self._sizes[number] for number in numbers]
        if max(sizes) - min(sizes) <= 1:
            self._balanced.add(id(numbers))
        return _SUBSCRIBER_US * len(sizes)

    def _by_owner(self, topic_id: bytes) -> Generator[int, object, dict[int, list[int]]]:
        owned: dict[int, list[int]] = {}
        for chunk in chunks(enumerate(self._owners[topic_id])):
            for partition, owner in chunk:
                owned.setdefault(owner, []).append(partition)
            if self._pace.add(_PARTITION_US * len(chunk)):
                yield self._pace.take()
        return owned

    def targets(self) -> Generator[int, object, Targets]:
        """Return the partitions of each member."""
        targets: Targets = {member.member_id: {} for member in self._members}
        for topic_id in self._owners:
            owned = yield from self._by_owner(topic_id)
            for some in chunks(owned.items()):
                for number, partitions in some:
                    member = self._members[number]
                    before = member.target.get(topic_id)
                    after = frozenset(partitions)
                    targets[member.member_id][topic_id] = before if before == after else after
                if self._pace.add(_TOPIC_US * (1 + len(some))):
                    yield self._pace.take()
        return targets

"""A group and its log without a network, as a reader sees them; the test controls the time."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from muster import CannotConnect, CommitRefused, Refused, RequestTimedOut, TopicPartition
from protocol.errors import ErrorCode

TOPIC = "flights"


def refused(code: ErrorCode) -> CommitRefused:
    return CommitRefused(code, code.name)


class FakeGroup:
    """Rebalances eagerly, driven by the members' own polls. Accepts commits while members revoke their partitions."""

    def __init__(
        self, partitions: int = 4, *, topics: Sequence[str] = (TOPIC,), refuse_while_rebalancing: bool = False
    ) -> None:
        self.partitions = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        self.deleted: set[str] = set()
        self.may_go_back = False  # a query restarts the group on purpose
        self.is_away = False  # no request is answered
        self.begins = dict.fromkeys(self.partitions, 0)
        self.ends = dict.fromkeys(self.partitions, 0)
        self.open = dict.fromkeys(self.partitions, 0)  # records after the last stable offset
        self.offsets: dict[TopicPartition, int] = {}
        self.generation = 0
        self.members: dict[str, FakeMember] = {}
        self.waiting: set[str] = set()  # members that have yet to revoke their partitions
        self.rebalancing = False
        self.refuse_while_rebalancing = refuse_while_rebalancing
        self.lose_next_answer = False
        self.joined = 0

    def produce(self, records: int, *numbers: int) -> None:
        for partition in self.partitions:
            if not numbers or partition.partition in numbers:
                self.ends[partition] += records

    def everything(self) -> set[tuple[TopicPartition, int]]:
        return {(partition, offset) for partition in self.partitions for offset in range(self.ends[partition])}

    def rebalance(self) -> None:
        self.rebalancing = True
        self.waiting = set(self.members)
        self._assign_if_all_let_go()

    def expel(self, member: "FakeMember") -> None:
        """Remove the member, as after a session timeout: the others go on without it."""
        del self.members[member.member_id]
        self.rebalance()

    def let_go(self, member: "FakeMember") -> None:
        self.waiting.discard(member.member_id)
        self._assign_if_all_let_go()

    def _assign_if_all_let_go(self) -> None:
        if self.waiting or not self.rebalancing:
            return
        self.rebalancing = False
        self.generation += 1
        names = sorted(self.members)
        for place, name in enumerate(names):
            self.members[name].given = self.partitions[place :: len(names)]

    def owner_of(self, partition: TopicPartition) -> str | None:
        owners = [name for name, member in self.members.items() if partition in member.assignment]
        assert len(owners) <= 1
        return owners[0] if owners else None


class FakeMember:
    """Stands in for `muster.blocking.GroupMember`."""

    group: FakeGroup

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topics: Sequence[str],
        *,
        on_assigned: Callable[[Iterable[TopicPartition]], object],
        on_revoked: Callable[[Iterable[TopicPartition]], object],
        on_lost: Callable[[Iterable[TopicPartition]], object],
        **settings: object,
    ) -> None:
        self.on_assigned, self.on_revoked, self.on_lost = on_assigned, on_revoked, on_lost
        self.settings = settings
        self.assignment: list[TopicPartition] = []
        self.given: list[TopicPartition] | None = None
        self.member_id = ""
        self.generation_id = -1
        self.is_closed = False

    def _join(self) -> None:
        self.group.joined += 1
        self.member_id = f"member-{self.group.joined:04}"
        self.group.members[self.member_id] = self
        self.group.rebalance()

    def poll(self, timeout_s: float = 0.0) -> bool:
        if self.member_id not in self.group.members:
            self.on_lost(self.assignment)
            self.assignment, self.given = [], None
            self._join()
        if self.member_id in self.group.waiting:
            self.on_revoked(self.assignment)
            self.assignment, self.given = [], None
            self.group.let_go(self)
        if self.given is not None:
            self.assignment, self.given = self.given, None
            self.generation_id = self.group.generation
            self.on_assigned(self.assignment)
        return self.generation_id == self.group.generation and not self.group.rebalancing

    has_nothing_to_read = False

    def subscribe(self, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        self.topics, self.pattern = tuple(topics), pattern

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float = 0) -> dict[TopicPartition, int]:
        group = self.group
        self._reach()
        if self.member_id not in group.members:
            raise refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.rebalancing and group.refuse_while_rebalancing:
            raise refused(ErrorCode.REBALANCE_IN_PROGRESS)
        if self.generation_id != group.generation:
            raise refused(ErrorCode.ILLEGAL_GENERATION)
        for partition, offset in offsets.items():
            assert group.may_go_back or offset >= group.offsets.get(partition, 0), (
                f"{partition} went back from {group.offsets[partition]}"
            )
        group.offsets |= offsets
        if group.lose_next_answer:
            group.lose_next_answer = False
            raise RequestTimedOut("the commit was not answered")
        return dict(offsets)

    def _reach(self) -> None:
        if self.group.is_away:
            raise CannotConnect("nobody listens at 127.0.0.1:1")

    def partitions_for(self, topic: str, timeout_s: float = 0) -> tuple[TopicPartition, ...]:
        self._reach()
        self._check(topic)
        return tuple(partition for partition in self.group.partitions if partition.topic == topic)

    def _check(self, topic: str) -> None:
        if topic in self.group.deleted or topic not in {partition.topic for partition in self.group.partitions}:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")

    def committed(self, partitions: Sequence[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int | None]:
        self._reach()
        return {partition: self.group.offsets.get(partition) for partition in partitions}

    def begin_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
        self._reach()
        for partition in partitions:
            self._check(partition.topic)
        return {partition: self.group.begins[partition] for partition in partitions}

    def end_offsets(
        self, partitions: Sequence[TopicPartition], timeout_s: float = 0, *, isolation_level: str = "read_committed"
    ) -> dict[TopicPartition, int]:
        self._reach()
        for partition in partitions:
            self._check(partition.topic)
        beyond = self.group.open if isolation_level == "read_uncommitted" else {}
        return {partition: self.group.ends[partition] + beyond.get(partition, 0) for partition in partitions}

    def close(self) -> None:
        self.is_closed = True
        if self.group.members.pop(self.member_id, None) is not None:
            self.group.rebalance()

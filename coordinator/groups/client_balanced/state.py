"""A client-balanced group and its members (docs/spec/client-balanced-groups.md): data, and the moves its state may
make.

Hard state is what the last `BalancedMetadata` record says, and the grants in `owners`. Everything else is soft: a crash
forgets it, and members bring it back. The classic group of the same id is the home of what is committed, and of
`owners`; it is Empty while members live here.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.groups.client_balanced.delayed import DelayedLease
from coordinator.groups.ownership import Key, Owners
from coordinator.records.records import BalancedMember, BalancedMetadata, Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import OwnedKey, PartitionState, StartMember
from protocol.partition_key import parse_key


class GroupState(enum.IntEnum):
    """The three states. The value is the state's place in a row of the table."""

    EMPTY = 0
    ONLINE = 1
    DEAD = 2

    @property
    def title(self) -> str:
        """Kafka's name of the state: a group whose members read what they have is Stable."""
        return _TITLES[self]


_TITLES = ("Empty", "Stable", "Dead")

MAY_BECOME: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.ONLINE, GroupState.DEAD}),
    GroupState.ONLINE: frozenset({GroupState.EMPTY, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}


def bytes_of(topics: Iterable[str], filters: Iterable[tuple[str, Iterable[str]]]) -> int:
    """What a group keeps of what its members agree on, roughly."""
    return sum(map(_bytes, topics)) + sum([_bytes(topic) + sum(map(_bytes, ones)) for topic, ones in filters])


def bytes_of_member(line: BalancedMember | StartMember) -> int:
    """What it keeps of a member's own words, roughly."""
    return _bytes(line.consumer_id) + _bytes(line.instance_id or "")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)  # as it lies in memory


@dataclass(slots=True, eq=False)
class Reading:
    """How far a grant is: the next fetch begins at `position`; `in_flight` is the end of a batch that was handed out
    and neither confirmed nor taken back."""

    epoch: int
    position: int
    in_flight: int | None = None


@dataclass(slots=True, eq=False)
class Member:
    """The first ten are on record. `lost`: what it owns no longer and has not been told, or has not yet reported to
    have dropped."""

    consumer_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    node_id: int | None
    consume_position: str
    session_timeout_ms: int
    epoch: int
    mark: int
    attempt: int = 0
    deadline_ms: int = 0
    heard_ms: int = 0
    connection: int = -1
    lease: DelayedLease | None = None
    reported: tuple[OwnedKey, ...] | None = None
    owned_version: int = -1
    lost: dict[str, ErrorCode] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class BalancedGroup:
    """One client-balanced group. Only `groups/balanced` changes it, and only `apply` (in `loading.py`) its hard
    state."""

    group_id: str
    owners: Owners
    broker_id: int
    """The home of every partition here; the first part of keys."""
    max_size: int = 2_147_483_647
    state: GroupState = GroupState.EMPTY
    stored: BalancedMetadata | None = None
    members: dict[str, Member] = field(default_factory=dict)
    meta: dict[str, PartitionState] = field(default_factory=dict)
    """The configured partitions by key, in the order of keys; what `stored.meta_version` stands for."""
    meta_as_of: int = -1
    """What the topics were like when `meta` was made, as one number that grows; -1: it is to be made anew."""
    meta_shape: tuple[int, ...] = ()
    """How many partitions the topics had then, and how many logs were damaged: while that holds, so does `meta`."""
    readings: dict[Key, Reading] = field(default_factory=dict)
    phase: None = None
    """Nothing of such a group waits but leases."""
    metadata_bytes: int = 0
    """Of what clients chose and is kept while they live; limits of the node count it."""

    @property
    def on_record(self) -> BalancedMetadata:
        """The last record, or that of a group nobody has heard of."""
        return self.stored or BalancedMetadata(self.group_id, -1)

    def become(self, state: GroupState) -> None:
        """The one way for live events to change the state."""
        assert state in MAY_BECOME[self.state], f"{self.group_id}: {self.state.title} may not become {state.title}"
        self.state = state

    def place_of(self, key: str) -> Key | None:
        """Topic and number of the partition; None for what is no key of a partition of this node."""
        parsed = parse_key(key)
        return None if parsed is None or parsed.broker_id != self.broker_id else (parsed.topic, parsed.partition)

    def key_of(self, entry: Ownership) -> str:
        """The partition as members name it."""
        return f"{self.broker_id}:{entry.topic}:{entry.partition}"

    def owner(self, key: Key) -> Member | None:
        """The member that owns the partition."""
        entry = self.owners.get(key)
        return None if entry is None or entry.owner is None else self.members.get(entry.owner.member_id)

    def grant(self, key: Key, consumer_id: str, epoch: int) -> Ownership | None:
        """The grant, if the member owns the partition by it."""
        return self.owners.get(key) if self.owners.is_held_by(key, consumer_id, epoch) else None

    def reading(self, entry: Ownership, committed: int) -> Reading:
        """How far the grant is. After a restart that is what is committed, or where the grant began: no commit of its
        owner lies below that. `committed` is -1 if nothing is."""
        known = self.readings.get((entry.topic, entry.partition))
        if known is not None and known.epoch == entry.epoch:
            return known
        assert entry.owner is not None
        return Reading(entry.epoch, max(entry.owner.position, committed, 0))

    def check(self) -> None:
        """Assert what must hold between any two steps; tests call it after each."""
        self.owners.check()
        assert bool(self.members) == (self.state is GroupState.ONLINE)
        stored = self.on_record
        if self.state is not GroupState.DEAD:
            assert [member.consumer_id for member in stored.members] == list(self.members)
        ours = [entry.owner.member_id for entry in self.owners if entry.owner and entry.owner.generation_id < 0]
        owning = [member_id for member_id in ours if member_id not in self.members]
        assert self.state is GroupState.DEAD or not owning, f"{owning} are gone and own partitions"
        if stored.source_count is not None:
            numbers = [member.node_id for member in self.members.values()]
            assert len(set(numbers)) == len(numbers)
            assert all(number is not None and 0 <= number < stored.source_count for number in numbers)

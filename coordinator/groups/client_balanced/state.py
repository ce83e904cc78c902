"""A client-balanced group and its members (docs/spec/client-balanced-groups.md): data, and the transitions of its
state.

Hard state is the last `BalancedMetadata` record, and the grants in `owners`. Everything else is soft state: a crash
loses it, and members send it again. The classic state of the same `Group` keeps `owners`; it is Empty while this one
has members.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.groups.client_balanced.delayed import DelayedBalancedLease
from coordinator.groups.ownership import Key, Owners
from coordinator.records.records import BalancedMember, BalancedMetadata, Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import NO_ASSIGNMENT, SERVER_MODE, OwnedKey, PartitionState, StartMember
from protocol.partition_key import parse_key


class BalancedState(enum.IntEnum):
    """The three states. The value is the index of the state's cell in a row of the table."""

    EMPTY = 0
    ONLINE = 1
    DEAD = 2

    @property
    def title(self) -> str:
        """Kafka's name of the state: a group whose members read their partitions is Stable."""
        return _TITLES[self]


_TITLES = ("Empty", "Stable", "Dead")

MAY_BECOME: dict[BalancedState, frozenset[BalancedState]] = {
    BalancedState.EMPTY: frozenset({BalancedState.ONLINE, BalancedState.DEAD}),
    BalancedState.ONLINE: frozenset({BalancedState.EMPTY, BalancedState.DEAD}),
    BalancedState.DEAD: frozenset({BalancedState.DEAD}),
}


def bytes_of(topics: Iterable[str], filters: Iterable[tuple[str, Iterable[str]]]) -> int:
    """Estimate the bytes a group keeps for topics and filters."""
    return sum(map(_bytes, topics)) + sum([_bytes(topic) + sum(map(_bytes, ones)) for topic, ones in filters])


def bytes_of_member(line: BalancedMember | StartMember) -> int:
    """Estimate the bytes a group keeps for one member."""
    return _bytes(line.consumer_id) + _bytes(line.instance_id or "")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)  # size in memory


@dataclass(slots=True, eq=False)
class Reading:
    """Progress of a grant. The next fetch begins at `position`; `in_flight` is the end of a batch that was sent and
    neither confirmed nor rewound."""

    epoch: int
    position: int
    in_flight: int | None = None


@dataclass(slots=True, eq=False)
class BalancedGroupMember:
    """A member. The first ten fields are recorded. `lost`: partitions that it no longer owns and was not yet notified
    about, or has not yet reported as dropped."""

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
    principal: str | None = None
    """Principal that started it; empty without a login. None: it was loaded, and has not started again."""
    lease: DelayedBalancedLease | None = None
    reported: tuple[OwnedKey, ...] | None = None
    owned_version: int = -1
    lost: dict[str, ErrorCode] = field(default_factory=dict)
    target: tuple[tuple[str, Key], ...] | None = None
    """Partitions that the last balancing pass assigned; None before the first, and in a group that balances itself."""
    offered: dict[str, None] = field(default_factory=dict)
    """Keys of `target` that no other member owns: the member owns them or may register them."""
    offered_id: int = NO_ASSIGNMENT


@dataclass(slots=True, eq=False)
class BalancedGroup:
    """One client-balanced group. Only `groups/client_balanced` changes it, and only `apply` (in `applying.py`), called
    by `Shard.apply` alone, its hard state."""

    group_id: str
    owners: Owners
    broker_id: int
    """Node of every partition here; the first part of keys."""
    max_size: int = 2_147_483_647
    state: BalancedState = BalancedState.EMPTY
    stored: BalancedMetadata | None = None
    members: dict[str, BalancedGroupMember] = field(default_factory=dict)
    meta: dict[str, PartitionState] = field(default_factory=dict)
    """The configured partitions by key, in the order of keys; their version is `stored.meta_version`."""
    meta_as_of: int = -1
    """State of the topics when `meta` was made, as a number that only grows; -1: `meta` must be made again."""
    meta_shape: tuple[int, ...] = ()
    """Numbers of partitions and of damaged logs of the topics at that time: while they are unchanged, so is `meta`."""
    readings: dict[Key, Reading] = field(default_factory=dict)
    assigned_for: tuple[object, ...] = ()
    """Members and partitions of the last balancing pass that assigned anything."""
    metadata_bytes: int = 0
    """Size of the data that clients chose, which is kept while the group has members; limits of the node count it."""

    @property
    def on_record(self) -> BalancedMetadata:
        """Return the last record, or an empty one if there is none."""
        return self.stored or BalancedMetadata(self.group_id, -1)

    @property
    def is_server_balanced(self) -> bool:
        """True if the coordinator assigns the partitions."""
        return self.on_record.mode == SERVER_MODE

    def become(self, state: BalancedState) -> None:
        """Change the state: the only way for live events."""
        assert state in MAY_BECOME[self.state], f"{self.group_id}: {self.state.title} may not become {state.title}"
        self.state = state

    def place_of(self, key: str) -> Key | None:
        """Return topic and number of the partition; None for a key that names no partition of this node."""
        parsed = parse_key(key)
        return None if parsed is None or parsed.broker_id != self.broker_id else (parsed.topic, parsed.partition)

    def key_of(self, entry: Ownership) -> str:
        """Return the partition's key as members write it."""
        return f"{self.broker_id}:{entry.topic}:{entry.partition}"

    def owner(self, key: Key) -> BalancedGroupMember | None:
        """Return the member that owns the partition."""
        entry = self.owners.get(key)
        return None if entry is None or entry.owner is None else self.members.get(entry.owner.member_id)

    def grant(self, key: Key, consumer_id: str, epoch: int) -> Ownership | None:
        """Return the grant with this epoch, if it is in force and the member's."""
        return self.owners.get(key) if self.owners.is_held_by(key, consumer_id, epoch) else None

    def reading(self, entry: Ownership, committed: int) -> Reading:
        """Return the progress of the grant. After a restart it is the committed offset or the grant's first position,
        whichever is larger, since no commit of its owner is lower. `committed` is -1 if there is none."""
        known = self.readings.get((entry.topic, entry.partition))
        if known is not None and known.epoch == entry.epoch:
            return known
        assert entry.owner is not None
        return Reading(entry.epoch, max(entry.owner.position, committed, 0))

    def check(self) -> None:
        """Assert the invariants that hold between any two steps; tests call it after each."""
        self.owners.check()
        assert bool(self.members) == (self.state is BalancedState.ONLINE)
        stored = self.on_record
        if self.state is not BalancedState.DEAD:
            assert [member.consumer_id for member in stored.members] == list(self.members)
        ours = [entry.owner.member_id for entry in self.owners if entry.owner and entry.owner.generation_id < 0]
        owning = [member_id for member_id in ours if member_id not in self.members]
        assert self.state is BalancedState.DEAD or not owning, f"{owning} are gone and own partitions"
        if stored.source_count is not None:
            numbers = [member.node_id for member in self.members.values()]
            assert len(set(numbers)) == len(numbers)
            assert all(number is not None and 0 <= number < stored.source_count for number in numbers)

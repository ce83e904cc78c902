"""The assignment that would follow a change of a group: added or removed members, added partitions, or another
assignor. The assignors of members and coordinators compute it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from membership.assignors import RebalanceProtocol, Subscriber, by_name
from membership.assignors.model import Racks
from membership.consumer_group import racks_of
from membership.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from membership.server_assignors.registry import ASSIGNORS
from membership.server_assignors.spec import SubscribedMember, run
from membership.topic_partition import TopicPartition
from protocol.errors import ProtocolViolation
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.topics import MetadataReply

Shares = dict[str, frozenset[TopicPartition]]
"""Partitions of each member, by its id."""
MOST_NEW: Final = 1_000
"""Largest number of added members."""
MOST_PARTITIONS: Final = 100_000
"""Largest number of partitions to assign."""
_ROUNDS: Final = 2
"""Rebalances of a cooperative change: partitions that move are released in the first and assigned in the second."""


class GroupChange(NamedTuple):
    """A change: members added, or removed from the end of the list; new partition counts of topics; another assignor,
    if not empty."""

    members: int = 0
    partitions: Mapping[str, int] = {}
    assignor: str = ""


class NextOwner(NamedTuple):
    """A partition with its owners before and after the change; empty if it has none."""

    partition: TopicPartition
    owner: str
    next_owner: str


class Outlook(NamedTuple):
    """The partitions of all present and future members, before and after the change."""

    assignor: str
    before: Shares
    after: Shares

    @property
    def moved(self) -> list[NextOwner]:
        """Return the partitions that would have another owner, in order."""
        owners, next_owners = _owners(self.before), _owners(self.after)
        every = sorted(owners.keys() | next_owners.keys())
        found = (NextOwner(one, owners.get(one, ""), next_owners.get(one, "")) for one in every)
        return [one for one in found if one.owner != one.next_owner]


class _Topic(NamedTuple):
    name: str
    partitions: int


def subscribed(group: DescribedGroup) -> tuple[str, ...]:
    """Return the topics that members subscribe to. Raises ValueError for a group whose members report none."""
    if group.protocol_type != PROTOCOL_TYPE:
        raise ValueError(f"group {group.group_id!r} has no consumers, but members of type {group.protocol_type!r}")
    if not group.members:
        raise ValueError(f"group {group.group_id!r} has no members: what they would read is not known")
    if not all(one.member_metadata for one in group.members):
        raise ValueError(f"group {group.group_id!r} is {group.group_state}: ask again once it is Stable")
    return tuple(sorted({topic for one in group.members for topic in _subscriber(one).topics}))


def foresee(group: DescribedGroup, metadata: MetadataReply, change: GroupChange) -> Outlook:
    """Compute the assignment that would follow. `metadata` is that of the topics that are `subscribed`. Raises
    ValueError if the change is impossible."""
    names = subscribed(group)
    counts = {one.name: len(one.partitions) for one in metadata.topics if one.name in names and not one.error_code}
    for topic, partitions in change.partitions.items():
        if topic not in counts:
            raise ValueError(f"group {group.group_id!r} reads no topic {topic!r}")
        if partitions < counts[topic]:
            raise ValueError(f"topic {topic!r} has {counts[topic]} partitions, and never fewer")
        counts[topic] = partitions
    if sum(counts.values()) > MOST_PARTITIONS:
        raise ValueError(f"{sum(counts.values())} partitions are too many: {MOST_PARTITIONS} can be assigned here")
    members = _members_after(group.members, change.members)
    name = change.assignor or group.protocol_data
    if group.target_epoch >= 0:
        after = _by_server(name, members, counts, metadata)
    else:
        after = _by_leader(name, members, counts, racks_of(metadata), group.generation_id)
    before = {one.member_id: frozenset(_read(one.member_assignment)) for one in group.members}
    return Outlook(name, before, after)


def parse_partitions(text: str) -> dict[str, int]:
    """Read `orders=24,clicks=6`. Raises ValueError."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        topic, _, number = part.rpartition("=")
        if not topic or not (number.isascii() and number.isdigit()) or not 0 < int(number) <= MOST_PARTITIONS:
            raise ValueError(f"{part[:80]!r} is not TOPIC=PARTITIONS")
        found[topic] = int(number)
    return found


def facts_of(group_id: str, outlook: Outlook) -> dict[str, Any]:
    """Return the outlook as JSON, for scripts."""
    return {
        "group_id": group_id,
        "assignor": outlook.assignor,
        "members": [
            {
                "member_id": member_id,
                "partitions": _listed(outlook.before.get(member_id, ())),
                "next_partitions": _listed(outlook.after.get(member_id, ())),
            }
            for member_id in outlook.before | outlook.after
        ],
        "moved": [
            {**one.partition._asdict(), "member_id": one.owner or None, "next_member_id": one.next_owner or None}
            for one in outlook.moved
        ],
    }


def _listed(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [one._asdict() for one in sorted(partitions)]


def _members_after(members: Sequence[DescribedMember], more: int) -> list[DescribedMember]:
    """Return the members after the change. Added ones subscribe as the first one does."""
    if more > MOST_NEW:
        raise ValueError(f"{more} members are too many: {MOST_NEW} may come")
    if -more >= len(members):
        raise ValueError(f"{-more} members cannot leave a group of {len(members)}: at least one has to stay")
    new = [
        DescribedMember(f"new-{number + 1}", None, "new", "", member_metadata=members[0].member_metadata)
        for number in range(more)
    ]
    return [*members[: len(members) + min(more, 0)], *new]


def _by_leader(
    name: str, members: Sequence[DescribedMember], counts: Mapping[str, int], racks: Racks, generation_id: int
) -> Shares:
    """Assign as the leader would after all members have rejoined with the partitions that they own."""
    assignor = by_name(name)
    rounds = _ROUNDS if RebalanceProtocol.COOPERATIVE in assignor.rebalance_protocols else 1
    owned = {one.member_id: tuple(_read(one.member_assignment)) for one in members}
    for _ in range(rounds):
        subscribers = [
            _subscriber(one, owned[one.member_id], assignor.user_data(owned[one.member_id], generation_id))
            for one in members
        ]
        shares = assignor.assign(counts, subscribers, racks)
        owned = {member_id: tuple(share) for member_id, share in shares.items()}
    return {member_id: frozenset(share) for member_id, share in owned.items()}


def _by_server(
    name: str, members: Sequence[DescribedMember], counts: Mapping[str, int], metadata: MetadataReply
) -> Shares:
    """Assign as the coordinator would for its next target."""
    if name not in ASSIGNORS:
        raise ValueError(f"there is no assignor named {name!r} in coordinators; known are {', '.join(ASSIGNORS)}")
    ids = {one.name: one.topic_id for one in metadata.topics if one.name in counts}
    topics = {ids[topic]: _Topic(topic, partitions) for topic, partitions in counts.items()}
    lines = [
        SubscribedMember(
            one.member_id,
            one.group_instance_id,
            frozenset(ids[topic] for topic in _subscriber(one).topics if topic in ids),
            _by_id(_read(one.target_assignment), ids),
        )
        for one in members
    ]
    targets = run(ASSIGNORS[name](lines, topics, len({one.topics for one in lines}) == 1))
    return {
        one.member_id: frozenset(
            TopicPartition(topics[topic_id].name, number)
            for topic_id, numbers in targets.get(one.member_id, {}).items()
            for number in numbers
        )
        for one in members
    }


def _by_id(partitions: Sequence[TopicPartition], ids: Mapping[str | None, bytes]) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for one in partitions:
        if one.topic in ids:
            found.setdefault(ids[one.topic], set()).add(one.partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


def _subscriber(
    member: DescribedMember, owned: tuple[TopicPartition, ...] = (), user_data: bytes | None = None
) -> Subscriber:
    try:
        said = decode_subscription(member.member_metadata)
    except ProtocolViolation as error:
        raise ValueError(f"what {member.member_id} subscribes to cannot be read: {error}") from None
    # An added member has no generation, and owns nothing.
    return Subscriber(
        member.member_id, said.topics, member.group_instance_id, owned, user_data=user_data, rack_id=said.rack_id
    )


def _read(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        return decode_assignment(assignment).partitions
    except ProtocolViolation:
        return ()


def _owners(shares: Shares) -> dict[TopicPartition, str]:
    return {one: member_id for member_id, share in shares.items() for one in share}

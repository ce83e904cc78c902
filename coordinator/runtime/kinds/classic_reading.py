"""Decoding of a classic group's members when it becomes a consumer group: their subscriptions, and the partitions that
they may own (docs/spec/consumer-group-protocol.md#13.2)."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.table import Refusal
from coordinator.runtime.group import Group
from coordinator.runtime.offset_table import TopicPartitionKey
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
)
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import JoinProtocol

A_PIECE = 25
"""Members read, or records encoded, in a slice."""
_READ_US = 25
"""Cost of reading a member, close to the worst case."""


class ClassicRead(NamedTuple):
    """A classic member with its decoded subscription and assignment. `protocols` and `assigned` are the encoded
    bytes."""

    member: Member
    protocols: Sequence[JoinProtocol]
    assigned: bytes
    subscription: Subscription
    assignment: Assignment

    @property
    def has_data_of_assignor(self) -> bool:
        """True if the leader sent data to the member. librdkafka's assignors repeat what the member's subscription has,
        or send no bytes."""
        return bool(self.assignment.user_data) and self.assignment.user_data != self.subscription.user_data

    @property
    def assigned_partitions(self) -> Iterator[TopicPartitionKey]:
        """Partitions assigned to the member."""
        return _keys(self.assignment.partitions)

    @property
    def owned_partitions(self) -> Iterator[TopicPartitionKey]:
        """Partitions that the member owned when it joined, and may own until it receives its assignment."""
        return _keys(self.subscription.owned_partitions)

    def is_of(self, classic: ClassicGroup) -> bool:
        """Return true if the group has the member as it was read."""
        member = self.member
        return (
            classic.members.get(member.member_id) is member
            and member.protocols is self.protocols
            and member.assignment is self.assigned
        )


def _keys(partitions: Iterable[TopicPartitions]) -> Iterator[TopicPartitionKey]:
    return ((name, number) for name, numbers in partitions for number in numbers)


def read_members(group: Group) -> Generator[int, Moment, list[ClassicRead] | Refusal]:
    """Decode the members' subscriptions and assignments, or return the reason why the group stays a classic one."""
    read, holders = [], dict[TopicPartitionKey, str]()
    members = iter(list(group.classic.members.values()))
    while piece := list(islice(members, A_PIECE)):
        for member in piece:
            try:
                one = _read(group.classic, member)
            except ProtocolViolation as error:
                return refuse(group, f"has classic members, and what {member.member_id} says cannot be read: {error}")
            if one.has_data_of_assignor:
                return refuse(group, "has classic members with an assignor that sends data of its own")
            for key in one.assigned_partitions:
                if (other := holders.setdefault(key, member.member_id)) != member.member_id:
                    text = f"gives {key[0]}-{key[1]} to both {other} and {member.member_id}"
                    return refuse(group, f"has classic members with an assignor that {text}")
            read.append(one)
        yield _READ_US * len(piece)
    return read


def held_by_members(read: list[ClassicRead]) -> Generator[int, Moment, dict[str, list[TopicPartitionKey]]]:
    """Return the partitions of each member: its assigned ones, and those that it owned when it joined and that no
    member is assigned. In the middle of a rebalance no member has an assignment, and cooperative members keep reading
    their partitions. If two members claim a partition, the one with the later generation holds it."""
    held = {one.member.member_id: list(one.assigned_partitions) for one in read}
    taken = {key for keys in held.values() for key in keys}
    for one in sorted(read, key=lambda one: -one.subscription.generation_id):
        owned = dict.fromkeys(key for key in one.owned_partitions if key not in taken)
        held[one.member.member_id] += owned
        taken.update(owned)
        yield _READ_US
    return held


def _read(group: ClassicGroup, member: Member) -> ClassicRead:
    protocols, assigned = member.protocols, member.assignment
    metadata = member.metadata_for(group.protocol_name) or protocols[0].metadata
    return ClassicRead(member, protocols, assigned, decode_subscription(metadata), decode_assignment(assigned))


def refuse(group: Group, why: str) -> Refusal:
    """Refuse to convert the group to a consumer group."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} {why}")

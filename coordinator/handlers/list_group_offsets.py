"""Answer ListGroupOffsets: the committed offsets of many groups as plain numbers, in slices.

A list by lag reads all offsets there are. OffsetFetch makes a message of each, which costs ten times this."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from typing import Final

from coordinator.clock import Moment
from coordinator.core.admission import admit_to_group
from coordinator.core.core import Core
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.offset_pieces import offsets_in_order, offsets_in_pieces
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.slices import Served, Work
from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assigned_topics
from protocol.errors import ProtocolViolation
from protocol.messages.offsets import GroupOffsets, ListGroupOffsets, ListGroupOffsetsReply
from protocol.session import RequestRef

_OFFSETS_A_PIECE = 5_000
_OFFSETS_A_US = 10
"""Offsets read in a microsecond; a member of a client-balanced or server-driven group takes one, and each topic."""
Decode = Callable[[bytes], Collection[str]]
_DECODERS: Final[Mapping[str, Decode]] = {
    PROTOCOL_TYPE: decode_assigned_topics,
    streams_protocol.PROTOCOL_TYPE: streams_protocol.decode_streams_assignment,
}
"""Readers of assignments by protocol type; those of other types cannot be read."""
_MEMBERS_A_PIECE, _BYTES_A_US = 20, 40
"""Members whose assignments are decoded in one piece, and bytes of them decoded in a microsecond."""
_MOST_REMEMBERED, _MOST_REMEMBERED_BYTES = 2_048, 4_096
"""Pieces whose topics are remembered, and bytes of the largest: they change with a rebalance alone."""
_assignment = attrgetter("assignment")


def list_group_offsets(core: Core, ref: RequestRef, message: ListGroupOffsets, moment: Moment) -> None:
    """Answer with the groups that are served here, once their offsets are durable."""
    core.slices.begin(core.outbox, ref, _listing(core, message), moment)


def _listing(core: Core, message: ListGroupOffsets) -> Work:
    yield 0  # a request may name no group
    awaited, found = Awaited(), []
    for group_id in message.groups:
        yield 1
        shard, group = core.find(group_id)
        if group is None or admit_to_group(shard, group_id):
            continue
        committed = shard.offsets.topics(group_id)
        names = set(committed)
        for cost, assigned in _assigned_topics(group):
            names |= assigned
            yield cost
        topics: dict[str, dict[int, int]] = {}
        in_order: dict[str, tuple[int, ...]] = {}
        for topic in names:
            partitions = committed.get(topic, {})
            listed = offsets_in_order(core.topics, topic, partitions, _OFFSETS_A_PIECE)
            if listed is not None:
                in_order[topic] = listed
                yield len(listed) // _OFFSETS_A_US
                continue
            offsets: dict[int, int] = {}
            for some in offsets_in_pieces(core.topics, topic, partitions, _OFFSETS_A_PIECE):
                if offsets:
                    offsets |= some
                else:
                    offsets = some
                yield len(some) // _OFFSETS_A_US
            topics[topic] = offsets
        found.append(GroupOffsets(group_id, group.member_count, topics, in_order))
        awaited.add_group(shard.outbox, group_id)
    return Served(ListGroupOffsetsReply(tuple(found)), awaited)


def _assigned_topics(group: Group) -> Iterator[tuple[int, AbstractSet[str]]]:
    """Yield the topics of some members' assignments, or those that a client-balanced group is configured with, and the
    cost of finding them."""
    if (consumer := group.serving_consumer) is not None:
        for one in list(consumer.members.values()):  # members may change between two pieces
            found = set(filter(None, map(consumer.topics.name_of, one.current.assigned)))
            yield 1 + len(found), found
    elif group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        found = set(group.balanced.on_record.topics)
        yield 1 + len(found), found
    elif (decode := _DECODERS.get(group.classic.protocol_type or "")) is not None:
        assignments = list(map(_assignment, group.classic.members.values()))
        for start in range(0, len(assignments), _MEMBERS_A_PIECE):
            some = tuple(assignments[start : start + _MEMBERS_A_PIECE])
            size = sum(map(len, some))
            topics = (_remembered if size <= _MOST_REMEMBERED_BYTES else _decoded)(decode, some)
            yield len(some) + size // _BYTES_A_US, topics


def _decoded(decode: Decode, assignments: Iterable[bytes]) -> frozenset[str]:
    """Decode the topics of assignments; none of an invalid one, since a leader may write what it likes."""
    found: set[str] = set()
    for one in assignments:
        with suppress(ProtocolViolation):
            found |= set(decode(one))
    return frozenset(found)


_remembered = lru_cache(_MOST_REMEMBERED)(_decoded)

"""Answer ListGroupOffsets: the committed offsets of many groups as plain numbers, in slices.

A list by lag reads all offsets there are. OffsetFetch makes a message of each, which costs ten times this."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

from coordinator.clock import Moment
from coordinator.core.admission import admit_to_group
from coordinator.core.core import Core
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.offset_pieces import offsets_in_pieces
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.slices import Served, Work
from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assigned_topics
from protocol.errors import ProtocolViolation
from protocol.messages.offsets import GroupOffsets, ListGroupOffsets, ListGroupOffsetsReply
from protocol.session import RequestRef

_OFFSETS_A_PIECE = 5_000
_OFFSETS_A_US = 10
"""Offsets read in a microsecond; a member takes one, and each topic of its assignment."""
_DECODERS: Final[Mapping[str, Callable[[bytes], Collection[str]]]] = {
    PROTOCOL_TYPE: decode_assigned_topics,
    streams_protocol.PROTOCOL_TYPE: streams_protocol.decode_streams_assignment,
}
"""Readers of assignments by protocol type; those of other types cannot be read."""


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
        for assigned in _assigned_topics(group):
            names.update(assigned)
            yield 1 + len(assigned)
        topics: dict[str, dict[int, int]] = {}
        for topic in names:
            offsets = topics[topic] = {}
            for some in offsets_in_pieces(core.topics, topic, committed.get(topic, {}), _OFFSETS_A_PIECE):
                offsets |= some
                yield len(some) // _OFFSETS_A_US
        found.append(GroupOffsets(group_id, group.member_count, topics))
        awaited.add_group(shard.outbox, group_id)
    return Served(ListGroupOffsetsReply(tuple(found)), awaited)


def _assigned_topics(group: Group) -> Iterator[Collection[str]]:
    """Yield the topics of each member's assignment, and those that a client-balanced group is configured with."""
    if (consumer := group.serving_consumer) is not None:
        for one in list(consumer.members.values()):  # members may change between two pieces
            yield tuple(filter(None, map(consumer.topics.name_of, one.current.assigned)))
    elif group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        yield tuple(group.balanced.on_record.topics)
    elif (decode := _DECODERS.get(group.classic.protocol_type or "")) is not None:
        for member in list(group.classic.members.values()):
            topics: Collection[str] = ()
            with suppress(ProtocolViolation):  # its leader may write what it likes
                topics = decode(member.assignment)
            yield topics

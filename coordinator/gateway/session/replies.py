"""A broker's answers that name addresses, with ours in their place."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from coordinator.gateway.session.brokers import exchange
from protocol.apis import APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.calls import VersionCodec
from protocol.kafka.reading import Reader, reader
from protocol.kafka.varint import read_tags
from protocol.messages import Message
from protocol.messages.node import DescribeClusterReply, DescribedBroker, FindCoordinatorReply, FoundCoordinator

Addresses = Mapping[int, tuple[str, int]]
"""By broker's id, where clients reach it through us."""

M = TypeVar("M", DescribedBroker, FoundCoordinator)

READ_BYTES: Final = 64 * 1024
"""An answer to Metadata that is longer is not read beyond its brokers."""
_MOST_ENTRIES: Final = 16 << 20
"""In the arrays of one answer: as many as a frame has room for."""
_BODY_AT: Final = 8


class Rewriting:
    """One version of one API."""

    __slots__ = ("_call", "_has_tags", "_move", "_read", "_version")

    def __init__(self, key: int, version: int) -> None:
        api = APIS[key]
        self._call = VersionCodec(api, version)
        self._has_tags = api.is_flexible(version)
        self._read: Reader = reader(api.reply, version, _MOST_ENTRIES, is_answer=True)
        self._version = version
        self._move = _MOVES.get(api.reply.group.message)
        """None for Metadata, whose bytes are exchanged."""

    def apply(self, frame: bytes, number: int, addresses: Addresses) -> tuple[bytes, Message | None]:
        """The frame that the client is sent in place of this whole one, and what the broker said; None if that would
        take long to read and need not be. Raises ProtocolViolation."""
        if self._move is None:
            said = self.read(frame) if len(frame) <= READ_BYTES else None
            return exchange(frame, self._version, addresses), said
        said = self.read(frame)
        return self._call.frame(number, self._move(addresses, said)), said

    def read(self, frame: bytes) -> Message:
        """What the broker said, from a whole frame. Raises ProtocolViolation."""
        position = _BODY_AT
        if self._has_tags:
            try:
                position = read_tags(frame, position)[1]
            except IndexError:
                raise ProtocolViolation("the frame ends in its header") from None
        message: Message = self._read(frame, position)
        return message


def _move_cluster(addresses: Addresses, reply: DescribeClusterReply) -> Message:
    """A broker that has no listener yet is left out."""
    known = [broker for broker in reply.brokers if broker.broker_id in addresses]
    return replace(reply, brokers=tuple([_moved(addresses, broker.broker_id, broker) for broker in known]))


def _move_coordinators(addresses: Addresses, reply: FindCoordinatorReply) -> Message:
    return replace(reply, coordinators=tuple([_move_coordinator(addresses, one) for one in reply.coordinators]))


def _move_coordinator(addresses: Addresses, found: FoundCoordinator) -> FoundCoordinator:
    if found.error_code:
        return replace(found, node_id=-1, host="", port=-1)
    if found.node_id not in addresses:
        return FoundCoordinator(found.key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _moved(addresses, found.node_id, found)


def _moved(addresses: Addresses, node_id: int, one: M) -> M:
    host, port = addresses[node_id]
    return replace(one, host=host, port=port)


_MOVES: Final[Mapping[type[Message], Callable[[Addresses, Any], Message]]] = {
    DescribeClusterReply: _move_cluster,
    FindCoordinatorReply: _move_coordinators,
}


@cache
def rewriting(key: int, version: int) -> Rewriting:
    """Made once."""
    return Rewriting(key, version)

"""Replies of a broker that name addresses, rewritten to the proxy's."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from coordinator.cluster_node.nodes import COORDINATOR_IDS
from coordinator.gateway.session.broker_list import replace_brokers
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.reading import Reader, reader
from protocol.kafka.varint import read_tags
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.node import DescribeClusterReply, DescribedBroker, FindCoordinatorReply, FoundCoordinator

Addresses = Mapping[int, tuple[str, int]]
"""Listeners of the proxy by broker id: host and port."""

T = TypeVar("T", DescribedBroker, FoundCoordinator)

DECODE_MAX_BYTES: Final = 64 * 1024
"""A longer Metadata reply is not decoded: only its broker list is replaced."""
_MAX_ENTRIES: Final = 16 << 20
"""Array entries of one reply: as many as fit a frame."""
_BODY_POSITION: Final = 8


class ReplyRewriter:
    """Rewriter of the replies of one version of an API."""

    __slots__ = ("_codec", "_decode", "_is_flexible", "_rewrite_message", "_version")

    def __init__(self, key: int, version: int) -> None:
        api = WIRE_APIS[key]
        self._codec = VersionCodec(api, version)
        self._is_flexible = api.is_flexible(version)
        self._decode: Reader = reader(api.reply, version, _MAX_ENTRIES, is_answer=True)
        self._version = version
        self._rewrite_message = _REWRITERS.get(api.reply.group.message)
        """None for Metadata, whose broker list is replaced in its bytes."""

    def rewrite(self, frame: bytes, correlation_id: int, addresses: Addresses) -> tuple[bytes, Message | None]:
        """Return the frame for the client, and the decoded reply; None for one that is too long to decode. Raises
        ProtocolViolation."""
        if self._rewrite_message is None:
            decoded = self.decode(frame) if len(frame) <= DECODE_MAX_BYTES else None
            return replace_brokers(frame, self._version, addresses), decoded
        decoded = self.decode(frame)
        return self._codec.frame(correlation_id, self._rewrite_message(addresses, decoded)), decoded

    def decode(self, frame: bytes) -> Message:
        """Decode a whole frame. Raises ProtocolViolation."""
        position = _BODY_POSITION
        if self._is_flexible:
            try:
                position = read_tags(frame, position)[1]
            except IndexError:
                raise ProtocolViolation("the frame ends in its header") from None
        message: Message = self._decode(frame, position)
        return message


def _rewrite_cluster(addresses: Addresses, reply: DescribeClusterReply) -> Message:
    """Rewrite the addresses. A broker without a listener is left out."""
    known = [broker for broker in reply.brokers if broker.broker_id in addresses]
    known += [DescribedBroker(node_id, "", 0) for node_id in addresses if node_id >= COORDINATOR_IDS]
    return replace(reply, brokers=tuple([_with_proxy_address(addresses, broker.broker_id, broker) for broker in known]))


def _rewrite_coordinators(addresses: Addresses, reply: FindCoordinatorReply) -> Message:
    return replace(
        reply, coordinators=tuple([_rewrite_coordinator(addresses, described) for described in reply.coordinators])
    )


def _rewrite_coordinator(addresses: Addresses, found: FoundCoordinator) -> FoundCoordinator:
    if found.error_code:
        return replace(found, node_id=-1, host="", port=-1)
    if found.node_id not in addresses:
        return FoundCoordinator(found.key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _with_proxy_address(addresses, found.node_id, found)


def _with_proxy_address(addresses: Addresses, node_id: int, described: T) -> T:
    host, port = addresses[node_id]
    return replace(described, host=host, port=port)


_REWRITERS: Final[Mapping[type[Message], Callable[[Addresses, Any], Message]]] = {
    DescribeClusterReply: _rewrite_cluster,
    FindCoordinatorReply: _rewrite_coordinators,
}


@cache
def reply_rewriter(key: int, version: int) -> ReplyRewriter:
    """Return the rewriter of this version; each is made once."""
    return ReplyRewriter(key, version)

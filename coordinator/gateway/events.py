"""Events of the cluster's side, besides those of `coordinator.node.events`."""

from coordinator.gateway.brokers import Broker
from coordinator.node.events import Event
from protocol.messages import Message


class Forwarded(Event):
    """Bytes that the broker sent on the upstream side of a proxied connection."""

    connection: int
    data: bytes


class Spliced(Event):
    """So many of the bytes of a `Pass` have gone to the client, since the last that was heard of it."""

    connection: int
    size: int


class UpstreamLost(Event):
    """The upstream side of the connection is gone, or could not be had. The next `Forward` opens another."""

    connection: int
    reason: str


class BrokersFound(Event):
    """The cluster was asked for its brokers: these have a listener, and no others. `has_authorizer`: it has ACLs, so
    clients' permissions for groups are asked of their brokers."""

    brokers: tuple[Broker, ...]
    has_authorizer: bool = False


class UpstreamUnreachable(Event):
    """The cluster was asked, and nobody answered."""

    reason: str


class UpstreamReply(Event):
    """The outcome of an `UpstreamRequest`. `reply` None: it failed, for this reason."""

    call_id: int
    reply: Message | None
    reason: str = ""

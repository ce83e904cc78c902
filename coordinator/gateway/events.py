"""Events of the cluster's side, besides those of `coordinator.node.events`."""

from coordinator.gateway.brokers import Broker
from coordinator.node.events import Event
from protocol.messages import Message


class Forwarded(Event):
    """Bytes that the broker sent on the upstream side of a proxied connection."""

    connection: int
    data: bytes


class Spliced(Event):
    """Bytes of a `Splice` that have gone to the client since the last such event."""

    connection: int
    size: int


class UpstreamLost(Event):
    """The upstream side of a connection is closed or could not be opened. The next `Forward` opens another."""

    connection: int
    reason: str


class BrokersFound(Event):
    """Brokers of the cluster that have a listener, all of them. `has_authorizer`: the cluster has ACLs, so clients'
    permissions are asked of their brokers."""

    brokers: tuple[Broker, ...]
    has_authorizer: bool = False


class UpstreamUnreachable(Event):
    """No broker answered the last discovery."""

    reason: str


class UpstreamReply(Event):
    """Outcome of an `UpstreamRequest`. `reply` None: it failed, for this reason."""

    call_id: int
    reply: Message | None
    reason: str = ""

"""Effects on the cluster's side, besides those of `coordinator.node.effects`."""

from coordinator.node.effects import Effect
from protocol.messages import Message


class Forward(Effect):
    """Send bytes to the broker on the connection's upstream side, which is opened on demand and closed with the
    connection. Comes back as `Forwarded` or `UpstreamLost`."""

    connection: int
    data: bytes


class Splice(Effect):
    """Send the next `size` bytes of the upstream side to the client. The edge may splice them, which comes back as
    `Spliced`; the others come as `Forwarded`."""

    connection: int
    size: int


class AbandonUpstream(Effect):
    """Close the connection's upstream side: the broker has not replied, nor sent anything, within its timeout. Comes
    back as `UpstreamLost`. The edge ignores it if the client reads nothing: then the broker was not read either."""

    connection: int
    reason: str


class UpstreamRequest(Effect):
    """Send a request to the broker with this id, or to any, over one of Muster's own connections. Always comes back as
    `UpstreamReply(call_id, ...)`."""

    call_id: int
    message: Message
    broker: int | None = None

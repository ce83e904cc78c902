"""Effects on the cluster's side, besides those of `coordinator.node.effects`."""

from coordinator.node.effects import Effect
from protocol.messages import Message


class Forward(Effect):
    """Send to the broker on the connection's upstream side, which is opened if there is none and ends with the
    connection. Comes back as `Forwarded` or `UpstreamLost`."""

    connection: int
    data: bytes


class Splice(Effect):
    """Send the next `size` bytes of the upstream side to the client. The edge may splice them, which comes back as
    `Spliced`; the others come as `Forwarded`."""

    connection: int
    size: int


class AbandonUpstream(Effect):
    """Close the connection's upstream side: the broker owes a reply and has been silent for long. Comes back as
    `UpstreamLost`. The edge ignores it if the client reads nothing: then the broker was not read either."""

    connection: int
    reason: str


class UpstreamRequest(Effect):
    """Send a request to the broker of this id, or to any, over a connection of Muster's own. Always comes back as
    `UpstreamReply(call_id, ...)`."""

    call_id: int
    message: Message
    broker: int | None = None

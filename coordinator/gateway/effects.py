"""Effects on the cluster's side, besides those of `coordinator.node.effects`."""

from coordinator.node.effects import Effect
from protocol.messages import Message


class Forward(Effect):
    """Send to the broker, on the connection's upstream side; opened now if there is none. It ends with the connection.
    What comes back is `Forwarded`, or `UpstreamLost`."""

    connection: int
    data: bytes


class Splice(Effect):
    """The next `size` bytes from the connection's upstream side are the client's, as they come. Whoever can, may let
    them go there by themselves, which comes back as `Passed`; all others come as `Forwarded`, like any."""

    connection: int
    size: int


class AbandonUpstream(Effect):
    """The broker owes an answer on the connection's upstream side, and nothing of it was heard for long: give that side
    up, which comes back as `UpstreamLost`. Not if it is the client who takes nothing: then nobody has listened."""

    connection: int
    reason: str


class UpstreamRequest(Effect):
    """RunJob the cluster, over a connection of our own: the broker of this id, or any. Comes back as
    `UpstreamAnswered(call_id, ...)`, whatever becomes of it."""

    call_id: int
    message: Message
    broker: int | None = None

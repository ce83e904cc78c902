"""What happened to the node. The node's only way in is `step(event, moment)`; what it asks in return are the effects
of `effects.py`. An event never asks for anything, an effect never reports anything."""

import msgspec

from coordinator.gateway.brokers import Broker
from protocol.messages import Message


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A client connected to the listener of `dialect`. `peer_host` is textual (`127.0.0.1`). `broker`: it is the
    listener in front of the broker of this id."""

    connection: int
    dialect: str
    peer_host: str
    broker: int | None = None


class Received(msgspec.Struct, frozen=True, gc=False):
    connection: int
    data: bytes


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The client says nothing more on the connection; what it asked for it still wants to hear."""

    connection: int


class Idle(msgspec.Struct, frozen=True, gc=False):
    """No byte has moved on the connection, in either direction, for `connections.max.idle.ms`."""

    connection: int


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The connection is gone, whoever closed it. Nothing of it is heard or sent any more."""

    connection: int


class Woke(msgspec.Struct, frozen=True, gc=False):
    """The node's next deadline has come (or somebody thought so: waking too often is harmless)."""


class Flushed(msgspec.Struct, frozen=True, gc=False):
    """The flush asked for by `Flush` is on disk up to write-ahead position `up_to`."""

    up_to: int


class JobDone(msgspec.Struct, frozen=True):
    """The job of an `Ask` is done. A job that fails stops the process instead: see the write rule."""

    call_id: int
    reply: object


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request from inside the process (HTTP). It meets the same gates as any; the answer is a `Replied` effect."""

    call_id: int
    message: Message


class Stopping(msgspec.Struct, frozen=True, gc=False):
    """The process is asked to end: no new work, everything that waits is answered."""


class Forwarded(msgspec.Struct, frozen=True, gc=False):
    """What the broker sent on the upstream side of a connection in front of it."""

    connection: int
    data: bytes


class Spliced(msgspec.Struct, frozen=True, gc=False):
    """So many of the bytes of a `Pass` have gone to the client, since the last that was heard of it."""

    connection: int
    size: int


class UpstreamLost(msgspec.Struct, frozen=True, gc=False):
    """The upstream side of the connection is gone, or could not be had. The next `Forward` opens another."""

    connection: int
    reason: str


class BrokersFound(msgspec.Struct, frozen=True):
    """The cluster was asked for its brokers: these have a listener, and no others. `has_authorizer`: it has ACLs, so
    clients' permissions for groups are asked of their brokers."""

    brokers: tuple[Broker, ...]
    has_authorizer: bool = False


class UpstreamUnreachable(msgspec.Struct, frozen=True, gc=False):
    """The cluster was asked, and nobody answered."""

    reason: str


class UpstreamReply(msgspec.Struct, frozen=True, gc=False):
    """What came of an `AskUpstream`. `reply` None: nothing, for this reason."""

    call_id: int
    reply: Message | None
    reason: str = ""


Event = (
    Opened
    | Received
    | Ended
    | Idle
    | Lost
    | Woke
    | Flushed
    | JobDone
    | Call
    | Stopping
    | Forwarded
    | Spliced
    | UpstreamLost
    | BrokersFound
    | UpstreamUnreachable
    | UpstreamReply
)

"""What the node asks of the world, to be carried out in the order given. What comes of it, if anything does, returns
as an event of `events.py`."""

from typing import Literal

import msgspec

from partition_log.store import CheckpointJob, FlushJob
from protocol.messages import Message


class Send(msgspec.Struct, frozen=True, gc=False):
    connection: int
    data: bytes


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close after what was sent has left. `reason` is for the log; empty where the client wanted it so."""

    connection: int
    reason: str = ""


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Stop reading from the connection until `Resume`."""

    connection: int


class Resume(msgspec.Struct, frozen=True, gc=False):
    connection: int


class Flush(msgspec.Struct, frozen=True):
    """Run the job off the loop: it writes and syncs the write-ahead log. Comes back as `Flushed(job.up_to)`.
    At most one is ever under way. Its failure stops the process: what the page cache holds is unknown then."""

    job: FlushJob


class RunJob(msgspec.Struct, frozen=True):
    """Run the job off the loop; comes back as `Answered(call_id, ...)`. Used for checkpoints."""

    call_id: int
    job: CheckpointJob


class LogError(msgspec.Struct, frozen=True, gc=False):
    """A sentence for the operator. An error needs a person; information says that it does no more."""

    sentence: str
    level: Literal["error", "info"] = "error"


class Return(msgspec.Struct, frozen=True, gc=False):
    """The answer to an `Asked`."""

    call_id: int
    reply: Message


class Forward(msgspec.Struct, frozen=True, gc=False):
    """Send to the broker, on the connection's upstream side; opened now if there is none. It ends with the connection.
    What comes back is `Forwarded`, or `UpstreamLost`."""

    connection: int
    data: bytes


class Splice(msgspec.Struct, frozen=True, gc=False):
    """The next `size` bytes from the connection's upstream side are the client's, as they come. Whoever can, may let
    them go there by themselves, which comes back as `Passed`; all others come as `Forwarded`, like any."""

    connection: int
    size: int


class AbandonUpstream(msgspec.Struct, frozen=True, gc=False):
    """The broker owes an answer on the connection's upstream side, and nothing of it was heard for long: give that side
    up, which comes back as `UpstreamLost`. Not if it is the client who takes nothing: then nobody has listened."""

    connection: int
    reason: str


class UpstreamRequest(msgspec.Struct, frozen=True, gc=False):
    """RunJob the cluster, over a connection of our own: the broker of this id, or any. Comes back as
    `UpstreamAnswered(call_id, ...)`, whatever becomes of it."""

    call_id: int
    message: Message
    broker: int | None = None


Effect = (
    Send
    | Close
    | Pause
    | Resume
    | Flush
    | RunJob
    | LogError
    | Return
    | Forward
    | Splice
    | AbandonUpstream
    | UpstreamRequest
)

"""What the node asks of the world, to be carried out in the order given. What comes of it, if anything does, returns
as an event of `events.py`."""

from typing import Literal, dataclass_transform

import msgspec

from partition_log.store import CheckpointJob, FlushJob
from protocol.messages import Message


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects."""


class Send(Effect):
    connection: int
    data: bytes


class Close(Effect):
    """Close after what was sent has left. `reason` is for the log; empty where the client wanted it so."""

    connection: int
    reason: str = ""


class Pause(Effect):
    """Stop reading from the connection until `Resume`."""

    connection: int


class Resume(Effect):
    connection: int


class Flush(Effect):
    """Run the job off the loop: it writes and syncs the write-ahead log. Comes back as `Flushed(job.up_to)`.
    At most one is ever under way. Its failure stops the process: what the page cache holds is unknown then."""

    job: FlushJob


class RunJob(Effect):
    """Run the job off the loop; comes back as `Answered(call_id, ...)`. Used for checkpoints."""

    call_id: int
    job: CheckpointJob


class LogError(Effect):
    """A sentence for the operator. An error needs a person; information says that it does no more."""

    sentence: str
    level: Literal["error", "info"] = "error"


class Return(Effect):
    """The answer to an `Asked`."""

    call_id: int
    reply: Message

"""Effects: requests of the node to the edge, carried out in the order given. The result of one, if any, returns as an
event of `events.py`."""

from typing import Any, Literal, dataclass_transform

import msgspec

from coordinator.accounts.sasl import LoginCheck
from partition_log.store.log_store import CheckpointJob, FlushJob
from protocol.messages import Message


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects."""


class Send(Effect):
    connection: int
    data: bytes


class Close(Effect):
    """Close the connection after everything sent has left. `reason` is for the log; empty for a close that the client
    wanted."""

    connection: int
    reason: str = ""


class Pause(Effect):
    """Stop reading from the connection until `Resume`."""

    connection: int


class Resume(Effect):
    connection: int


class Flush(Effect):
    """Run the job off the loop: it writes and syncs the write-ahead log. Comes back as `Flushed(job.up_to)`. At most
    one is under way. Its failure stops the process: the content of the page cache is unknown then."""

    job: FlushJob


class RunJob(Effect):
    """Run the job off the loop; comes back as `JobDone`. Used for checkpoints."""

    call_id: int
    job: CheckpointJob


class CheckPassword(Effect):
    """Run the job off the loop, apart from disk jobs; comes back as `PasswordChecked`."""

    check_id: int
    job: LoginCheck


class DropCheck(Effect):
    """Do not run the check of a `CheckPassword`, unless it has begun: its result is not needed any more."""

    check_id: int


class WriteAudit(Effect):
    """Append the lines to the audit log."""

    lines: list[bytes]


class LogError(Effect):
    """A message for the operator. An error requires action; an information says that it no longer does. Messages with
    the same `kind`, if any, are limited to one a second."""

    sentence: str
    level: Literal["error", "info"] = "error"
    kind: str = ""


class LogNote(Effect):
    """A log line about a group, limited to one a second for each `kind` and cause."""

    kind: str
    cause: str
    details: dict[str, Any]


class Return(Effect):
    """The answer to a `Call`."""

    call_id: int
    reply: Message

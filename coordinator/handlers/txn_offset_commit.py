"""Answer TxnOffsetCommit (docs/spec/group-protocol.md#4.3). Only the process itself may ask: no transaction coordinator
exists yet, so no dialect offers the message."""

from coordinator.clock import Moment
from coordinator.handlers.core import Core
from coordinator.handlers.offset_commit import commit_what_exists
from protocol.messages.offsets import TxnOffsetCommit, TxnOffsetCommitReply
from protocol.session import RequestRef


def txn_offset_commit(core: Core, ref: RequestRef, message: TxnOffsetCommit, moment: Moment) -> None:
    """The same, pending until the producer's marker (docs/spec/group-protocol.md#4.3)."""
    topics, position = commit_what_exists(core, message, moment)
    core.outbox.hold(position, ref, TxnOffsetCommitReply(topics))

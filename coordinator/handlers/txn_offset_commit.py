"""Answer TxnOffsetCommit (docs/spec/group-protocol.md#4.3). It is internal: no transaction coordinator exists yet, so
no dialect offers the message."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.handlers.offset_commit import commit_what_exists
from protocol.messages.offsets import TxnOffsetCommit, TxnOffsetCommitReply
from protocol.session import RequestRef


def txn_offset_commit(core: Core, ref: RequestRef, message: TxnOffsetCommit, moment: Moment) -> None:
    """Commit offsets that are pending until the producer's marker (docs/spec/group-protocol.md#4.3)."""
    topics, position = commit_what_exists(core, ref, message, moment)
    core.shard_of(message.group_id).outbox.hold(position, ref, TxnOffsetCommitReply(topics))

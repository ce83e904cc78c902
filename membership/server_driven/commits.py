"""Commits with member epochs (docs/spec/consumer-group-protocol.md#10.1, #17)."""

from dataclasses import dataclass

from membership import operations
from membership.events import CommitAsked
from membership.member import MemberState
from membership.operations import PendingCommit
from membership.replies import CommitAnswered
from membership.server_driven.heartbeats import FENCED, fall_out
from membership.server_driven.state import ServerDrivenState
from protocol.errors import ErrorCode
from protocol.messages.offsets import OffsetCommit


@dataclass(slots=True)
class PendingEpochCommit(PendingCommit):
    """A commit of held partitions, valid as long as they are held, also in a new epoch."""

    def request(self, m: MemberState) -> OffsetCommit | None:
        if not m.is_by_hand and not self.offsets.keys() <= set(m.held):
            self.end(m, ErrorCode.ILLEGAL_GENERATION)
            return None
        self.generation_id = m.generation_id
        return super(PendingEpochCommit, self).request(m)


def commit(m: ServerDrivenState, event: CommitAsked) -> None:
    """Commit offsets of held partitions only, since the coordinator does not check the partitions' owner."""
    operations.commit_as(PendingEpochCommit, m, event)


def on_commit_reply(m: ServerDrivenState, event: CommitAnswered) -> None:
    """Retry with a newer epoch, if there is one."""
    code = event.error_code if event.reply is None else operations.first_error(event.reply)
    operation = m.operations.get(event.sent.operation or 0)
    if isinstance(operation, PendingCommit) and code == ErrorCode.STALE_MEMBER_EPOCH:
        operation.call = None
        if m.is_current(event.sent) or operation.once:
            operation.end(m, code)
        else:
            operations.try_again(m, operation, code)
    elif isinstance(operation, PendingCommit) and code in FENCED:
        if m.is_current(event.sent) and not m.is_by_hand:
            fall_out(m, code)
        operation.end(m, code)
    else:
        operations.on_commit_reply(m, event)

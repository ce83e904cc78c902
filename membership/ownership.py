"""Claims and releases of partitions in the ownership registry, retried until they end
(docs/spec/consumer-client.md#E2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from membership.events import ClaimAsked, ClaimDone, Grant, ReleaseAsked, ReleaseDone
from membership.heartbeats import fall_out
from membership.member import COORDINATOR_GONE, MemberState, PendingOperation, State
from membership.operations import NO_MEMBER, TRY_AGAIN, may_commit_in, try_again
from membership.replies import ClaimAnswered, ReleaseAnswered
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.ownership import (
    ClaimItem,
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleaseItem,
    ReleasePartitions,
)


@dataclass(slots=True)
class PendingClaim(PendingOperation):
    """A claim of all its partitions or none, in the generation in which it was requested. If the answer is lost it is
    repeated: partitions that are already owned are granted with the same epoch.
    """

    threads: Mapping[TopicPartition, int]
    generation_id: int

    def request(self, m: MemberState) -> ClaimPartitions | None:
        refusal = may_commit_in(m, self.generation_id)
        if refusal != ErrorCode.NONE:
            self.end(m, refusal)
            return None
        items = tuple(ClaimItem(one.topic, one.partition, thread) for one, thread in sorted(self.threads.items()))
        return ClaimPartitions(m.settings.group_id, m.member_id, self.generation_id, items)

    def end(self, m: MemberState, error_code: ErrorCode) -> None:
        m.operations.pop(self.number, None)
        m.effects.append(ClaimDone(self.number, error_code, {}, {}, m.member_id, self.generation_id))

    def granted(self, m: MemberState, reply: ClaimPartitionsReply) -> None:
        m.operations.pop(self.number, None)
        grants = {
            TopicPartition(one.topic, one.partition): Grant(
                one.epoch, one.committed_offset if one.committed_offset >= 0 else None
            )
            for one in reply.items
        }
        m.effects.append(ClaimDone(self.number, ErrorCode.NONE, grants, {}, m.member_id, self.generation_id))

    def refused(self, m: MemberState, code: ErrorCode, reply: ClaimPartitionsReply | None) -> None:
        """End a claim that the registry refused, since other members own some of its partitions."""
        m.operations.pop(self.number, None)
        owners = {
            TopicPartition(one.topic, one.partition): one.owner
            for one in (() if reply is None else reply.items)
            if one.owner is not None
        }
        m.effects.append(ClaimDone(self.number, code, {}, owners, m.member_id, self.generation_id))


@dataclass(slots=True)
class PendingRelease(PendingOperation):
    """A release, sent once, with the member id and generation of the grants. If it is lost, the next JoinGroup ends the
    grants."""

    asked: ReleaseAsked

    def request(self, m: MemberState) -> ReleasePartitions:
        items = tuple(ReleaseItem(one.topic, one.partition, epoch) for one, epoch in sorted(self.asked.epochs.items()))
        return ReleasePartitions(m.settings.group_id, self.asked.member_id, self.asked.generation_id, items)

    def end(self, m: MemberState, error_code: ErrorCode) -> None:
        m.operations.pop(self.number, None)
        m.effects.append(ReleaseDone(self.number, error_code))


def claim(m: MemberState, event: ClaimAsked) -> None:
    m.operations[event.operation] = PendingClaim(event.operation, event.deadline_ms, event.threads, event.generation_id)


def release(m: MemberState, event: ReleaseAsked) -> None:
    m.operations[event.operation] = PendingRelease(event.operation, event.deadline_ms, event)


def on_claim_reply(m: MemberState, event: ClaimAnswered) -> None:
    operation = m.operations.get(event.sent.operation or 0)
    if not isinstance(operation, PendingClaim):
        return
    operation.call = None
    code = event.error_code
    if event.reply is not None and code == ErrorCode.NONE:
        code = next((one.error_code for one in event.reply.items if one.error_code != ErrorCode.NONE), code)
    if code == ErrorCode.NONE and event.reply is not None:
        operation.granted(m, event.reply)
    elif code in TRY_AGAIN:
        try_again(m, operation, code)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        if m.state is State.STEADY and m.is_current(event.sent):
            m.rejoin = m.rejoin or "the group is rebalancing"
        operation.end(m, code)
    elif code in NO_MEMBER:
        if m.is_current(event.sent) and m.state in {State.STEADY, State.RELEASING}:
            fall_out(m, code)
        operation.end(m, code)
    else:
        operation.refused(m, code, event.reply)


def on_release_reply(m: MemberState, event: ReleaseAnswered) -> None:
    """End the release; partitions that another member owns by then are not an error."""
    operation = m.operations.get(event.sent.operation or 0)
    if operation is None:
        return
    operation.call = None
    if event.error_code in COORDINATOR_GONE:
        m.forget_coordinator()
    operation.end(m, event.error_code)

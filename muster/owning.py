"""Claims and releases of partitions: asked of the coordinator's registry until they end
(docs/spec/consumer-client.md#E2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.answers import ClaimAnswered, ReleaseAnswered
from muster.errands import NO_MEMBER, TRY_AGAIN, may_commit, try_again
from muster.events import ClaimAsked, ClaimDone, Grant, ReleaseAsked, ReleaseDone
from muster.heartbeats import fall_out
from muster.member import COORDINATOR_GONE, Member, State
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.ownership import (
    ClaimItem,
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleaseItem,
    ReleasePartitions,
)


@dataclass(slots=True)
class ClaimErrand:
    """All of it or nothing, in the generation it was asked in. An answer that was lost is asked for again: what is
    owned already is granted by the same epoch.
    """

    number: int
    deadline_ms: int
    threads: Mapping[TopicPartition, int]
    generation_id: int
    retry_at_ms: int = 0
    failures: int = 0
    call: int | None = None
    error_code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT

    def may_go(self, _m: Member) -> bool:
        return self.call is None

    def request(self, m: Member) -> ClaimPartitions | None:
        refusal = may_commit(m)
        if refusal == ErrorCode.NONE and self.generation_id != m.generation_id:
            refusal = ErrorCode.ILLEGAL_GENERATION
        if refusal != ErrorCode.NONE:
            self.end(m, refusal)
            return None
        items = tuple(ClaimItem(one.topic, one.partition, thread) for one, thread in sorted(self.threads.items()))
        return ClaimPartitions(m.settings.group_id, m.member_id, self.generation_id, items)

    def end(self, m: Member, error_code: ErrorCode) -> None:
        m.errands.pop(self.number, None)
        m.effects.append(ClaimDone(self.number, error_code, {}, {}, m.member_id, self.generation_id))

    def granted(self, m: Member, reply: ClaimPartitionsReply) -> None:
        m.errands.pop(self.number, None)
        grants = {
            TopicPartition(one.topic, one.partition): Grant(
                one.epoch, one.committed_offset if one.committed_offset >= 0 else None
            )
            for one in reply.items
        }
        m.effects.append(ClaimDone(self.number, ErrorCode.NONE, grants, {}, m.member_id, self.generation_id))

    def refused(self, m: Member, code: ErrorCode, reply: ClaimPartitionsReply | None) -> None:
        """By the registry: some of it is somebody else's."""
        m.errands.pop(self.number, None)
        owners = {
            TopicPartition(one.topic, one.partition): one.owner
            for one in (() if reply is None else reply.items)
            if one.owner is not None
        }
        m.effects.append(ClaimDone(self.number, code, {}, owners, m.member_id, self.generation_id))


@dataclass(slots=True)
class ReleaseErrand:
    """One try, as who the member was when it was granted them. If it is lost, the next JoinGroup ends the grants."""

    number: int
    deadline_ms: int
    asked: ReleaseAsked
    retry_at_ms: int = 0
    failures: int = 0
    call: int | None = None
    error_code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT

    def may_go(self, _m: Member) -> bool:
        return self.call is None

    def request(self, m: Member) -> ReleasePartitions:
        items = tuple(ReleaseItem(one.topic, one.partition, epoch) for one, epoch in sorted(self.asked.epochs.items()))
        return ReleasePartitions(m.settings.group_id, self.asked.member_id, self.asked.generation_id, items)

    def end(self, m: Member, error_code: ErrorCode) -> None:
        m.errands.pop(self.number, None)
        m.effects.append(ReleaseDone(self.number, error_code))


def claim(m: Member, event: ClaimAsked) -> None:
    m.errands[event.errand] = ClaimErrand(event.errand, event.deadline_ms, event.threads, event.generation_id)


def release(m: Member, event: ReleaseAsked) -> None:
    m.errands[event.errand] = ReleaseErrand(event.errand, event.deadline_ms, event)


def hear_claim(m: Member, event: ClaimAnswered) -> None:
    errand = m.errands.get(event.sent.errand or 0)
    if not isinstance(errand, ClaimErrand):
        return
    errand.call = None
    code = event.error_code
    if event.reply is not None and code == ErrorCode.NONE:
        code = next((one.error_code for one in event.reply.items if one.error_code != ErrorCode.NONE), code)
    if code == ErrorCode.NONE and event.reply is not None:
        errand.granted(m, event.reply)
    elif code in TRY_AGAIN:
        try_again(m, errand, code)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        if m.state is State.STEADY and m.is_current(event.sent):
            m.rejoin = m.rejoin or "the group is rebalancing"
        errand.end(m, code)
    elif code in NO_MEMBER:
        if m.is_current(event.sent) and m.state in {State.STEADY, State.RELEASING}:
            fall_out(m, code)
        errand.end(m, code)
    else:
        errand.refused(m, code, event.reply)


def hear_release(m: Member, event: ReleaseAnswered) -> None:
    """What was somebody else's by then is no trouble."""
    errand = m.errands.get(event.sent.errand or 0)
    if errand is None:
        return
    errand.call = None
    if event.error_code in COORDINATOR_GONE:
        m.forget_coordinator()
    errand.end(m, event.error_code)

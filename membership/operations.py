"""Commits and offset fetches, retried until they end (docs/spec/consumer-client.md#A5, #A8)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from membership.events import CommitAsked, CommitDone, OffsetsAsked, OffsetsDone, OffsetToCommit
from membership.heartbeats import fall_out
from membership.joining import restart_session_timer
from membership.member import COORDINATOR_GONE, MemberState, PendingOperation, State, Timer
from membership.replies import CommitAnswered, OffsetsAnswered
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.groups import NO_GENERATION
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchTopic,
)

TRY_AGAIN = COORDINATOR_GONE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
}
NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


@dataclass(slots=True)
class PendingCommit(PendingOperation):
    """A commit, valid only in the generation in which it was requested: before a later one, other members may have
    owned the partitions."""

    offsets: Mapping[TopicPartition, OffsetToCommit]
    generation_id: int
    once: bool = False

    def request(self, m: MemberState) -> OffsetCommit | None:
        refusal = may_commit_in(m, self.generation_id)
        if refusal != ErrorCode.NONE:
            self.end(m, refusal)
            return None
        topics = tuple(
            OffsetCommitTopic(
                topic,
                tuple(
                    OffsetCommitPartition(
                        one.partition,
                        self.offsets[one].offset,
                        committed_metadata=self.offsets[one].metadata,
                        owner_epoch=self.offsets[one].owner_epoch,
                    )
                    for one in partitions
                ),
            )
            for topic, partitions in _by_topic(self.offsets)
        )
        return OffsetCommit(m.settings.group_id, topics, m.generation_id, m.member_id, m.settings.group_instance_id)

    def end(self, m: MemberState, error_code: ErrorCode) -> None:
        m.operations.pop(self.number, None)
        stored = self.offsets if error_code == ErrorCode.NONE else {}
        m.effects.append(CommitDone(self.number, error_code, stored, m.rejoin))


@dataclass(slots=True)
class PendingOffsetFetch(PendingOperation):
    partitions: tuple[TopicPartition, ...]

    def may_go(self, m: MemberState) -> bool:
        """Return true once no commit of the same partitions is in progress. A retried commit would be stored after the
        fetch, and the application would read committed records again."""
        commits = (one for one in m.operations.values() if isinstance(one, PendingCommit))
        return self.call is None and all(one.offsets.keys().isdisjoint(self.partitions) for one in commits)

    def request(self, m: MemberState) -> OffsetFetch | None:
        topics = tuple(
            OffsetFetchTopic(topic, tuple(one.partition for one in ones)) for topic, ones in _by_topic(self.partitions)
        )
        return OffsetFetch((OffsetFetchGroup(m.settings.group_id, topics),), require_stable=True)

    def end(self, m: MemberState, error_code: ErrorCode) -> None:
        m.operations.pop(self.number, None)
        m.effects.append(OffsetsDone(self.number, error_code, {}))


def may_commit(m: MemberState) -> ErrorCode:
    """Return the error for a commit from outside the group: in a rebalance the application must poll first, else its
    place is lost."""
    if m.fenced:
        return ErrorCode.FENCED_INSTANCE_ID
    if m.is_by_hand:
        return ErrorCode.NONE
    if m.state in {State.JOINING, State.SYNCING}:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if m.generation_id == NO_GENERATION or m.state is State.UNJOINED:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def may_commit_in(m: MemberState, generation_id: int) -> ErrorCode:
    """Return the error of `may_commit`, or that for a commit requested in another generation."""
    refusal = may_commit(m)
    is_other = refusal == ErrorCode.NONE and generation_id != m.generation_id
    return ErrorCode.ILLEGAL_GENERATION if is_other else refusal


def commit(m: MemberState, event: CommitAsked) -> None:
    """Commit offsets of held partitions only, since the coordinator checks the member and its generation, but not the
    partitions' owner."""
    commit_as(PendingCommit, m, event)


def commit_as(kind: type[PendingCommit], m: MemberState, event: CommitAsked) -> None:
    """Commit offsets of held partitions by a pending operation of this kind."""
    refusal = may_commit(m)
    held = {one: offset for one, offset in event.offsets.items() if one in m.held}
    if refusal != ErrorCode.NONE or not held:
        m.effects.append(CommitDone(event.operation, refusal, {}, m.rejoin))
        return
    m.operations[event.operation] = kind(event.operation, event.deadline_ms, held, m.generation_id, event.once)


def fetch_offsets(m: MemberState, event: OffsetsAsked) -> None:
    if event.partitions:
        m.operations[event.operation] = PendingOffsetFetch(event.operation, event.deadline_ms, event.partitions)
    else:
        m.effects.append(OffsetsDone(event.operation, ErrorCode.NONE, {}))


def run(m: MemberState, operation: PendingOperation) -> None:
    """Send the operation's request, unless the operation has ended instead."""
    request = operation.request(m)
    if request is not None:
        operation.call = m.call(request, timeout_ms=m.settings.request_timeout_ms, operation=operation.number)


def on_commit_reply(m: MemberState, event: CommitAnswered) -> None:
    operation = m.operations.get(event.sent.operation or 0)
    if operation is None:
        return
    operation.call = None
    code = event.error_code if event.reply is None else first_error(event.reply)
    if code == ErrorCode.NONE:
        if Timer.SESSION in m.timers and m.is_current(event.sent):
            restart_session_timer(m)
        operation.end(m, code)
    elif code in TRY_AGAIN:
        if isinstance(operation, PendingCommit) and operation.once:
            if code in COORDINATOR_GONE or code == ErrorCode.REQUEST_TIMED_OUT:
                m.forget_coordinator()
            operation.end(m, code)
        else:
            try_again(m, operation, code)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        if m.state is State.STEADY and m.is_current(event.sent):
            m.rejoin = m.rejoin or "the group is rebalancing"
        operation.end(m, code)
    elif code in NO_MEMBER:
        if m.is_current(event.sent) and m.state in {State.STEADY, State.RELEASING}:
            fall_out(m, code)
        elif m.state is State.JOINING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        operation.end(m, code)
    else:
        operation.end(m, code)


def on_offsets_reply(m: MemberState, event: OffsetsAnswered) -> None:
    operation = m.operations.get(event.sent.operation or 0)
    if not isinstance(operation, PendingOffsetFetch):
        return
    operation.call = None
    group = None
    code = event.error_code
    if event.reply is not None:
        group = next((one for one in event.reply.groups if one.group_id == m.settings.group_id), None)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if group is None else _first_offset_error(group)
    if code == ErrorCode.NONE and group is not None:
        found: dict[TopicPartition, int | None] = dict.fromkeys(operation.partitions)
        for topic in group.topics:
            for one in topic.partitions:
                if one.committed_offset >= 0:
                    found[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
        del m.operations[operation.number]
        m.effects.append(OffsetsDone(operation.number, code, found))
    elif code in COORDINATOR_GONE or (code.retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        try_again(m, operation, code)
    else:
        operation.end(m, code)


def try_again(m: MemberState, operation: PendingOperation, code: ErrorCode) -> None:
    if code in COORDINATOR_GONE or code == ErrorCode.REQUEST_TIMED_OUT:
        m.forget_coordinator()
    operation.error_code = code
    operation.retry_at_ms = m.now_ms + m.backoff_ms(operation.failures)
    operation.failures += 1


def first_error(reply: OffsetCommitReply) -> ErrorCode:
    codes = (one.error_code for topic in reply.topics for one in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


def _first_offset_error(group: OffsetFetchGroupReply) -> ErrorCode:
    if group.error_code != ErrorCode.NONE:
        return group.error_code
    codes = (one.error_code for topic in group.topics for one in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for one in sorted(partitions):
        by_topic.setdefault(one.topic, []).append(one)
    return list(by_topic.items())

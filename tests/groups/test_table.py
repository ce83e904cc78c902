from itertools import product
from typing import Any, get_args

import pytest

from coordinator.groups.classic.events import (
    AppendFailed,
    AssignmentStored,
    Claim,
    Client,
    Deleted,
    DeleteOffsets,
    GroupEvent,
    GroupHeld,
    HoldEnded,
    InitialDelayOver,
    JoinAgain,
    JoinFirst,
    JoinPending,
    JoinPhaseOver,
    Leave,
    Loaded,
    OwnershipEnded,
    PendingIdOverdue,
    Release,
    ReplacementStored,
    ReplaceStatic,
    RetentionDue,
    SessionOverdue,
    Sync,
    SyncOverdue,
    Unloaded,
)
from coordinator.groups.classic.group_states import MAY_BECOME, GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.classic.table import TABLE, answer, decide, handle
from coordinator.groups.conversions import ClassicAgain, Superseded
from coordinator.groups.outcome import Outcome
from coordinator.groups.table import Path, reject
from coordinator.records.records import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    Heartbeat,
    HoldGroup,
    LeaveGroup,
    LeavingMember,
    Origin,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
    OffsetDelete,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from protocol.messages.ownership import ClaimPartitions, ReleasePartitions, ReleasePartitionsReply
from protocol.session import RequestRef
from tests.groups.bench import Bench, join

REF = RequestRef(1, 99)
CLIENT = Client("c", "/10.0.0.1")
EVENTS: tuple[type, ...] = get_args(GroupEvent)
STATES = list(GroupState)
REQUESTS = (JoinFirst, JoinPending, JoinAgain, ReplaceStatic, Sync, Leave, Claim, Release, GroupHeld)


def bench_in(state: GroupState) -> Bench:
    """A bench whose group `g` is in the state, with a static and a dynamic member where it has any."""
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0))
    if state is GroupState.EMPTY:
        bench.shard.create("g", bench.moment)
        return bench
    bench.ask(join(group_instance_id="i"))
    bench.ask(join())
    for _ in range(3):
        bench.wait(0)
        for member in list(bench.group.members.values()):
            if member.join_ref is None:
                bench.ask(join(member.member_id, group_instance_id=member.group_instance_id))
    if state is GroupState.PREPARING:
        bench.ask(join(group_instance_id="j"))
    if state in {GroupState.STABLE, GroupState.DEAD}:
        sync_all(bench)
    if state is GroupState.DEAD:
        bench.happen(Unloaded("g"))
    assert bench.group.state is state
    return bench


def sync_all(bench: Bench) -> None:
    for member in list(bench.group.members.values()):
        given = (SyncGroupAssignment(member.member_id, b"given"),)
        bench.ask(SyncGroup("g", bench.group.generation_id, member.member_id, assignments=given))


def sample(kind: type, group: ClassicGroup) -> Any:
    """An event of the kind that the group might meet."""
    member_id = next(iter(group.members), "nobody")
    request = join(member_id)
    samples: dict[type, Any] = {
        JoinFirst: JoinFirst(REF, join(), CLIENT),
        JoinPending: JoinPending(REF, join("pending"), CLIENT),
        JoinAgain: JoinAgain(REF, request, CLIENT),
        ReplaceStatic: ReplaceStatic(REF, join(group_instance_id="i"), CLIENT),
        Sync: Sync(REF, SyncGroup("g", group.generation_id, member_id)),
        Leave: Leave(REF, LeaveGroup("g", (LeavingMember(member_id),))),
        DeleteOffsets: DeleteOffsets(REF, OffsetDelete("g", ()), frozenset()),
        Deleted: Deleted(REF, "g", ()),
        Claim: Claim(REF, ClaimPartitions("g", member_id, group.generation_id, ()), ()),
        Release: Release(REF, ReleasePartitions("g", member_id)),
        GroupHeld: GroupHeld(REF, HoldGroup("g", 1_000), Origin("o", "/10.0.0.9")),
        HoldEnded: HoldEnded("g"),
        OwnershipEnded: OwnershipEnded("g", member_id),
        JoinPhaseOver: JoinPhaseOver("g"),
        InitialDelayOver: InitialDelayOver("g", 0, 0),
        SyncOverdue: SyncOverdue("g", group.generation_id - 1),
        SessionOverdue: SessionOverdue("g", "nobody"),
        PendingIdOverdue: PendingIdOverdue("g", "nobody"),
        AssignmentStored: AssignmentStored("g"),
        ReplacementStored: ReplacementStored(REF, request, member_id, "old", None, 10_000, 1, False),
        RetentionDue: RetentionDue("g", (("t", 0),), (("t", 1),), True, False),
        Loaded: Loaded("g"),
        Unloaded: Unloaded("g"),
        ClassicAgain: ClassicAgain("g", (), member_id, "as said"),
        Superseded: Superseded("g"),
        AppendFailed: AppendFailed(Leave(REF, LeaveGroup("g", ())), ErrorCode.NOT_COORDINATOR),
    }
    return samples[kind]


def test_every_event_has_one_row_and_every_row_a_cell_for_each_state() -> None:
    full = [row.event for row in TABLE.on(Path.FULL)]
    assert full == list(dict.fromkeys(full))
    assert set(full) == set(EVENTS)
    for row in TABLE.rows:
        assert len(row.cells) == len(STATES) and all(map(callable, row.cells)), row.event


def test_commits_alone_are_append_only() -> None:
    assert [row.event for row in TABLE.on(Path.APPEND_ONLY)] == [OffsetCommit, TxnOffsetCommit]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.title)
def test_a_commit_of_a_member_is_decided_by_the_state(state: GroupState) -> None:
    bench = bench_in(state)
    group = bench.group
    member_id = next(iter(group.members), "nobody")
    generation_id = -1 if state is GroupState.EMPTY else group.generation_id
    records: list[CommittedOffset] = []
    topics = (OffsetCommitTopic("t", (OffsetCommitPartition(0, 7),)),)
    decided = decide(group, OffsetCommit("g", topics, generation_id, member_id), bench.moment, records)
    error = {
        GroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
        GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }.get(state)
    assert decided == (error or OffsetCommitReply((OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(0),)),)))
    assert len(records) == (error is None)
    txn_topics = (TxnOffsetCommitTopic("t", (TxnOffsetCommitPartition(0, 7),)),)
    pending = TxnOffsetCommit("tx", "g", 1, 0, txn_topics, generation_id, member_id)
    is_refused = isinstance(decide(group, pending, bench.moment, records), ErrorCode)
    assert is_refused is (state is GroupState.DEAD), "a transaction need not wait for the assignment"


def test_heartbeats_alone_are_read_only() -> None:
    assert [row.event for row in TABLE.on(Path.READ_ONLY)] == [Heartbeat]


@pytest.mark.parametrize(
    ("kind", "state"), list(product(EVENTS, STATES)), ids=lambda value: getattr(value, "__name__", value)
)
def test_every_cell_takes_its_event(kind: type, state: GroupState) -> None:
    bench = bench_in(state)
    group = bench.group
    if kind is JoinPending and state is not GroupState.DEAD:
        bench.ids.member_id = lambda prefix: "pending"  # type: ignore[method-assign]
        bench.ask(join(wants_member_id_first=True))
    event = sample(kind, group)
    out = Outcome(bench.moment, bench.ids)
    handle(group, event, out)
    if hasattr(event, "ref") and kind is not ReplacementStored:
        parked = [m for m in group.members.values() if REF in {m.join_ref, m.sync_ref}]
        answered = [one for one in out.replies if one.ref == REF]
        followed = [one for one in out.follow_ups if getattr(one, "ref", None) == REF]
        assert len(parked) + len(answered) + len(followed) == 1, (
            "a request is answered, parked, or answered by what follows"
        )


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_a_dead_group_refuses_requests_and_ignores_the_rest(kind: type) -> None:
    bench = bench_in(GroupState.DEAD)
    out = Outcome(bench.moment, bench.ids)
    handle(bench.group, sample(kind, bench.group), out)
    if kind in REQUESTS or kind is ReplacementStored:
        assert [reply for _, reply, _ in out.replies] == [
            sample(kind, bench.group).refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        ]
    elif kind in {DeleteOffsets, Deleted}:
        assert [reply.error_code for _, reply, _ in out.replies] == [ErrorCode.GROUP_ID_NOT_FOUND]  # type: ignore[attr-defined]
    else:
        assert not out.replies
    assert not (out.records or out.watched or out.notes or out.follow_ups)
    assert bench.group.state is GroupState.DEAD


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.title)
def test_a_heartbeat_of_a_member_is_answered_by_the_state(state: GroupState) -> None:
    bench = bench_in(state)
    group = bench.group
    member_id = next(iter(group.members), "nobody")
    assert (
        answer(group, Heartbeat("g", group.generation_id, member_id), 0)
        is {
            GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
            GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
            GroupState.COMPLETING: ErrorCode.NONE,
            GroupState.STABLE: ErrorCode.NONE,
            GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }[state]
    )


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)), ids=lambda state: state.title)
def test_a_state_becomes_what_it_may_and_nothing_else(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g", GroupSettings(), state=before)
    if after in MAY_BECOME[before]:
        group.become(after, 7)
        assert (group.state, group.state_since_ms) == (after, 7)
    else:
        with pytest.raises(AssertionError, match="may not become"):
            group.become(after, 7)
        assert group.state is before


def test_every_move_that_may_be_made_is_made() -> None:
    moves = set()
    for state in STATES:
        bench = bench_in(state)
        bench.happen(Unloaded("g"))
        moves.update(bench.moves)
    bench = bench_in(GroupState.COMPLETING)
    bench.ask(join())  # CompletingRebalance back to PreparingRebalance
    bench.wait(1_000_000)  # and, since nobody is heard any more, to Empty
    moves.update(bench.moves)
    bench = bench_in(GroupState.STABLE)
    bench.wait(1_000_000)
    moves.update(bench.moves)
    never = {
        (GroupState.DEAD, GroupState.DEAD),
        (GroupState.EMPTY, GroupState.EMPTY),
    }  # the second: a new group's record
    assert moves - never == {(before, after) for before in STATES for after in MAY_BECOME[before]} - never


def test_a_refusal_is_an_answer_at_once_and_nothing_else() -> None:
    bench = bench_in(GroupState.STABLE)
    out = Outcome(bench.moment, bench.ids)
    reject(ErrorCode.NOT_COORDINATOR)(bench.group, sample(Release, bench.group), out)
    assert [(ref, reply, at_once) for ref, reply, at_once in out.replies] == [
        (REF, ReleasePartitionsReply(error_code=ErrorCode.NOT_COORDINATOR), True)
    ]
    assert not (out.records or out.watched or out.notes or out.follow_ups or out.pushes)

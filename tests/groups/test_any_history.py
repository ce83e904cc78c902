from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.groups.classic.events import DeleteOffsets
from coordinator.groups.classic.group_states import MAY_BECOME, GroupSettings, GroupState
from partition_log.errors import AppendError
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from protocol.session import RequestRef
from tests.enumerations import share_of
from tests.groups.bench import Bench, join

_NAMES = st.sampled_from(("range", "rr", "sticky"))
_OFFERS = st.lists(_NAMES, min_size=1, max_size=3, unique=True).map(
    lambda names: tuple(JoinProtocol(name, name.encode()) for name in names)
)
_INSTANCES = st.none() | st.sampled_from(("s1", "s2"))
_PICK = st.integers(0, 1_000)
_SETTLED = (GroupState.EMPTY, GroupState.STABLE)


class AnyHistory(RuleBasedStateMachine):
    """Members that join, sync, go silent, leave, restart and commit, right and wrong, over a log that refuses now and
    then; time that passes; crashes. The checkers of the bench hold after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(GroupSettings(initial_rebalance_delay_ms=3_000, max_size=4))

    # --- who there is ---

    def _ids(self) -> list[str]:
        group = self.bench.shard.groups.get("g")
        return ["", "nobody"] if group is None else [*group.classic.members, *group.classic.pending, "", "nobody"]

    def _pick(self, pick: int) -> str:
        ids = self._ids()
        return ids[pick % len(ids)]

    def _instance_of(self, member_id: str) -> str | None:
        group = self.bench.shard.groups.get("g")
        member = None if group is None else group.classic.members.get(member_id)
        return None if member is None else member.group_instance_id

    def _generation(self, wrong: bool) -> int:
        group = self.bench.shard.groups.get("g")
        return (0 if group is None else group.classic.generation_id) + wrong

    # --- what they do ---

    @rule(pick=_PICK, offers=_OFFERS, instance=_INSTANCES, first=st.booleans(), new=st.booleans())
    def joins(self, pick: int, offers: tuple[JoinProtocol, ...], instance: str | None, first: bool, new: bool) -> None:
        member_id = "" if new else self._pick(pick)
        self.bench.ask(
            join(
                member_id,
                protocols=offers,
                group_instance_id=instance or self._instance_of(member_id),
                wants_member_id_first=first,
                session_timeout_ms=6_000 + pick % 3 * 10_000,
                rebalance_timeout_ms=pick % 4 * 10_000 - 1,
                accepts_skip_assignment=first,
            )
        )

    @precondition(lambda self: self._members())
    @rule()
    def all_join_again(self) -> None:
        for member_id in self._members():
            if member_id in self._members():
                member = self.bench.group.members[member_id]
                self.bench.ask(join(member_id, protocols=member.protocols, group_instance_id=member.group_instance_id))

    def _members(self) -> list[str]:
        group = self.bench.shard.groups.get("g")
        return [] if group is None else list(group.classic.members)

    @rule(
        newcomers=st.integers(0, 2),
        instance=_INSTANCES,
        offers=_OFFERS,
        last=st.sampled_from(("all", "all", "but one", "followers", "refused")),
    )
    def become_stable(self, newcomers: int, instance: str | None, offers: tuple[JoinProtocol, ...], last: str) -> None:
        """Most of what is interesting happens to groups that are, or were about to be, Stable."""
        self.bench.log.fails = None
        for _ in range(newcomers or not self._members()):
            self.bench.ask(join(protocols=offers, group_instance_id=instance))
        for _ in range(4):
            if self.bench.group.state is GroupState.PREPARING:
                self.all_join_again()
                self.bench.wait(3_000)
        members = self._members()
        if last == "followers":
            members = [member_id for member_id in members if member_id != self.bench.group.leader] * 2
        for member_id in members[:-1] if last == "but one" else members:
            self.bench.log.fails = AppendError.DISK_FULL if last == "refused" else None
            self._sync(member_id, self._generation(False), None)
        self.bench.log.fails = None

    @precondition(lambda self: len(self._members()) > 1)
    @rule(pick=_PICK)
    def all_but_one_are_heard(self, pick: int) -> None:
        members = self._members()
        for duration_ms in (5_000, 5_000):
            self.bench.wait(duration_ms)
            for member_id in members[: pick % len(members)] + members[pick % len(members) + 1 :]:
                self.bench.heartbeat(member_id, self._generation(False), self._instance_of(member_id))

    @precondition(lambda self: bool(self._instances()))
    @rule(pick=_PICK, offers=_OFFERS, skips=st.booleans(), refused=st.booleans())
    def an_instance_restarts(self, pick: int, offers: tuple[JoinProtocol, ...], skips: bool, refused: bool) -> None:
        instances = self._instances()
        instance = instances[pick % len(instances)]
        if pick % 3:
            offers = self.bench.group.members[self.bench.group.static_members[instance]].protocols
        self.bench.log.fails = AppendError.RECORD_TOO_LARGE if refused else None
        self.bench.ask(join(protocols=offers, group_instance_id=instance, accepts_skip_assignment=skips))
        self.bench.log.fails = None

    def _instances(self) -> list[str]:
        group = self.bench.shard.groups.get("g")
        return [] if group is None else list(group.classic.static_members)

    @rule(pick=_PICK, wrong=st.booleans(), named=st.booleans())
    def syncs(self, pick: int, wrong: bool, named: bool) -> None:
        member_id = self._pick(pick)
        self._sync(member_id, self._generation(wrong and pick % 5 == 0), "range" if named else None)

    @rule()
    def all_sync(self) -> None:
        for member_id in self._members():
            self._sync(member_id, self._generation(False), None)

    def _sync(self, member_id: str, generation: int, protocol: str | None) -> None:
        assignments = tuple(SyncGroupAssignment(known, f"to {known}".encode()) for known in self._ids())
        instance = self._instance_of(member_id)
        self.bench.ask(SyncGroup("g", generation, member_id, instance, None, protocol, assignments))

    @precondition(lambda self: "g" in self.bench.shard.groups)
    @rule(pick=_PICK, wrong=st.booleans())
    def heartbeats(self, pick: int, wrong: bool) -> None:
        heard = self.bench.heartbeat(self._pick(pick), self._generation(wrong))
        assert heard in {
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
        }

    @rule(pick=_PICK, others=_PICK, instance=_INSTANCES)
    def leave(self, pick: int, others: int, instance: str | None) -> None:
        entries = (LeavingMember(self._pick(pick)), LeavingMember(self._pick(others), instance))
        self.bench.ask(LeaveGroup("g", entries[: 1 + others % 2]))

    @rule(pick=_PICK, wrong=st.booleans(), offset=st.integers(0, 100))
    def commits(self, pick: int, wrong: bool, offset: int) -> None:
        member_id = self._pick(pick)
        generation = -1 if not member_id else self._generation(wrong)
        topics = (OffsetCommitTopic("t", (OffsetCommitPartition(pick % 3, offset),)),)
        ref = self.bench.ask(OffsetCommit("g", topics, generation, member_id))
        if self.bench.reply(ref).topics[0].partitions[0].error_code is ErrorCode.NONE:
            stored = self.bench.shard.offsets.get("g", "t", pick % 3)
            assert stored is not None and stored.offset == offset

    @precondition(lambda self: "g" in self.bench.shard.groups)
    @rule(partition=st.integers(0, 2))
    def offsets_are_deleted(self, partition: int) -> None:
        bench = self.bench
        ref = RequestRef(9, len(bench.replies) + 1_000_000)
        bench.waiting[ref] = OffsetDelete("g", (OffsetDeleteTopic("t", (partition,)),))
        known = frozenset(bench.shard.offsets.partitions("g"))
        bench.happen(DeleteOffsets(ref, bench.waiting[ref], known))  # type: ignore[arg-type]

    @rule(producer_id=st.integers(1, 3), partition=st.integers(0, 2), offset=st.integers(0, 100))
    def a_transaction_commits(self, producer_id: int, partition: int, offset: int) -> None:
        topics = (TxnOffsetCommitTopic("t", (TxnOffsetCommitPartition(partition, offset),)),)
        ref = self.bench.ask(TxnOffsetCommit("tx", "g", producer_id, 0, topics))
        if self.bench.reply(ref).topics[0].partitions[0].error_code is ErrorCode.NONE:
            kept = self.bench.shard.offsets.pending.of("g")["t", partition][producer_id]
            assert kept is not None and kept.offset == offset

    @rule(producer_id=st.integers(1, 3), is_committed=st.booleans())
    def a_transaction_ends(self, producer_id: int, is_committed: bool) -> None:
        ended = self.bench.end_transaction(producer_id, is_committed=is_committed)
        pending = self.bench.shard.offsets.pending.of("g")
        if not isinstance(ended, ErrorCode):
            assert not any(producer_id in producers for producers in pending.values())

    @rule(duration_ms=st.sampled_from((0, 1, 999, 3_000, 3_000, 5_000, 9_000, 10_000, 20_000, 300_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.bench.wait(duration_ms)

    @rule(error=st.sampled_from(AppendError))
    def the_log_refuses_the_next(self, error: AppendError) -> None:
        self.bench.log.fails = error

    @rule(likely=st.integers(0, 4))
    def crashes(self, likely: int) -> None:
        if likely:
            return
        self.bench.log.fails = None
        self.bench.check_replay()
        self.bench.crash()

    # --- what always holds ---

    @invariant()
    def only_allowed_moves_are_made(self) -> None:
        for before, after in self.bench.moves:
            assert after in MAY_BECOME[before] or before is after, f"{before.title} became {after.title}"
        self.bench.moves.clear()

    @invariant()
    def an_id_is_handed_out_once(self) -> None:
        pending = [
            reply.member_id
            for reply in self.bench.replies.values()
            if isinstance(reply, JoinGroupReply) and reply.error_code is ErrorCode.MEMBER_ID_REQUIRED
        ]
        assert len(pending) == len(set(pending))

    def teardown(self) -> None:
        bench = self.bench
        bench.log.fails = None
        bench.check_replay()
        bench.wait(3_000_000)
        assert all(group.classic.state in _SETTLED for group in bench.shard.groups.values()), (
            "requests ended, time passed"
        )
        assert not bench.waiting, "nobody is left waiting"
        assert all(not group.classic.members for group in bench.shard.groups.values())
        bench.check_replay()


AnyHistory.TestCase.settings = settings(
    max_examples=share_of(150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyHistory = AnyHistory.TestCase

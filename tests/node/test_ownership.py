"""The ownership registry as members meet it: claims, releases, and how grants end by themselves
(docs/spec/consumer-client.md#E)."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.clock import Moment
from coordinator.node.effects import Send
from coordinator.node.events import Received, Stopping
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import (
    DeleteGroups,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.ownership import (
    ClaimItem,
    ClaimPartitions,
    DescribeOwnership,
    OwnedPartition,
    ReleaseItem,
    ReleasePartitions,
)
from protocol.streams_protocol import encode_streams_assignment
from tests.groups.checks import check_kinds
from tests.node.node_rig import NO_ROOM, NodeRig
from tests.protocol.native import call, values_in
from tests.simulation.disk import SimDisk

NONE, OWNED, NOT_OWNER = ErrorCode.NONE, ErrorCode.OWNED, ErrorCode.NOT_OWNER
SESSION_MS, REBALANCE_MS = 10_000, 3_000
Threads = Mapping[int, int]


class Streams:
    """A group of protocol type `streams` over `orders`; member `n` speaks over connection `n`."""

    def __init__(self, rig: NodeRig, group_id: str = "g", protocol_type: str = "streams") -> None:
        self.node_rig, self.group_id, self.protocol_type = rig, group_id, protocol_type
        self.members: dict[int, str] = {}
        self.generation = -1

    def join(self, number: int) -> None:
        """Ask to be in; the answer comes when all have asked."""
        if number not in self.node_rig.received:
            self.node_rig.connect(number)
        message = JoinGroup(
            self.group_id,
            SESSION_MS,
            self.members.get(number, ""),
            self.protocol_type,
            (JoinProtocol("range-threads", b"x"),),
            REBALANCE_MS,
            wants_member_id_first=False,
            reason="again",
        )
        self.ask_and_keep(number, message)

    def settle(self, assignments: Mapping[int, Threads], absent: tuple[int, ...] = ()) -> None:
        """Let members learn their ids; the leader, which joined first, sends the assignments."""
        self.node_rig.wait(0)
        leader = -1
        for number in [one for one in assignments if one not in absent]:
            reply: Any = self.node_rig.heard(number)[-1]
            assert reply.error_code == NONE
            self.members[number], self.generation = reply.member_id, reply.generation_id
            if reply.leader == reply.member_id:
                leader = number
        lines = tuple(
            SyncGroupAssignment(self.members[one], encode_streams_assignment({"orders": dict(threads)}))
            for one, threads in assignments.items()
        )
        for number in self.members:
            if number in assignments and number not in absent:
                self.ask_and_keep(number, self._sync(number, lines if number == leader else ()))
        for number in assignments:
            self.node_rig.heard(number)

    def _sync(self, number: int, lines: tuple[SyncGroupAssignment, ...]) -> SyncGroup:
        return SyncGroup(self.group_id, self.generation, self.members[number], assignments=lines)

    def claim(self, number: int, threads: Threads, generation: int | None = None) -> Any:
        items = tuple(ClaimItem("orders", partition, thread) for partition, thread in threads.items())
        at = self.generation if generation is None else generation
        return self.ask(number, ClaimPartitions(self.group_id, self.members[number], at, items))

    def epochs(self, number: int, threads: Threads) -> dict[int, int]:
        reply = self.claim(number, threads)
        assert not reply.error_code and all(not item.error_code for item in reply.items), reply
        return {item.partition: item.epoch for item in reply.items}

    def release(self, number: int, *grants: tuple[int, int], member: int | None = None) -> list[ErrorCode]:
        items = tuple(ReleaseItem("orders", partition, epoch) for partition, epoch in grants)
        member_id = self.members[number if member is None else member]
        reply = self.ask(number, ReleasePartitions(self.group_id, member_id, self.generation, items, not items))
        return [item.error_code for item in reply.items]

    def commit(self, number: int, partition: int, offset: int, epoch: int = -1) -> ErrorCode:
        part = OffsetCommitPartition(partition, offset, owner_epoch=epoch)
        topics = (OffsetCommitTopic("orders", (part,)),)
        reply = self.ask(number, OffsetCommit(self.group_id, topics, self.generation, self.members[number]))
        code: ErrorCode = reply.topics[0].partitions[0].error_code
        return code

    def owners(self, number: int = 1) -> dict[int, tuple[str, int, int]]:
        reply = self.ask(number, DescribeOwnership(self.group_id))
        items: tuple[OwnedPartition, ...] = reply.items
        return {item.partition: (item.member_id, item.thread, item.epoch) for item in items}

    def ask(self, number: int, message: Any) -> Any:
        reply = self.node_rig.ask(number, message)[-1]
        self.check()
        return reply

    def ask_and_keep(self, number: int, message: Any) -> None:
        """Send a request and keep its replies for later."""
        self.node_rig.received[number] += self.node_rig.ask(number, message)
        self.check()

    def check(self) -> None:
        core = self.node_rig.node.core
        for group in core.directory.values():
            check_kinds(group, core.purgatory)

    def beat(self, *numbers: int) -> None:
        for number in numbers:
            self.node_rig.ask(number, Heartbeat(self.group_id, self.generation, self.members[number]))


@pytest.fixture
def rig() -> NodeRig:
    rig = NodeRig()
    rig.make_topic()
    return rig


@pytest.fixture
def two(rig: NodeRig) -> Streams:
    """Member 1 has partitions 0 and 1 on its threads 0 and 1, member 2 partitions 2 and 3 on its thread 0."""
    group = Streams(rig)
    group.join(1)
    group.settle({1: {0: 0, 1: 1}})
    group.join(2)
    group.join(1)
    group.settle({1: {0: 0, 1: 1}, 2: {2: 0, 3: 0}})
    return group


def test_a_claim_grants_what_is_assigned_and_says_what_is_committed(two: Streams) -> None:
    assert two.commit(1, 1, 42) == NONE
    reply = two.claim(1, {0: 0, 1: 1})
    assert [(item.epoch, item.committed_offset) for item in reply.items] == [(1, -1), (1, 42)]
    assert two.owners() == {0: (two.members[1], 0, 1), 1: (two.members[1], 1, 1)}


def test_a_claim_repeated_after_a_lost_reply_is_the_same_grant(two: Streams) -> None:
    assert two.epochs(1, {0: 0}) == two.epochs(1, {0: 0}) == {0: 1}


def test_what_is_assigned_to_another_or_to_another_thread_is_not_granted(two: Streams) -> None:
    for wrong in ({2: 0}, {0: 1}, {9: 0}):
        reply = two.claim(1, wrong)
        assert [item.error_code for item in reply.items] == [ErrorCode.NOT_ASSIGNED]
    assert two.owners() == {}


def test_a_claim_that_names_no_thread_is_refused(two: Streams) -> None:
    about = {"group_id": two.group_id, "member_id": two.members[1], "generation_id": two.generation}
    claim = call(1_000, "ClaimPartitions", **about, items=[{"topic": "orders", "partition": 0}])
    (reply,) = (one.data for one in two.node_rig.node.step(Received(1, claim), Moment(0, 0)) if isinstance(one, Send))
    ((_kind, number, error, result),) = values_in(reply)
    assert (number, error[:3], result) == (1_000, [42, "INVALID_REQUEST", "items[0].thread: is required"], None)
    assert two.owners() == {}


def test_one_item_refused_grants_none(two: Streams) -> None:
    reply = two.claim(1, {0: 0, 1: 1, 2: 0})
    assert [(item.error_code, item.epoch) for item in reply.items] == [
        (NONE, -1),
        (NONE, -1),
        (ErrorCode.NOT_ASSIGNED, -1),
    ]
    assert two.owners() == {}


def test_a_partition_that_cannot_be_is_not_granted_whatever_the_leader_says(rig: NodeRig) -> None:
    group = Streams(rig)
    group.join(1)
    group.settle({1: {-1: 0}})
    assert [item.error_code for item in group.claim(1, {-1: 0}).items] == [ErrorCode.NOT_ASSIGNED]


def test_an_assignment_nobody_can_read_assigns_nothing(rig: NodeRig) -> None:
    group = Streams(rig)
    group.join(1)
    reply: Any = rig.heard(1)[-1]
    group.members[1], group.generation = reply.member_id, reply.generation_id
    group.ask(
        1, SyncGroup("g", group.generation, reply.member_id, assignments=(SyncGroupAssignment(reply.member_id, b"?"),))
    )
    assert [item.error_code for item in group.claim(1, {0: 0}).items] == [ErrorCode.NOT_ASSIGNED]


def test_members_of_other_generations_and_strangers_claim_nothing(two: Streams) -> None:
    assert two.claim(1, {0: 0}, generation=two.generation - 1).error_code == ErrorCode.ILLEGAL_GENERATION
    stranger = ClaimPartitions("g", "nobody", two.generation, (ClaimItem("orders", 0, 0),))
    assert two.ask(1, stranger).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    elsewhere = ClaimPartitions("absent", "nobody", 1, (ClaimItem("orders", 0, 0),))
    assert two.ask(1, elsewhere).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_nothing_is_claimed_in_a_rebalance(two: Streams) -> None:
    two.join(1)  # it leads, so this is a rebalance
    assert two.claim(2, {2: 0}).error_code == ErrorCode.REBALANCE_IN_PROGRESS, "while members join"
    two.join(2)
    two.node_rig.heard(1)
    two.node_rig.heard(2)
    two.generation += 1
    assert two.claim(2, {2: 0}).error_code == ErrorCode.REBALANCE_IN_PROGRESS, "while they wait for their shares"


def test_a_consumer_group_has_no_registry(rig: NodeRig) -> None:
    group = Streams(rig, "c", "consumer")
    group.join(1)
    group.settle({1: {0: 0}})
    assert group.claim(1, {0: 0}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_consumer_cannot_join_streams(two: Streams) -> None:
    stranger = Streams(two.node_rig, "g", "consumer")
    stranger.join(7)
    reply: Any = stranger.node_rig.heard(7)[-1]
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_release_needs_the_grants_own_epoch(two: Streams) -> None:
    epoch = two.epochs(1, {0: 0})[0]
    assert two.release(1, (0, epoch - 1)) == [NOT_OWNER]
    assert two.release(2, (0, epoch)) == [NOT_OWNER]
    assert 0 in two.owners()
    assert two.release(1, (0, epoch), (1, 1)) == [NONE, NOT_OWNER]
    assert two.owners() == {}
    assert two.epochs(1, {0: 0}) == {0: epoch + 1}


def test_all_is_released_at_once(two: Streams) -> None:
    two.epochs(1, {0: 0, 1: 1})
    two.epochs(2, {2: 0})
    assert two.release(1) == [NONE, NONE]
    assert set(two.owners()) == {2}


def test_commits_need_the_grant_where_there_is_one(two: Streams) -> None:
    epoch = two.epochs(1, {0: 0})[0]
    assert two.commit(1, 0, 5, epoch) == two.commit(1, 0, 6) == NONE
    assert two.commit(2, 0, 7) == two.commit(2, 0, 7, epoch) == two.commit(1, 0, 7, epoch - 1) == NOT_OWNER
    assert two.commit(2, 3, 7) == NONE, "nobody owns it"
    assert two.claim(1, {0: 0}).items[0].committed_offset == 6


def test_a_fetch_by_a_grant_that_does_not_hold_is_refused_alone(two: Streams) -> None:
    epoch = two.epochs(1, {0: 0})[0]

    def fetched(*grants: tuple[int, int]) -> dict[int, ErrorCode]:
        parts = tuple(FetchPartition(partition, 0, owner_epoch=epoch) for partition, epoch in grants)
        reply = two.ask(1, Fetch((FetchTopic("orders", parts),), 0, group_id="g", member_id=two.members[1]))
        return {part.partition_index: part.error_code for topic in reply.responses for part in topic.partitions}

    assert fetched((0, epoch), (1, -1), (2, 1)) == {0: NONE, 1: NONE, 2: NOT_OWNER}
    two.release(1)
    assert fetched((0, epoch)) == {0: NOT_OWNER}


def test_a_waiting_fetch_learns_that_its_grant_is_gone(two: Streams) -> None:
    epoch = two.epochs(1, {0: 0})[0]
    parts = (FetchPartition(0, 0, owner_epoch=epoch),)
    two.node_rig.connect(8)
    two.node_rig.ask(8, Fetch((FetchTopic("orders", parts),), 400, group_id="g", member_id=two.members[1]))
    two.release(1)
    two.node_rig.wait(400)
    reply: Any = two.node_rig.heard(8)[-1]
    assert reply.responses[0].partitions[0].error_code == NOT_OWNER


def test_joining_again_ends_what_a_lost_release_did_not(two: Streams) -> None:
    two.epochs(2, {2: 0, 3: 0})
    two.join(2)
    assert two.owners() == {}


def test_leaving_ends_what_the_member_owned(two: Streams) -> None:
    two.epochs(2, {2: 0})
    two.ask(2, LeaveGroup("g", (LeavingMember(two.members[2]),)))
    assert two.owners() == {}


def test_a_silent_member_owns_until_its_session_is_over(two: Streams) -> None:
    two.epochs(2, {2: 0})
    two.node_rig.wait(SESSION_MS - 1_000)
    two.beat(1)
    assert 2 in two.owners()
    two.node_rig.wait(1_000)
    assert two.owners() == {}


def test_who_misses_the_rebalance_owns_until_its_lease_is_over(two: Streams) -> None:
    two.epochs(2, {2: 0})
    two.node_rig.wait(1_000)
    two.beat(2)
    two.join(1)  # it leads, so this is a rebalance
    two.node_rig.wait(REBALANCE_MS)
    two.settle({1: {0: 0, 1: 1, 2: 0, 3: 0}})
    reply = two.claim(1, {2: 0, 3: 0})
    assert [(item.error_code, item.owner) for item in reply.items] == [(OWNED, two.members[2]), (NONE, None)]
    two.node_rig.wait(SESSION_MS - REBALANCE_MS - 1)
    two.beat(1)
    assert 2 in two.owners()
    two.node_rig.wait(1)
    assert two.epochs(1, {2: 0, 3: 0}) == {2: 2, 3: 1}


def test_grants_and_epochs_outlive_a_crash_and_leases_begin_anew(two: Streams) -> None:
    two.epochs(1, {0: 0})
    two.epochs(2, {2: 0})
    two.release(1)
    disk: SimDisk = two.node_rig.disk
    disk.crash()
    after = NodeRig(disk)
    again = Streams(after)
    again.members, again.generation = two.members, two.generation
    for number in (1, 2):
        after.connect(number)
    assert set(again.owners()) == {2}
    assert again.epochs(1, {0: 0}) == {0: 2}
    after.wait(SESSION_MS)
    assert again.owners() == {}


def test_grants_and_epochs_outlive_a_clean_stop(two: Streams) -> None:
    two.epochs(1, {0: 0})
    two.epochs(2, {2: 0})
    two.release(1)
    two.node_rig.step(Stopping())
    assert two.node_rig.store.close(two.node_rig.node.snapshots())
    after = NodeRig(two.node_rig.disk)
    assert after.node.loads.progress().from_snapshots > 0
    again = Streams(after)
    again.members, again.generation = two.members, two.generation
    after.connect(1)
    assert set(again.owners()) == {2}
    assert again.epochs(1, {0: 0}) == {0: 2}


def test_an_owner_that_is_no_member_gets_a_full_lease_after_a_crash(two: Streams) -> None:
    two.epochs(2, {2: 0})
    two.join(1)
    two.node_rig.wait(REBALANCE_MS)
    two.settle({1: {0: 0, 1: 1, 2: 0, 3: 0}})
    two.node_rig.disk.crash()
    after = NodeRig(two.node_rig.disk)
    again = Streams(after)
    again.members, again.generation = two.members, two.generation
    after.connect(1)
    after.wait(SESSION_MS - 1)
    again.beat(1)
    assert 2 in again.owners()
    after.wait(1)
    again.beat(1)
    assert again.owners() == {}


def test_what_the_log_has_no_room_for_ends_when_it_has(two: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    two.epochs(2, {2: 0})
    with monkeypatch.context() as full:
        full.setattr(two.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        two.ask(2, LeaveGroup("g", (LeavingMember(two.members[2]),)))
        two.node_rig.wait(500)
        assert 2 in two.owners()
    two.node_rig.wait(1_000)
    assert two.owners() == {}


def test_a_deleted_group_takes_its_registry_along(two: Streams) -> None:
    two.epochs(1, {0: 0})
    for number in (1, 2):
        two.ask(number, LeaveGroup("g", (LeavingMember(two.members[number]),)))
    assert two.ask(1, DeleteGroups(("g",))).results[0].error_code == NONE
    assert two.node_rig.node.core.find("g")[1] is None
    two.node_rig.disk.crash()
    assert NodeRig(two.node_rig.disk).node.core.find("g")[1] is None

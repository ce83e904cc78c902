"""A static member's restart is one small record, however large its group, and a start reads it as it was lived."""

from typing import Any

from coordinator.groups.classic import applying
from coordinator.groups.classic.group_states import GroupSettings
from coordinator.groups.classic.state import ClassicGroup
from coordinator.node.events import Call, Stopping
from coordinator.records.records import GroupMetadata, MemberRecord, MemberReplaced
from partition_log.store.log_store import StoreLimits
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
)
from tests.groups.checks import check_same
from tests.node.node_rig import NodeRig

ASKED = 3


def joining(number: int, metadata: bytes = b"v") -> JoinGroup:
    protocols = (JoinProtocol("range", metadata),)
    return JoinGroup("g", 1_800_000, "", "consumer", protocols, 300_000, f"instance-{number}")


def ask(rig: NodeRig, message: Any) -> Any:
    rig.replied.pop(ASKED, None)
    return rig.ask_inside(message, ASKED)


def stable(members: int) -> NodeRig:
    """A group of so many static members, each with its number for an assignment."""
    settings: Any = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 1_000}
    rig = NodeRig(limits=StoreLimits(), **settings)
    for number in range(members):
        rig.step(Call(100 + number, joining(number)))
    for _ in range(3):
        rig.wait(1_000)
    leader = rig.replied[100]
    assert isinstance(leader, JoinGroupReply)
    assert leader.leader == leader.member_id
    given = tuple(SyncGroupAssignment(m.member_id, (m.group_instance_id or "").encode() * 20) for m in leader.members)
    synced = SyncGroup("g", leader.generation_id, leader.member_id, None, "consumer", "range", given)
    assert ask(rig, synced).error_code is ErrorCode.NONE
    return rig


def group_of(rig: NodeRig) -> ClassicGroup:
    return rig.node.core.directory["g"].classic


def restarted(rig: NodeRig) -> NodeRig:
    rig.disk.crash()
    return NodeRig(rig.disk, limits=StoreLimits(), offsets_topic_num_partitions=1)


def test_a_restart_writes_as_much_in_a_large_group_as_in_a_small_one() -> None:
    written = {}
    for members in (2, 300):
        rig = stable(members)
        before = rig.store.position
        assert ask(rig, joining(1)).error_code is ErrorCode.NONE
        written[members] = rig.store.position - before
    assert max(written.values()) < 1_100


def test_after_a_crash_the_new_id_has_the_old_ones_place_and_assignment() -> None:
    rig = stable(5)
    first = ask(rig, joining(0))  # the leader
    again = ask(rig, joining(0, b"v2"))
    other = ask(rig, joining(3))
    assert first.error_code is again.error_code is other.error_code is ErrorCode.NONE
    live = group_of(rig)
    instances = [member.group_instance_id for member in live.members.values()]
    assert instances == [f"instance-{number}" for number in range(5)]
    restarted_rig = restarted(rig)
    check_same(rig.node.core.shards[0], restarted_rig.node.core.shards[0])
    loaded = group_of(restarted_rig)
    assert list(loaded.members) == list(live.members)
    assert loaded.leader == live.leader == again.member_id
    member = loaded.members[again.member_id]
    assert (member.assignment, member.protocols[0].metadata) == (b"instance-0" * 20, b"v2")
    assert first.member_id not in loaded.members
    told = ask(restarted_rig, Heartbeat("g", loaded.generation_id, other.member_id, "instance-3"))
    assert told.error_code is ErrorCode.NONE


def test_a_clean_stop_keeps_it_in_the_snapshot() -> None:
    rig = stable(3)
    new = ask(rig, joining(2))
    rig.step(Stopping())
    rig.store.close(rig.node.snapshots())
    again = NodeRig(rig.disk, limits=StoreLimits(), offsets_topic_num_partitions=1)
    assert list(group_of(again).members)[2] == new.member_id


def test_a_replacement_that_the_log_refuses_changes_nothing() -> None:
    rig = stable(3)
    before = list(group_of(rig).members)
    rig.store.disk_full = True
    assert ask(rig, joining(1)).error_code is ErrorCode.NOT_COORDINATOR
    assert list(group_of(rig).members) == before
    rig.store.disk_full = False
    assert ask(rig, joining(1)).error_code is ErrorCode.NONE


LINE = MemberRecord("old", "i", "c", "/h", 1, 2, b"s", b"a")
GROUP = GroupMetadata("g", "consumer", 4, "range", "old", 7, (LINE, MemberRecord("m", None, "c", "/h", 1, 2, b"", b"")))


def loaded(*records: MemberReplaced) -> ClassicGroup:
    group = ClassicGroup("g", GroupSettings())
    applying.apply(group, GROUP, live=False)
    for record in records:
        applying.replace_member(group, record)
        group.check()
    return group


def replaced(generation_id: int = 4, instance_id: str = "i") -> MemberReplaced:
    return MemberReplaced("g", instance_id, generation_id, "new", "c2", "/h2", 3, 5, b"t")


def test_a_record_takes_the_instances_place_whichever_id_it_had() -> None:
    group = loaded(replaced())
    assert (list(group.members), group.leader, group.static_members) == (["new", "m"], "new", {"i": "new"})
    assert group.stored is not None
    assert group.stored.members[0] == MemberRecord("new", "i", "c2", "/h2", 3, 5, b"t", b"a")
    assert group.stored.leader == "new"


def test_a_record_of_another_generation_or_instance_is_overtaken() -> None:
    for record in (replaced(3), replaced(5), replaced(instance_id="j")):
        assert loaded(record).stored == GROUP
    fresh = ClassicGroup("g", GroupSettings())
    applying.replace_member(fresh, replaced())
    assert fresh.stored is None

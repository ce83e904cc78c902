"""DescribeGroups with facts: who is waited for, who was heard when, on which connection."""

from typing import Any

from coordinator.facts.connection_facts import with_connection
from coordinator.node.events import Ended, Lost, Received
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListNotes,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.node import Hello
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.node_rig import NodeRig

METADATA = encode_subscription(Subscription(("orders",)))
ASKING = 9


def join(node_rig: NodeRig, number: int, member_id: str = "", **more: Any) -> str:
    """Join and return the member id, whatever the group does."""
    request = JoinGroup(
        "g", 10_000, member_id, "consumer", (JoinProtocol("range", METADATA), JoinProtocol("sticky", b"")), 30_000,
        wants_member_id_first=False, **more,
    )  # fmt: skip
    replies = [reply for reply in node_rig.ask(number, request) if isinstance(reply, JoinGroupReply)]
    return replies[-1].member_id if replies else ""


class Rig:
    """Two members, `first` and `second`, in a Stable group."""

    def __init__(self) -> None:
        self.node_rig = NodeRig()
        self.node_rig.make_topic()
        self.node_rig.connect(ASKING)
        for number, name in ((1, "first"), (2, "second")):
            self.node_rig.connect_from(number, f"10.0.0.{number}", 40_000 + number)
            self.node_rig.ask(number, Hello(name, "1.2"))
        self.one = join(self.node_rig, 1)
        self.sync(1, self.one, 1)
        join(self.node_rig, 2)
        self.node_rig.wait(2_000)
        join(self.node_rig, 1, self.one)
        (joined,) = [reply for reply in self.node_rig.heard(2) if isinstance(reply, JoinGroupReply)]
        self.two = joined.member_id
        self.sync(2, self.two, 2)
        self.sync(1, self.one, 2)
        self.node_rig.heard(2)

    def sync(self, number: int, member_id: str, generation: int) -> None:
        shares = (SyncGroupAssignment(member_id, b""),) if number == 1 else ()
        self.node_rig.ask(number, SyncGroup("g", generation, member_id, assignments=shares))

    def group(self) -> DescribedGroup:
        (reply,) = self.node_rig.ask(ASKING, DescribeGroups(("g",), with_facts=True))
        (group,) = reply.groups  # type: ignore[attr-defined]
        assert isinstance(group, DescribedGroup)
        return group

    def member(self, member_id: str) -> DescribedMember:
        (found,) = [member for member in self.group().members if member.member_id == member_id]
        return found

    def notes(self) -> Any:
        (reply,) = self.node_rig.ask(ASKING, ListNotes("g"))
        return reply.notes  # type: ignore[attr-defined]


def test_a_member_is_shown_with_its_client_and_its_times() -> None:
    rig = Rig()
    rig.node_rig.wait(1_000)
    rig.node_rig.ask(2, Heartbeat("g", 2, rig.two))
    rig.node_rig.wait(3_000)

    member = rig.member(rig.two)

    assert (member.client_id, member.client_host, member.client_port) == ("second", "/10.0.0.2", 40_002)
    assert (member.client_software_version, member.listener) == ("1.2", "native")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 30_000)
    assert (member.heard_ago_ms, member.session_left_ms) == (3_000, 7_000)
    assert (member.is_connected, member.disconnected_ms) == (True, -1)
    assert (member.topics, member.protocols) == (("orders",), ("range", "sticky"))
    assert (member.waiting, member.committed_ago_ms) == ("", -1)


def test_a_commit_is_heard_and_told() -> None:
    rig = Rig()
    rig.node_rig.wait(4_000)
    rig.node_rig.ask(1, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 5),)),), 2, rig.one))
    rig.node_rig.wait(500)

    member = rig.member(rig.one)

    assert (member.committed_ago_ms, member.heard_ago_ms) == (500, 500)


def test_who_holds_up_a_join_is_named_while_it_does() -> None:
    rig = Rig()
    rig.node_rig.connect_from(3, "10.0.0.3", 40_003)
    join(rig.node_rig, 3)
    join(rig.node_rig, 1, rig.one)
    rig.node_rig.wait(4_000)
    rig.node_rig.ask(2, Heartbeat("g", 2, rig.two))

    group = rig.group()

    assert (group.phase, group.phase_ms, group.phase_left_ms) == ("join", 4_000, 26_000)
    assert group.waiting_for == (rig.two,)
    assert group.limited_by in {member.member_id for member in group.members}
    assert (rig.member(rig.one).waiting, rig.member(rig.one).waiting_ms) == ("join", 4_000)
    assert (rig.member(rig.two).waiting, rig.member(rig.two).heard_ago_ms) == ("", 0)


def test_who_holds_up_a_sync_is_named_the_leader_first() -> None:
    rig = Rig()
    rig.node_rig.ask(1, LeaveGroup("g", (LeavingMember(rig.one),)))
    rig.node_rig.wait(1_000)
    join(rig.node_rig, 2, rig.two)
    join(rig.node_rig, 1)
    join(rig.node_rig, 2, rig.two)
    rig.node_rig.wait(1_500)

    group = rig.group()

    assert group.phase == "sync"
    assert (group.phase_ms, group.phase_left_ms) == (1_500, 28_500)
    assert group.waiting_for[0] == group.leader
    assert len(group.waiting_for) == 2


def test_a_killed_member_is_told_from_a_slow_one_within_its_session() -> None:
    rig = Rig()
    rig.node_rig.wait(1_000)
    rig.node_rig.step(Lost(2))
    rig.node_rig.wait(1_500)

    member = rig.member(rig.two)

    assert (member.is_connected, member.disconnected_ms, member.heard_ago_ms) == (False, 1_500, 2_500)
    assert member.session_left_ms == 7_500
    assert (member.client_host, member.client_port) == ("/10.0.0.2", 40_002)


def test_a_member_whose_process_was_killed_has_a_closed_connection() -> None:
    """The kernel of a killed process ends the connection; the node closes its side, and the edge reports no loss."""
    rig = Rig()
    rig.node_rig.wait(1_000)
    rig.node_rig.step(Ended(2))
    rig.node_rig.wait(1_500)

    assert (rig.member(rig.two).is_connected, rig.member(rig.two).disconnected_ms) == (False, 1_500)


def test_a_member_whose_connection_broke_the_protocol_has_a_closed_connection() -> None:
    rig = Rig()
    rig.node_rig.wait(1_000)
    rig.node_rig.step(Received(2, b"\xc1" * 64))
    assert 2 in rig.node_rig.closed
    rig.node_rig.wait(700)

    assert (rig.member(rig.two).is_connected, rig.member(rig.two).disconnected_ms) == (False, 700)


def test_a_member_heard_on_another_connection_counts_as_connected() -> None:
    rig = Rig()
    rig.node_rig.step(Lost(2))
    rig.node_rig.wait(1_000)
    rig.node_rig.connect(4)
    rig.node_rig.ask(4, Heartbeat("g", 2, rig.two))

    assert rig.member(rig.two).is_connected is True


def test_facts_are_left_out_unless_asked_for() -> None:
    rig = Rig()
    (reply,) = rig.node_rig.ask(ASKING, DescribeGroups(("g",)))

    assert reply.groups[0].members[0].session_timeout_ms == -1  # type: ignore[attr-defined]


def test_a_completed_rebalance_notes_its_slowest_member_and_who_is_new() -> None:
    rig = Rig()
    last = [note for note in rig.notes() if note.kind == "completed"][-1]

    assert last.took_ms == 2_000
    assert (last.slowest.member_id, last.slowest.client_id, last.slowest.waited_ms) == (rig.one, "first", 2_000)
    assert last.joined == (rig.two,)


def test_a_member_removed_by_another_client_is_noted_with_who_removed_it() -> None:
    rig = Rig()
    rig.node_rig.connect_from(5, "10.0.0.99", 50_005)
    rig.node_rig.ask(5, Hello("stranger", ""))
    rig.node_rig.ask(5, LeaveGroup("g", (LeavingMember(rig.two, None, "tidying"),)))

    note = rig.notes()[-1]

    assert note.detail == "1 removed by stranger at 10.0.0.99: tidying"
    assert (note.origin.client_id, note.origin.client_host, note.origin.client_port) == (
        "stranger",
        "/10.0.0.99",
        50_005,
    )


def test_an_instance_that_is_taken_over_is_noted_with_its_previous_holder() -> None:
    node_rig = NodeRig()
    node_rig.make_topic()
    node_rig.connect(ASKING)
    node_rig.connect_from(1, "10.0.0.1", 40_001)
    node_rig.ask(1, Hello("old", ""))
    first = join(node_rig, 1, group_instance_id="box")
    node_rig.ask(1, SyncGroup("g", 1, first, "box", assignments=(SyncGroupAssignment(first, b""),)))
    node_rig.wait(700)
    node_rig.connect_from(2, "10.0.0.2", 40_002)
    node_rig.ask(2, Hello("new", ""))
    join(node_rig, 2, group_instance_id="box")
    (reply,) = node_rig.ask(ASKING, ListNotes("g"))

    note = reply.notes[-1]  # type: ignore[attr-defined]
    assert note.kind == "replaced"
    assert (note.previous.client_id, note.previous.client_host, note.previous.heard_ago_ms) == ("old", "/10.0.0.1", 700)
    assert (note.origin.client_id, note.origin.client_port) == ("new", 40_002)


def test_a_member_without_a_connection_since_the_load_has_no_facts_of_one() -> None:
    rig = Rig()
    loaded = DescribedMember("m", None, "app", "/10.0.0.9")
    assert with_connection(rig.node_rig.node.core, -1, loaded, rig.node_rig.now_ms) == loaded
    assert with_connection(rig.node_rig.node.core, 1, loaded, rig.node_rig.now_ms).is_connected

"""Server-balanced groups (docs/spec/client-balanced-groups.md#12): raw requests against a node."""

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.balanced import ConsumeFromMax, ConsumeFromMaxReply, PartitionsChanged, RefusedGroup
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, ListGroups, ListGroupsReply
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig, RigClient
from tests.groups.checks import balanced_of

NONE = ErrorCode.NONE
PERIOD_MS = 20_000


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig(server_balance_interval_ms=PERIOD_MS)


class Assigned:
    """A member that does what it is told, when it is asked to."""

    def __init__(self, rig: GroupRig, consumer_id: str, **fields: Any) -> None:
        self.client: RigClient = rig.started(consumer_id, mode="server", **fields)
        self.assignment_id = 0
        self.told: tuple[str, ...] | None = None

    def beat(self) -> tuple[str, ...] | None:
        """Return the keys it is told to own, if they are new."""
        said = self.client.beat(assignment_id=self.assignment_id)
        assert said.error_code is NONE
        if said.assignment is not None:
            self.told, self.assignment_id = said.assignment, said.assignment_id
        return said.assignment

    def release(self) -> None:
        for key in [one for one in self.client.grants if one not in (self.told or ())]:
            assert not self.client.unregister(int(key.rpartition(":")[2])).error_code

    def register(self) -> list[ErrorCode]:
        return [self.client.register(key).error_code for key in self.told or ()]


def keys(*numbers: int) -> tuple[str, ...]:
    return tuple(f"1:demo:{number}" for number in numbers)


def code(rig: GroupRig, consumer_id: str, **fields: Any) -> ErrorCode:
    return rig.member(consumer_id, **fields).start().error_code


def test_nothing_is_assigned_before_a_pass_and_all_after_it(rig: GroupRig) -> None:
    one = Assigned(rig, "a")
    rig.node_rig.wait(PERIOD_MS - 1)
    assert one.beat() is None
    assert one.client.register(0).error_code is ErrorCode.FORBIDDEN
    rig.node_rig.wait(1)
    assert [type(said) for said in one.client.told()] == [PartitionsChanged]
    assert one.beat() == keys(0, 1, 2, 3)
    assert one.register() == [NONE] * 4
    assert one.beat() is None, "what it has carried out is not sent again"
    assert set(rig.owners().values()) == {"a"}


def test_a_partition_is_offered_when_its_owner_has_released_it(rig: GroupRig) -> None:
    one = Assigned(rig, "a")
    rig.node_rig.wait(PERIOD_MS)
    one.beat()
    one.register()
    other = Assigned(rig, "b")
    assert other.beat() is None
    for _ in range(2):
        rig.node_rig.wait(PERIOD_MS // 2)
        one.client.beat(assignment_id=one.assignment_id)
        other.client.beat(assignment_id=other.assignment_id)
    other.client.told()
    assert (one.beat(), other.beat()) == (keys(0, 1), ()), "the owner has released nothing yet"
    assert other.client.register(2).error_code is ErrorCode.FORBIDDEN
    assert one.client.unregister(3).error_code is NONE
    assert [type(said) for said in other.client.told()] == [PartitionsChanged]
    assert (other.beat(), other.register()) == (keys(3), [NONE])
    assert one.client.unregister(2).error_code is NONE
    assert (other.beat(), other.register()) == (keys(2, 3), [NONE, NONE])
    assert list(rig.owners().values()) == ["a", "a", "b", "b"]


def test_a_member_that_keeps_what_it_is_to_release_is_its_owner_still(rig: GroupRig) -> None:
    one = Assigned(rig, "a")
    rig.node_rig.wait(PERIOD_MS)
    one.beat()
    one.register()
    other = Assigned(rig, "b")
    for _ in range(6):
        rig.node_rig.wait(PERIOD_MS // 2)
        one.beat()
        assert other.beat() in (None, ())
    assert set(rig.owners().values()) == {"a"}
    rig.node_rig.wait(SESSION_MS // 2)
    other.beat()
    rig.node_rig.wait(SESSION_MS // 2 + 1)
    assert other.beat() == keys(2, 3), "its lease is over"
    rig.node_rig.wait(PERIOD_MS)
    assert other.beat() == keys(0, 1, 2, 3)


def test_a_pass_without_a_change_assigns_and_notes_nothing(rig: GroupRig) -> None:
    one = Assigned(rig, "a")
    rig.node_rig.wait(PERIOD_MS)
    one.beat()
    one.client.told()
    notes = len(rig.node_rig.node.core.journal)
    for _ in range(3):
        rig.node_rig.wait(PERIOD_MS)
        assert one.beat() is None
    assert len(rig.node_rig.node.core.journal) == notes
    assert not one.client.told()


def test_new_partitions_are_assigned_by_the_next_pass(rig: GroupRig) -> None:
    one = Assigned(rig, "a")
    rig.node_rig.wait(PERIOD_MS)
    one.beat()
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 6),)))
    assert one.beat() is None
    rig.node_rig.wait(PERIOD_MS)
    assert one.beat() == keys(0, 1, 2, 3, 4, 5)


def test_after_a_restart_the_next_pass_assigns_the_same(rig: GroupRig) -> None:
    one, other = Assigned(rig, "a"), Assigned(rig, "b")
    rig.node_rig.wait(PERIOD_MS)
    for member in (one, other):
        member.beat()
        member.register()
    before = rig.owners()
    rig.restart()
    for member in (one, other):
        member.client.connection = rig.connection()
    for _ in range(4):  # the period is 30 s now
        assert (one.beat(), other.beat()) == (None, None), "nothing is to be released"
        rig.node_rig.wait(10_000)
    assert rig.owners() == before
    assert all(member.target is not None for member in balanced_of(rig.node_rig.node.core).members.values())


def test_one_mode_a_group_until_its_last_member_is_gone(rig: GroupRig) -> None:
    server = rig.started("a", mode="server")
    assert code(rig, "b") is ErrorCode.INCONSISTENT_MODE
    assert code(rig, "b", topics=("demo",), filters={"demo": ("x",)}) is ErrorCode.INCONSISTENT_MODE, "424 is first"
    rig.started("c", group_id="h")
    assert code(rig, "d", group_id="h", mode="server") is ErrorCode.INCONSISTENT_MODE
    offers = (JoinProtocol("range", b"\0\0\0\0\0\0"),)
    joined = rig.node_rig.ask_inside(
        JoinGroup("g", SESSION_MS, protocol_type="consumer", protocols=offers, wants_member_id_first=False)
    )
    assert isinstance(joined, JoinGroupReply) and joined.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    server.leave()
    assert code(rig, "b") is NONE
    assert rig.view().mode == "client"


def test_what_does_not_fit_the_mode_is_refused(rig: GroupRig) -> None:
    assert code(rig, "a", mode="server", source_count=2, node_id=0) is ErrorCode.BAD_REQUEST
    assert code(rig, "a", mode="other") is ErrorCode.BAD_REQUEST


def test_tools_see_the_mode(rig: GroupRig) -> None:
    rig.started("a", mode="server")
    assert rig.view().mode == "server"
    listed = rig.node_rig.ask_inside(ListGroups())
    assert isinstance(listed, ListGroupsReply)
    assert [(one.group_id, one.group_type) for one in listed.groups] == [("g", "server-balanced")]


def test_members_of_a_server_balanced_group_are_not_sent_to_the_end(rig: GroupRig) -> None:
    rig.started("a", mode="server")
    reply = rig.node_rig.ask_inside(ConsumeFromMax(("g",), "op"))
    assert isinstance(reply, ConsumeFromMaxReply)
    text = "g is server-balanced, not client-balanced"
    assert reply.refused == (RefusedGroup("g", ErrorCode.INCONSISTENT_MODE, text),)


def test_an_outage_moves_no_other_partition(rig: GroupRig) -> None:
    one, other = Assigned(rig, "a"), Assigned(rig, "b")
    rig.node_rig.wait(PERIOD_MS)
    for member in (one, other):
        member.beat()
        member.register()
    assert (one.told, other.told) == (keys(0, 2), keys(1, 3))
    rig.node_rig.store.damaged["demo-0"] = "torn"
    rig.node_rig.make_topic("other", 1)  # now the node looks at its topics again
    one.client.unregister(0)
    rig.node_rig.wait(PERIOD_MS)
    assert (one.beat(), other.beat()) == (keys(2), None)

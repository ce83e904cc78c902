"""Holds on groups at a node: a deploy is one rebalance, nobody is alarmed, and no target is computed meanwhile. What a
classic group does in a hold is in tests/transcripts/13_holds.txt."""

from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.balanced import StartMember
from protocol.messages.groups import DescribedGroup, DescribeGroups, HoldGroup, HoldGroupReply, ListAudit, ListNotes
from tests.node.consumer_rig import Rig, told
from tests.node.operated import DiagnosisRig

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OPERATOR = 1


def running(session_ms: int = 45_000) -> DiagnosisRig:
    """A node with a Stable group of three members, and an operator."""
    node_rig = DiagnosisRig()
    node_rig.connect(OPERATOR)
    for number, host in enumerate(HOSTS):
        node_rig.member("g", f"app-{number}", host, session_ms=session_ms)
    node_rig.run(8_000)
    return node_rig


def described(node_rig: DiagnosisRig) -> DescribedGroup:
    (reply,) = node_rig.ask(OPERATOR, DescribeGroups(("g",), with_facts=True))
    (group,) = reply.groups  # type: ignore[attr-defined]
    assert isinstance(group, DescribedGroup)
    return group


def rebalances(node_rig: DiagnosisRig) -> list[str]:
    (reply,) = node_rig.ask(OPERATOR, ListNotes("g"))
    return [note.cause for note in reply.notes if note.kind == "rebalance"]  # type: ignore[attr-defined]


def deploy(node_rig: DiagnosisRig) -> None:
    """Restart the members, one every 10 s."""
    for number, host in enumerate(HOSTS):
        old = next(one for one in node_rig.members if one.name == f"app-{number}")
        old.close()
        node_rig.run(5_000)
        node_rig.member("g", f"app-{number}", host)
        node_rig.run(5_000)


async def test_a_deploy_in_a_hold_is_one_rebalance_and_raises_no_alarm() -> None:
    node_rig = running()
    before = rebalances(node_rig)
    node_rig.ask(OPERATOR, HoldGroup("g", 90_000, 3))

    for number, host in enumerate(HOSTS):
        next(one for one in node_rig.members if one.name == f"app-{number}").close()
        node_rig.run(5_000)
        assert await node_rig.problems() == [], "an old one is gone"
        node_rig.member("g", f"app-{number}", host)
        node_rig.run(15_000)
        assert await node_rig.problems() == [], "a new one waits"

    group = described(node_rig)
    assert (group.group_state, group.phase, group.hold_left_ms, len(group.members)) == ("Stable", "", -1, 3)
    assert len(rebalances(node_rig)) == len(before) + 1


def test_the_same_deploy_without_a_hold_is_several() -> None:
    node_rig = running()
    before = rebalances(node_rig)
    deploy(node_rig)
    assert len(rebalances(node_rig)) >= len(before) + 5


def test_the_hold_and_what_it_waits_for_are_described() -> None:
    node_rig = running()
    assert described(node_rig).hold_left_ms == -1
    node_rig.ask(OPERATOR, HoldGroup("g", 90_000, 3))
    node_rig.members[0].close()
    node_rig.member("g", "new", "10.0.0.9")
    node_rig.run(10_000)

    group = described(node_rig)

    assert (group.phase, group.waiting_for, group.limited_by) == ("hold", (), "")
    assert (group.hold_left_ms, group.hold_until_members, group.hold_joined) == (80_000, 3, 1)
    assert group.phase_left_ms == 80_000
    assert [one.waiting for one in group.members] == ["", "", "join"]


def test_members_read_and_commit_while_a_rebalance_is_held() -> None:
    node_rig = running()
    node_rig.ask(OPERATOR, HoldGroup("g", 60_000))
    node_rig.members[0].close()
    node_rig.run(50_000)
    stayed = node_rig.members[0]
    generation = stayed.generation
    stayed.commit(5, 1)
    assert generation > 0
    node_rig.run(2_000)
    assert node_rig.node.core.find("g")[0].offsets.get("g", "orders", 1).offset == 5  # type: ignore[union-attr]
    node_rig.run(20_000)
    assert stayed.generation == generation + 1


def test_a_hold_is_audited_with_its_sender() -> None:
    node_rig = running()
    node_rig.ask(OPERATOR, HoldGroup("g", 60_000))
    node_rig.ask(OPERATOR, HoldGroup("g", 0))
    node_rig.ask(OPERATOR, HoldGroup("g", 0))
    (reply,) = node_rig.ask(OPERATOR, ListAudit())
    acts = [(one.note.act, one.note.origin is not None) for one in reply.notes]  # type: ignore[attr-defined]
    assert acts == [("hold", True), ("release", True)], "a release of a group that is not held is none"


# ---------------------------------------------------------------------------------------------- server-driven groups


def held(**fields: Any) -> Rig:
    """A group whose member A has all of T, held."""
    rig = Rig()
    rig.join("A", "T")
    reply = rig.ask(HoldGroup("g", **{"for_ms": 60_000, **fields}))
    assert reply.error_code is ErrorCode.NONE
    return rig


def epochs(rig: Rig) -> tuple[int, int]:
    group = rig.describe()
    return group.group_epoch, group.assignment_epoch


def test_no_target_is_computed_while_a_server_driven_group_is_held() -> None:
    rig = held()
    rig.join("B", "T")
    rig.join("C", "T")
    assert epochs(rig) == (4, 2)
    assert rig.beat("A", 2).assignment is None, "it keeps what it has"
    rig.node_rig.wait(15_001)
    for name in "ABC":
        rig.beat(name, 2)
    rig.node_rig.wait(44_998)
    assert epochs(rig) == (4, 2)
    rig.node_rig.wait(1)
    assert told(rig, rig.beat("A", 2)) == {rig.id_of("T"): (0, 1)}
    assert epochs(rig) == (4, 4)


def test_members_that_came_end_the_hold_of_a_server_driven_group() -> None:
    rig = held(until_members=2)
    rig.join("B", "T")
    rig.beat("B", 2)
    assert epochs(rig) == (3, 2)
    rig.join("C", "T")
    rig.beat("A", 2)
    assert epochs(rig) == (4, 4)


def test_a_server_driven_group_is_released() -> None:
    rig = held()
    rig.join("B", "T")
    rig.ask(HoldGroup("g", 0))
    rig.beat("A", 2)
    assert epochs(rig) == (3, 3)


def test_a_member_that_comes_and_goes_does_not_count() -> None:
    rig = held(until_members=2)
    rig.join("B", "T")
    rig.beat("B", -1)
    rig.join("C", "T")
    assert epochs(rig)[1] == 2
    reply = rig.ask(DescribeGroups(("g",), with_facts=True))
    (group,) = reply.groups
    assert (group.hold_left_ms, group.hold_until_members, group.hold_joined) == (60_000, 2, 1)


def test_a_client_balanced_group_is_not_held() -> None:
    node_rig = DiagnosisRig()
    node_rig.connect(OPERATOR)
    node_rig.ask(OPERATOR, StartMember("g", "c", ("orders",), consume_position="first", session_timeout_ms=10_000))
    (reply,) = node_rig.ask(OPERATOR, HoldGroup("g", 1_000))
    assert isinstance(reply, HoldGroupReply)
    assert reply.error_code is ErrorCode.INVALID_REQUEST
    assert "choose their partitions themselves" in reply.error_message

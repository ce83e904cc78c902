"""Upgrades of classic groups that are planned in slices: what happens between two of these."""

from typing import Any

import pytest

from coordinator.groups.classic.group_states import GroupState
from coordinator.node.events import Woke
from coordinator.runtime.group import GroupKind
from coordinator.runtime.kinds import classic_reading, conversions
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import DeleteGroups, Heartbeat, LeaveGroup, LeavingMember
from tests.node.consumer_rig import Rig
from tests.node.test_conversions import classic_pair

JOINED, LATER = 400, 401
REJOIN = 27


@pytest.fixture
def in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any group is large, and each member or record is a slice."""
    monkeypatch.setattr(conversions, "AT_ONCE", 0)
    for module in (classic_reading, conversions):
        monkeypatch.setattr(module, "A_PIECE", 1)
    monkeypatch.setattr(classic_reading, "_READ_US", 10_000)
    monkeypatch.setattr(conversions, "_RECORD_US", 10_000)


def begin(rig: Rig, member_id: str = "A", call: int = JOINED) -> None:
    """Let a member of the other protocol join; not all of the work is done."""
    request = ConsumerGroupHeartbeat("g", member_id, 0, None, None, 60_000, ("T",), topic_partitions=())
    rig.node_rig.ask_inside(request, call)
    rig.node_rig.step(Woke())
    assert call not in rig.node_rig.replied and rig.group.kind is GroupKind.CLASSIC


def end(rig: Rig, call: int = JOINED) -> Any:
    """Finish the work; the reply to the join."""
    rig.ask(Heartbeat("g", -1, "nobody"))
    return rig.node_rig.replied[call]


def test_members_are_served_while_a_large_group_is_planned() -> None:
    rig = Rig()
    names = [f"c{number}" for number in range(conversions.AT_ONCE + 1)]
    rig.form_classic({"c0": {"T": (0, 1, 2, 3)}, **{name: {} for name in names[1:]}})
    begin(rig)
    assert rig.node_rig.ask_inside(Heartbeat("g", 1, rig.ids["c0"])).error_code is ErrorCode.NONE  # type: ignore[union-attr]
    assert end(rig).member_epoch > 0
    assert rig.group.kind is GroupKind.CONSUMER
    assert len(rig.describe().members) == len(names) + 1
    assert rig.heartbeat(rig.ids["c0"], 1) == REJOIN
    rig.restart()
    assert len(rig.describe().members) == len(names) + 1


@pytest.mark.usefixtures("in_slices")
def test_whoever_joins_meanwhile_waits_and_joins_the_new_group() -> None:
    rig = classic_pair()
    begin(rig)
    begin(rig, "B", LATER)
    assert [end(rig).error_code, end(rig, LATER).error_code] == [ErrorCode.NONE, ErrorCode.NONE]
    assert {one.member_id for one in rig.describe().members} == {*rig.ids.values(), "A", "B"}
    assert rig.causes.count("group upgraded") == 1


@pytest.mark.usefixtures("in_slices")
@pytest.mark.parametrize("change", ["left", "joined", "rejoined"])
def test_a_group_that_changes_meanwhile_is_planned_anew(change: str) -> None:
    rig = classic_pair()
    one, two = rig.ids.values()
    changes = {
        "left": LeaveGroup("g", (LeavingMember(one),)),
        "joined": rig.join_group(),
        "rejoined": rig.join_group(one, topics=("T", "U")),
    }
    begin(rig)
    rig.node_rig.ask_inside(changes[change], 500)
    assert end(rig).error_code is ErrorCode.NONE
    found = {member.member_id: member.subscribed_topic_names for member in rig.describe().members}
    assert found.pop("A") == found.pop(two) == ("T",)
    assert found.pop(one, ()) == {"left": (), "joined": ("T",), "rejoined": ("T", "U")}[change]
    assert len(found) == (change == "joined")


@pytest.mark.usefixtures("in_slices")
def test_a_group_that_is_emptied_meanwhile_has_the_newcomer_alone() -> None:
    rig = classic_pair()
    begin(rig)
    rig.node_rig.ask_inside(LeaveGroup("g", tuple(map(LeavingMember, rig.ids.values()))), 500)
    assert rig.group.classic.state is GroupState.EMPTY
    assert end(rig).error_code is ErrorCode.NONE
    assert [one.member_id for one in rig.describe().members] == ["A"]


@pytest.mark.usefixtures("in_slices")
def test_a_group_that_is_deleted_meanwhile_is_found_anew() -> None:
    rig = classic_pair()
    begin(rig)
    rig.node_rig.ask_inside(LeaveGroup("g", tuple(map(LeavingMember, rig.ids.values()))), 500)
    rig.node_rig.ask_inside(DeleteGroups(("g",)), 501)
    told = end(rig)
    assert told.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE and "meanwhile" in told.error_message


@pytest.mark.usefixtures("in_slices")
def test_a_refusal_after_some_slices_is_answered_to_all_who_wait() -> None:
    rig = Rig()
    rig.form_classic({"c1": {"T": (0, 1)}, **{f"c{number}": {} for number in range(2, 9)}, "c9": {"T": (1,)}})
    begin(rig)
    begin(rig, "B", LATER)
    for call in (JOINED, LATER):
        told = end(rig, call)
        assert told.error_code is ErrorCode.GROUP_ID_NOT_FOUND and "T-1" in told.error_message
    assert rig.heartbeat(rig.ids["c1"], 1) == 0

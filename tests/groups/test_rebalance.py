from typing import get_args

import pytest

from coordinator.clock import Moment
from coordinator.groups.classic import actions, static
from coordinator.groups.classic.delayed import DelayedHeartbeat, DelayedJoin, InitialDelayedJoin
from coordinator.groups.classic.events import Client, GroupEvent, ReplaceStatic
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.rebalance import begin_rebalance, complete_join, rebalance_timeout_ms, restart_session
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import MemberReplaced
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, JoinProtocol
from protocol.session import RequestRef
from tests.groups.bench import RANGE, join
from tests.groups.checks import CountingIds

NOW = Moment(1_000, 1_700_000_000_000)


def outcome() -> Outcome:
    return Outcome(NOW, CountingIds())


def group(state: GroupState, *rebalance_ms: int, instance: str | None = None) -> ClassicGroup:
    made = ClassicGroup(
        "g", GroupSettings(), state=state, generation_id=3, protocol_type="consumer", protocol_name="range"
    )
    for number, timeout_ms in enumerate(rebalance_ms):
        made.add(Member(f"m{number}", instance and f"{instance}{number}", "c", "/h", 10_000, timeout_ms, RANGE))
    return made


def begin(made: ClassicGroup) -> Outcome:
    out = outcome()
    begin_rebalance(made, out, Cause.MEMBER_LEFT, "m9", "why")
    return out


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.DEAD])
def test_a_rebalance_under_way_does_not_begin_again_and_a_dead_group_has_none(state: GroupState) -> None:
    made = group(state)
    out = begin(made)
    assert made.state is state
    assert not (out.notes or out.watched or out.pushes)


def test_a_rebalance_begins_with_one_note_of_the_state_it_disturbed_and_one_join_to_wait_for() -> None:
    made = group(GroupState.STABLE, 20_000, 60_000, 30_000)
    out = begin(made)
    assert [(one.kind, one.cause, one.initiator, one.group_state) for one in out.notes] == [
        ("rebalance", "member left", "m9", "Stable")
    ]
    (operation,) = out.watched.values()
    assert isinstance(operation, DelayedJoin)
    assert operation.deadline_ms == NOW.monotonic_ms + 60_000, "the largest of the members' rebalance timeouts"
    assert (made.state, made.phase) == (GroupState.PREPARING, operation)


def test_out_of_empty_it_begins_with_the_initial_delay() -> None:
    made = group(GroupState.EMPTY)
    made.add(Member("m0", None, "c", "/h", 10_000, 10_000, RANGE))
    (operation,) = begin(made).watched.values()
    assert isinstance(operation, InitialDelayedJoin)
    assert (operation.deadline_ms, operation.remaining_ms) == (NOW.monotonic_ms + 3_000, 7_000)


def test_a_join_phase_that_ends_with_absent_static_members_alone_waits_on_in_the_same_generation() -> None:
    made = group(GroupState.PREPARING, 0, 20, instance="i")
    out = outcome()
    complete_join(made, out)
    (operation,) = out.watched.values()
    assert isinstance(operation, DelayedJoin)
    assert operation.deadline_ms >= NOW.monotonic_ms + 1_000, "not at once, whatever timeout they named"
    assert (made.state, made.generation_id) == (GroupState.PREPARING, 3)


@pytest.mark.parametrize(("named_ms", "counts_ms"), [(-1, 10_000), (0, 0), (5_000, 5_000)])
def test_who_names_no_rebalance_timeout_counts_with_its_session(named_ms: int, counts_ms: int) -> None:
    assert rebalance_timeout_ms(join(rebalance_timeout_ms=named_ms)) == counts_ms


def test_a_session_is_filed_anew_only_where_its_deadline_moves_nearer() -> None:
    made = group(GroupState.STABLE, 60_000)
    member = made.members["m0"]
    member.session, member.deadline_ms = DelayedHeartbeat(made, member), NOW.monotonic_ms + 9_000
    later = outcome()
    restart_session(made, member, later)
    assert member.deadline_ms == NOW.monotonic_ms + 10_000
    assert not later.watched
    member.session_timeout_ms = 6_000
    nearer = outcome()
    restart_session(made, member, nearer)
    assert list(nearer.watched.values()) == [member.session]


def test_a_heartbeat_never_brings_a_new_members_deadline_nearer() -> None:
    made = group(GroupState.STABLE, 60_000)
    member = made.members["m0"]
    member.deadline_ms = 300_000
    assert actions.extend_session(made, Heartbeat("g", 3, "m0"), 1_000) is ErrorCode.NONE
    assert member.deadline_ms == 300_000


def test_a_static_member_that_is_replaced_is_on_record_before_anything_of_it_changes() -> None:
    made = group(GroupState.STABLE, 60_000, instance="i")
    made.members["m0"].assignment, made.state_since_ms = b"A", 77
    request = join(group_instance_id="i0", protocols=(JoinProtocol("range", b"new"),), session_timeout_ms=20_000)
    out = outcome()
    static.replace_static_stable(made, ReplaceStatic(RequestRef(1, 1), request, Client("c", "/h")), out)
    (record,) = out.records
    assert isinstance(record, MemberReplaced)
    assert (record.instance_id, record.generation_id) == ("i0", made.generation_id)
    assert (record.member_id, record.subscription, record.session_timeout_ms) == ("i0-1", b"new", 20_000)
    assert list(made.members) == ["m0"] and made.members["m0"].protocols == RANGE
    assert not (out.replies or out.watched)
    assert isinstance(out.follow_ups[0], get_args(GroupEvent))


def test_causes_are_metric_labels_that_are_never_renamed() -> None:
    assert {cause.value for cause in Cause} >= {
        "member joined",
        "leader rejoined",
        "member metadata changed",
        "static member replaced",
        "member left",
        "session expired",
        "member never synced",
        "assignment could not be stored",
        "group larger than allowed",
        "member did not rejoin in time",
        "rebalance completed",
        "last member gone",
        "group deleted",
    }


def test_a_note_says_how_the_group_stood() -> None:
    made, out = group(GroupState.STABLE, 1, 2), outcome()
    note(made, out, "admin", Cause.DELETED, "someone", "because")
    (written,) = out.notes
    assert (written.generation_id, written.members, written.group_state, written.wall_ms) == (
        3,
        2,
        "Stable",
        NOW.wall_ms,
    )

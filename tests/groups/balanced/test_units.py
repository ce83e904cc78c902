"""The parts of a client-balanced group, each by itself."""

from typing import Any, cast, get_args

import msgspec
import pytest

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupSettings
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.client_balanced import members, registering, reporting
from coordinator.groups.client_balanced.applying import apply, undo
from coordinator.groups.client_balanced.checks import refuse_identity, refuse_targets
from coordinator.groups.client_balanced.delayed import DelayedBalancedLease
from coordinator.groups.client_balanced.events import (
    BalancedAppendFailed,
    BalancedEvent,
    LeaseOverdue,
    MetaMade,
    PartitionOffsets,
    Register,
    Start,
)
from coordinator.groups.client_balanced.guards import filters_of, replaced_by, topics_of
from coordinator.groups.client_balanced.notes import BalancedCause
from coordinator.groups.client_balanced.state import MAY_BECOME, BalancedGroup, BalancedGroupMember, BalancedState
from coordinator.groups.client_balanced.table import TABLE, answer, handle
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Owners
from coordinator.groups.table import Path, Refusal, ignore, reject
from coordinator.handlers.describe_balanced import describe_balanced
from coordinator.handlers.fetch import room
from coordinator.handlers.fetch_completion import fetch_ready
from coordinator.handlers.fetch_registered import fetch_registered
from coordinator.handlers.table import APIS, HANDLERS
from coordinator.keys import BalancedLeaseKey
from coordinator.records.records import BalancedMember, BalancedMetadata, BalancedTombstone, Owner, Ownership
from coordinator.runtime.group import Group
from coordinator.runtime.kinds.group_kinds import append_failed
from coordinator.runtime.kinds.group_kinds import handle as handle_any
from coordinator.tools.log_dump import _of_shard
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    DescribeBalanced,
    FetchRegistered,
    MemberHeartbeat,
    PartitionState,
    RegisterItem,
    RegisterPartitions,
    RegisterPartitionsReply,
    StartMember,
    StartMemberReply,
)
from protocol.session import RequestRef
from protocol.words import counted
from tests.groups.checks import CountingIds

REF = RequestRef(1, 1)
LINE = BalancedMember("a", None, "app", "/h", None, "latest", 30_000, 1, 0)


def group(*lines: BalancedMember) -> BalancedGroup:
    made = BalancedGroup("g", Owners(), 1)
    apply(made, BalancedMetadata("g", 0, 1, 1, b"", 0, ("demo",), members=lines))
    return made


def outcome(now_ms: int = 0) -> Outcome:
    return Outcome(Moment(now_ms, now_ms), CountingIds())


def is_nothing(out: Outcome) -> bool:
    return not (out.records or out.replies or out.notes or out.watched or out.pushes or out.follow_ups)


def test_every_event_has_its_row_and_the_routes_are_the_methods() -> None:
    assert {row.event for row in TABLE.on(Path.FULL)} == set(get_args(BalancedEvent))
    assert [row.event for row in TABLE.on(Path.READ_ONLY)] == [MemberHeartbeat]
    assert {api.message: api.handler for api in APIS}[FetchRegistered] is fetch_registered
    assert HANDLERS[DescribeBalanced] is describe_balanced
    assert fetch_ready.__module__ == "coordinator.handlers.fetch_completion"
    assert room.__module__ == "coordinator.handlers.fetch"


def test_nothing_is_answered_by_a_group_that_is_served_elsewhere_but_that() -> None:
    made = group(LINE)
    made.state = BalancedState.DEAD
    out = outcome()
    whole = Group("g", cast(Any, None), ClassicGroup("g", GroupSettings()), made)
    handle_any(whole, Register(REF, RegisterPartitions("g", "a", 1, ()), {}), out)
    (answered,) = out.replies
    assert answered.reply == RegisterPartitionsReply(ErrorCode.NOT_COORDINATOR)
    assert answer(made, MemberHeartbeat("g", "a", 1), 0) is ErrorCode.NOT_COORDINATOR
    out = outcome()
    handle(made, LeaseOverdue("g", "a"), out)
    assert is_nothing(out)


def test_a_state_moves_as_the_page_says_and_no_other_way() -> None:
    assert MAY_BECOME[BalancedState.DEAD] == {BalancedState.DEAD}
    made = group()
    made.become(BalancedState.DEAD)
    with pytest.raises(AssertionError, match="may not become"):
        made.become(BalancedState.ONLINE)


def test_a_record_keeps_what_is_soft_of_members_that_stay() -> None:
    made = group(LINE)
    made.members["a"].deadline_ms = 77
    other = msgspec.structs.replace(LINE, consumer_id="b", epoch=2)
    apply(made, BalancedMetadata("g", 0, 2, members=(msgspec.structs.replace(LINE, node_id=3), other)))
    assert (made.members["a"].deadline_ms, made.members["a"].node_id, made.members["b"].deadline_ms) == (77, 3, 0)
    made.check()


def test_a_lease_is_looked_at_again_when_somebody_was_heard_of() -> None:
    made = group(LINE)
    member = made.members["a"]
    member.deadline_ms = 500
    lease = DelayedBalancedLease(made, member)
    assert (lease.key, lease.deadline_ms, lease.is_satisfied()) == (BalancedLeaseKey("g", "a"), 500, False)
    assert lease.overdue() == LeaseOverdue("g", "a")
    out = outcome(499)
    members.expire(made, LeaseOverdue("g", "a"), out)
    assert not out.records and list(out.watched) == [BalancedLeaseKey("g", "a")]
    out = outcome(500)
    members.expire(made, LeaseOverdue("g", "a"), out)
    assert [type(one) for one in out.records] == [BalancedMetadata]
    made.members.clear()
    assert lease.is_satisfied()


def test_who_goes_owns_nothing_in_the_same_outcome() -> None:
    made = group(LINE)
    made.owners.apply(Ownership("g", "demo", 0, 4, Owner("a", -1, -1, 0, 30_000, 7)))
    out = outcome(1)
    members.expire(made, LeaseOverdue("g", "a"), out)
    ended, record = out.records
    assert ended == Ownership("g", "demo", 0, 4)
    assert isinstance(record, BalancedMetadata) and not record.members and not record.topics
    assert (record.epoch, record.meta_version) == (1, 1)
    assert [(note.cause, note.members) for note in out.notes] == [(BalancedCause.LEASE_OVER.value, 0)]


def test_without_what_is_in_memory_reading_goes_on_at_the_commit_or_where_the_grant_began() -> None:
    made = group(LINE)
    entry = Ownership("g", "demo", 0, 4, Owner("a", -1, -1, 0, 30_000, 7))
    assert made.reading(entry, -1).position == 7
    assert made.reading(entry, 9).position == 9
    assert made.reading(entry, 3).position == 7  # always_max: what is stored lies before


def test_an_operator_can_read_the_record_in_the_log() -> None:
    filters = (("t", ("f",)),)
    told = _of_shard(BalancedMetadata("g", 5, 2, 1, b"\x07", 0, ("t",), filters, 3, (LINE,), ("gone",)))
    assert (told["type"], told["group"], told["filters"], told["meta_digest"]) == (
        "balanced_group",
        "g",
        {"t": ["f"]},
        "07",
    )
    assert (told["members"][0]["consumer_id"], told["replaced"]) == ("a", ("gone",))
    assert _of_shard(BalancedTombstone("g")) == {"type": "balanced_tombstone", "group": "g"}


def test_an_append_that_fails_is_said_and_undone() -> None:
    made = group(LINE)
    request = StartMember("g", "b", ("demo",))
    failed = append_failed(Start(REF, request, "", "/h", {}, (), 1), ErrorCode.NOT_COORDINATOR)
    assert isinstance(failed, BalancedAppendFailed)
    out = outcome()
    undo(made, failed, out)
    assert [one.reply for one in out.replies] == [StartMemberReply(ErrorCode.NOT_COORDINATOR)]
    made.meta_as_of = 5
    undo(made, BalancedAppendFailed(MetaMade("g", (), 5), ErrorCode.NOT_COORDINATOR), outcome())
    assert made.meta_as_of == -1
    out = outcome(10)
    undo(made, BalancedAppendFailed(LeaseOverdue("g", "a"), ErrorCode.NOT_COORDINATOR), out)
    assert made.members["a"].deadline_ms == 1_010 and BalancedLeaseKey("g", "a") in out.watched
    with pytest.raises(AssertionError, match="appends nothing"):
        append_failed(failed, ErrorCode.NOT_COORDINATOR)


def test_one_of_the_groups_former_kind_owns_until_its_lease_is_over() -> None:
    made = group(LINE)
    made.meta = {"1:demo:0": PartitionState("1:demo:0", True)}
    made.owners.apply(Ownership("g", "demo", 0, 4, Owner("streams-1", 0, 3, 0, 30_000)))
    made.check()
    out = outcome()
    registering.register(
        made,
        Register(
            REF, RegisterPartitions("g", "a", 1, (RegisterItem("1:demo:0"),)), {"1:demo:0": PartitionOffsets(0, 0, -1)}
        ),
        out,
    )
    reply: Any = out.replies[0].reply
    assert (reply.items[0].error_code, reply.items[0].owner) == (ErrorCode.PARTITION_OCCUPIED, "streams-1")


def test_what_is_agreed_on_is_compared_without_regard_to_order_and_blanks() -> None:
    request = StartMember("g", "a", ("b", "a", "b"), {"b": (" y", "x", "x"), "a": ()})
    assert topics_of(request) == ("a", "b")
    assert filters_of(request) == (("b", ("x", "y")),)
    assert refuse_targets(request, lambda _topic: True) is None
    assert refuse_identity(request, (1, 60_000)) is None
    refusal = refuse_targets(request, lambda topic: topic == "b")
    assert refusal == Refusal(ErrorCode.TOPIC_NOT_DEPLOYED, "there is no topic a")


def test_only_the_same_instance_of_the_same_number_is_replaced() -> None:
    made = group(msgspec.structs.replace(LINE, instance_id="i", node_id=1))
    request = StartMember("g", "b", ("demo",), instance_id="i", source_count=3, node_id=1)
    found = replaced_by(made, request)
    assert isinstance(found, BalancedGroupMember) and found.consumer_id == "a"
    for changed in ({"node_id": 2}, {"instance_id": "j"}, {"instance_id": None}, {"consumer_id": "a"}):
        assert replaced_by(made, msgspec.structs.replace(request, **changed)) is None


def test_words_and_cells() -> None:
    assert (counted(1, "partition"), counted(0, "partition")) == ("1 partition", "0 partitions")
    assert reject(ErrorCode.NO_NODE).error_code is ErrorCode.NO_NODE
    assert not reporting.mismatches(group(), "a", ())
    out = outcome()
    ignore(group(), LeaseOverdue("g", "a"), out)
    assert is_nothing(out)

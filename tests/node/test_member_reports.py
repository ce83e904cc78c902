"""Reports of members on themselves, and members that are to drain."""

import pytest

from coordinator.core.member_reports import MOST_KEPT, MemberReports
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, LeaveGroup, LeavingMember, ReportedFact
from protocol.messages.reports import (
    LONGEST_FACT,
    MOST_FACTS,
    DrainMembers,
    DrainMembersReply,
    ReportMember,
    ReportMemberReply,
)
from tests.node import consumer_rig
from tests.node.test_member_facts import ASKING, Rig

BATCH = (ReportedFact("query", "orders"), ReportedFact("batch", "7"))
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def report(rig: Rig, member_id: str, facts: tuple[ReportedFact, ...] = BATCH, group: str = "g") -> ReportMemberReply:
    (reply,) = rig.node_rig.ask(2, ReportMember(group, member_id, facts))
    assert isinstance(reply, ReportMemberReply)
    return reply


def drain(rig: Rig, *member_ids: str, group: str = "g") -> list[ErrorCode]:
    (reply,) = rig.node_rig.ask(ASKING, DrainMembers(group, member_ids))
    assert isinstance(reply, DrainMembersReply)
    assert [one.member_id for one in reply.members] == list(member_ids)
    return [one.error_code for one in reply.members]


def test_a_description_has_what_a_member_said_last_and_when() -> None:
    rig = Rig()
    assert report(rig, rig.two, (ReportedFact("batch", "6"),)) == ReportMemberReply()
    assert report(rig, rig.two) == ReportMemberReply()
    rig.node_rig.wait(1_500)
    told, silent = rig.member(rig.two), rig.member(rig.one)
    assert (told.reported, told.reported_ago_ms, told.is_draining) == (BATCH, 1_500, False)
    assert (silent.reported, silent.reported_ago_ms, silent.is_draining) == ((), -1, False)


def test_a_member_that_is_to_drain_hears_it_with_each_report() -> None:
    rig = Rig()
    report(rig, rig.two)
    assert drain(rig, rig.two, rig.one, "nobody") == [ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, UNKNOWN]
    assert [report(rig, rig.two).is_draining for _ in range(2)] == [True, True]
    assert rig.member(rig.two).is_draining
    rig.node_rig.ask(2, LeaveGroup("g", (LeavingMember(rig.two),)))
    assert report(rig, rig.two) == ReportMemberReply(UNKNOWN)
    assert drain(rig, rig.two) == [UNKNOWN]


def test_who_is_no_member_reports_nothing() -> None:
    rig = Rig()
    assert report(rig, "nobody").error_code is UNKNOWN
    assert report(rig, rig.two, group="other").error_code is UNKNOWN
    assert drain(rig, rig.two, group="other") == [UNKNOWN]
    assert report(rig, rig.two, group="").error_code is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    "facts",
    [
        (ReportedFact("batch", "7"),) * (MOST_FACTS + 1),
        (ReportedFact("batch", "7" * (LONGEST_FACT + 1)),),
        (ReportedFact("b" * (LONGEST_FACT + 1), "7"),),
    ],
)
def test_too_much_is_refused_and_what_was_said_before_stays(facts: tuple[ReportedFact, ...]) -> None:
    rig = Rig()
    report(rig, rig.two)
    assert report(rig, rig.two, facts).error_code is ErrorCode.INVALID_REQUEST
    assert rig.member(rig.two).reported == BATCH


def test_members_of_a_server_driven_group_report_and_drain_as_others() -> None:
    rig = consumer_rig.Rig()
    rig.join("m", "T")
    assert rig.ask(ReportMember("g", "m", BATCH)) == ReportMemberReply()
    (answer,) = rig.ask(DrainMembers("g", ("m",))).members
    assert not answer.error_code
    (described,) = rig.ask(DescribeGroups(("g",), with_facts=True)).groups
    assert [(one.reported, one.is_draining) for one in described.members] == [(BATCH, True)]


def test_of_too_many_members_the_one_that_reported_longest_ago_is_forgotten() -> None:
    reports = MemberReports()
    for number in range(MOST_KEPT):
        reports.put("g", str(number), BATCH, number)
    reports.put("g", "0", BATCH, MOST_KEPT)
    reports.put("g", "new", BATCH, MOST_KEPT)
    assert reports.get("g", "0") is not None
    assert reports.get("g", "1") is None

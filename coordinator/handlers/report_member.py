"""Answer ReportMember and DrainMembers, which change only state in memory."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.runtime.group import Group
from protocol.errors import ErrorCode
from protocol.messages.reports import (
    LONGEST_FACT,
    MOST_FACTS,
    DrainedMember,
    DrainMembers,
    DrainMembersReply,
    ReportMember,
    ReportMemberReply,
)
from protocol.session import RequestRef


def report_member(core: Core, ref: RequestRef, message: ReportMember, found: Found, moment: Moment) -> None:
    """Keep what a member says of itself, and say whether it is to drain."""
    if found.group is None or not found.group.has_member(message.member_id):
        core.outbox.send(ref, ReportMemberReply(ErrorCode.UNKNOWN_MEMBER_ID))
    elif _is_too_much(message):
        core.outbox.send(ref, ReportMemberReply(ErrorCode.INVALID_REQUEST))
    else:
        report = core.reports.put(message.group_id, message.member_id, message.facts, moment.monotonic_ms)
        core.outbox.send(ref, ReportMemberReply(is_draining=report.is_draining))


def _is_too_much(message: ReportMember) -> bool:
    return len(message.facts) > MOST_FACTS or any(
        len(one.name) > LONGEST_FACT or len(one.text) > LONGEST_FACT for one in message.facts
    )


def drain_members(core: Core, ref: RequestRef, message: DrainMembers, found: Found, moment: Moment) -> None:
    """Have members hear with their next report that they are to drain."""
    members = tuple(
        DrainedMember(member_id, _drain(core, found.group, message.group_id, member_id))
        for member_id in message.member_ids
    )
    core.outbox.send(ref, DrainMembersReply(members=members))


def _drain(core: Core, group: Group | None, group_id: str, member_id: str) -> ErrorCode:
    if group is None or not group.has_member(member_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    report = core.reports.get(group_id, member_id)
    if report is None:
        return ErrorCode.UNSUPPORTED_VERSION
    report.is_draining = True
    return ErrorCode.NONE

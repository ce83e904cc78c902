"""Reports of members: facts from applications for operators, and operators' requests to applications."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Message, Text
from protocol.messages.groups import ReportedFact

MOST_FACTS = 32
LONGEST_FACT = 500
"""Largest number of characters of a fact's name and of its text."""


class ReportMember(Message):
    """Report named facts about a member's application for operators. They replace the previous ones, and are kept in
    memory until the member is removed. The reply says whether the member must drain."""

    group_id: GroupId
    member_id: Text
    facts: tuple[ReportedFact, ...] = ()


class ReportMemberReply(Message):
    """Reply to ReportMember. `is_draining`: an operator wants the member to read no more, to commit what it has read,
    and to leave the group for good."""

    error_code: ErrorCode = ErrorCode.NONE
    is_draining: bool = False


class DrainMembers(Message):
    """Ask members to drain, by the replies to their next reports."""

    group_id: GroupId
    member_ids: tuple[Text, ...]


class DrainedMember(Message):
    """`error_code`: UNSUPPORTED_VERSION for a member that sends no reports, and so would not get the request."""

    member_id: str
    error_code: ErrorCode = ErrorCode.NONE


class DrainMembersReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[DrainedMember, ...] = ()

"""Reports of members in descriptions of their groups."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.groups import DescribedGroup, DescribedMember


def with_reports(core: Core, described: DescribedGroup, moment: Moment) -> DescribedGroup:
    """Return the description with what the members' applications say of themselves."""

    def known(member: DescribedMember) -> DescribedMember:
        report = core.reports.get(described.group_id, member.member_id)
        if report is None:
            return member
        ago_ms = moment.monotonic_ms - report.reported_ms
        return replace(member, reported=report.facts, reported_ago_ms=ago_ms, is_draining=report.is_draining)

    return replace(described, members=tuple(map(known, described.members)))

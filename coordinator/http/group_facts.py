"""A group with the facts of its members and of its phase, as JSON. Pure."""

from typing import Final

from coordinator.http.shapes import Json
from diagnosis import people
from diagnosis.assignments import partitions_of
from diagnosis.facts import known_facts
from protocol.messages.groups import DescribedGroup, DescribedMember

_NOT_SHOWN: Final = ("members", "error_code", "error_message", "authorized_operations", "described_ms")
_BYTES: Final = ("member_metadata", "member_assignment", "target_assignment", "pending_revocation")


def group_page(group: DescribedGroup) -> Json:
    """Return a described group as JSON; what is unknown is null."""
    page = known_facts(group, without=_NOT_SHOWN)
    page["sentence"] = people.phase(group)
    page["waiting_for_sentence"] = people.waiting_for(group)
    page["hold_sentence"] = people.hold(group)
    page["members"] = [_member(group, member) for member in group.members]
    return page


def _member(group: DescribedGroup, member: DescribedMember) -> Json:
    page = known_facts(member, without=_BYTES)
    page["reported"] = {one.name: one.text for one in member.reported}
    page["partitions"] = _partitions(group, member.member_assignment)
    if group.target_epoch < 0:
        del page["member_epoch"], page["revoking_ms"]
        return page
    page["target"] = _partitions(group, member.target_assignment)
    page["to_revoke"] = _partitions(group, member.pending_revocation)
    return page


def _partitions(group: DescribedGroup, assignment: bytes) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions_of(group, assignment)]

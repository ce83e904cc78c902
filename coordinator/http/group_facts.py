"""A group with the facts of its members and of its phase, as JSON. Pure."""

from typing import Any, Final

import msgspec

from coordinator.http.shapes import Json
from diagnosis import people
from diagnosis.assignments import partitions_of
from protocol.messages.groups import DescribedGroup, DescribedMember

_BYTES: Final = ("member_metadata", "member_assignment", "target_assignment", "pending_revocation")
_UNKNOWN_IF_NEGATIVE: Final = frozenset(
    {
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "session_left_ms",
        "heard_ago_ms",
        "waiting_ms",
        "disconnected_ms",
        "client_port",
        "committed_ago_ms",
        "phase_ms",
        "phase_left_ms",
        "state_since_ms",
        "target_epoch",
        "revoking_ms",
    }
)
"""Fields that are null where a message has -1."""


def group_page(group: DescribedGroup) -> Json:
    """Return a described group as JSON; what is unknown is null."""
    page = _known(group, without=("members", "error_code", "error_message", "authorized_operations"))
    page["sentence"] = people.phase(group)
    page["waiting_for_sentence"] = people.waiting_for(group)
    page["members"] = [_member(group, member) for member in group.members]
    return page


def _member(group: DescribedGroup, member: DescribedMember) -> Json:
    page = _known(member, without=_BYTES)
    page["client_host"] = member.client_host.lstrip("/")
    page["partitions"] = _partitions(group, member.member_assignment)
    if group.target_epoch < 0:
        del page["member_epoch"], page["revoking_ms"]
        return page
    page["target"] = _partitions(group, member.target_assignment)
    page["to_revoke"] = _partitions(group, member.pending_revocation)
    return page


def _partitions(group: DescribedGroup, assignment: bytes) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions_of(group, assignment)]


def _known(message: DescribedGroup | DescribedMember, without: tuple[str, ...]) -> dict[str, Any]:
    fields = msgspec.structs.asdict(message)
    return {
        name: None if name in _UNKNOWN_IF_NEGATIVE and value < 0 else value
        for name, value in fields.items()
        if name not in without
    }

"""Notes of a client-balanced group: events of its members, in words an operator can act on."""

import enum
from typing import Unpack

from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.notes import NoteFacts, append_note
from coordinator.groups.outcome import Outcome


class BalancedCause(enum.StrEnum):
    """Causes of the notes. Add to them, never rename."""

    JOINED = "member joined"
    JOINED_AGAIN = "member joined again"
    REPLACED = "member replaced"
    LEFT = "member left"
    LEASE_OVER = "lease over"
    PARTITIONS_GONE = "partitions gone"
    ASSIGNED = "partitions assigned"
    FROM_MAX = "told to consume from the end"


def note(
    group: BalancedGroup,
    out: Outcome,
    cause: BalancedCause,
    who: str,
    detail: str,
    members: int,
    *,
    kind: str = "member",
    **facts: Unpack[NoteFacts],
) -> None:
    """Append a note; `members` is the number of members afterwards."""
    append_note(group, out, kind, cause, who, detail, group.on_record.epoch, members, **facts)

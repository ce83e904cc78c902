"""Notes of a consumer group: the reasons for its new epochs, written for operators."""

import enum
from typing import Unpack

from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.groups.notes import NoteFacts, append_note
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerMemberRecord
from protocol.messages.groups import Origin


class ConsumerCause(enum.StrEnum):
    """Causes of the notes. Add to them, never rename."""

    JOINED = "member joined"
    SUBSCRIPTION = "member subscription changed"
    TOPICS = "topics changed"
    REGEX = "regular expression resolved"
    LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    NOT_REVOKED = "member did not revoke in time"
    REPLACED = "static member replaced"
    AWAY = "static member left for a while"
    TARGET = "target assignment computed"
    NOT_REJOINED = "member did not rejoin in time"
    NOT_SYNCED = "member never synced"
    UPGRADED = "group upgraded"
    HELD = "group held"


def origin_of(line: ConsumerMemberRecord, principal: str) -> Origin:
    """Return the client of a member in the form that notes keep."""
    return Origin(line.client_id, line.client_host, principal=principal)


def note(
    group: ConsumerGroup,
    out: Outcome,
    cause: ConsumerCause,
    member_id: str,
    detail: str,
    *,
    kind: str = "epoch",
    epoch: int | None = None,
    members: int | None = None,
    **facts: Unpack[NoteFacts],
) -> None:
    """Append a note. `epoch` and `members` are those after the event; None: unchanged. The default `origin` is that of
    the initiator, if it is a member; a target has none, since the next heartbeat of any member computes it."""
    member = group.members.get(member_id)
    if member is not None and kind != "target" and facts.get("origin") is None:
        facts["origin"] = origin_of(member.subscription, member.principal or "")
    epoch = group.epoch if epoch is None else epoch
    members = len(group.members) if members is None else members
    append_note(group, out, kind, cause, member_id, detail, epoch, members, **facts)

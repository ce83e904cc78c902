"""Notes of a consumer group: the reasons for its new epochs, written for operators."""

import enum
from typing import Unpack

from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current
from coordinator.groups.consumer.subscriptions import Change
from coordinator.groups.notes import NoteFacts, append_note
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerMemberRecord, ReconciliationState
from protocol.client_text import client_text
from protocol.messages.groups import Origin, SlowestMember
from protocol.words import counted

_NAMED = 3
"""Partitions that a note names."""


class ConsumerCause(enum.StrEnum):
    """Causes of the notes. Add to them, never rename."""

    JOINED = "member joined"
    SUBSCRIPTION = "member subscription changed"
    TOPICS = "topics changed"
    REGEX = "regular expression resolved"
    LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    NOT_REVOKED = "member did not revoke in time"
    REVOKED_LATE = "member revoked late"
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


def note_late_revocation(group: ConsumerGroup, change: Change, current: Current, out: Outcome) -> None:
    """Append a note if the member's step to `current` gives up partitions later than a heartbeat interval after it was
    told to: a member that revokes at once acknowledges at once."""
    member = group.members.get(change.member_id)
    told_ms = -1 if member is None else _told_ms(member)
    waited_ms = out.moment.monotonic_ms - told_ms
    if told_ms < 0 or waited_ms <= group.settings.heartbeat_interval_ms:
        return
    kept = {(topic_id, number) for topic_id, number, _ in current.held}
    freed = [(topic_id, number) for topic_id, number, _ in change.current.held if (topic_id, number) not in kept]
    if freed:
        line = change.line
        who = client_text(line.client_id, line.client_host)
        places = [f"{group.topics.name_of(topic_id)}-{number}" for topic_id, number in freed[:_NAMED]]
        more = len(freed) - len(places)
        names = ", ".join(places) + (f" and {more} more" if more else "")
        detail = f"{counted(len(freed), 'partition')} ({names}) revoked after {waited_ms} ms: {who}"
        slowest = SlowestMember(line.member_id, line.client_id, line.client_host, waited_ms)
        note(group, out, ConsumerCause.REVOKED_LATE, line.member_id, detail, kind="revoked", slowest=slowest)


def _told_ms(member: ConsumerMember) -> int:
    """Return the time at which the member was told to revoke partitions; -1: it was not. A classic member was told to
    join again."""
    if member.current.state == ReconciliationState.UNREVOKED_PARTITIONS:
        return member.revoking_since_ms
    if member.rejoin_until_ms < 0:
        return -1
    return member.rejoin_until_ms - max(member.subscription.rebalance_timeout_ms, 0)

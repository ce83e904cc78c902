"""Notes of a consumer group: the reasons for its new epochs, written for operators."""

import enum
from typing import Unpack

from msgspec.structs import replace

from coordinator.groups.consumer.state import ConsumerGroup, Current
from coordinator.groups.consumer.subscriptions import Change
from coordinator.groups.notes import NoteFacts, append_note
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerMemberRecord, ReconciliationState
from protocol.client_text import client_text
from protocol.messages.groups import Origin, SlowestMember
from protocol.words import counted

_NAMED = 3
"""Partitions that a note names."""
_UNREVOKED = ReconciliationState.UNREVOKED_PARTITIONS


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


def origin_of(line: ConsumerMemberRecord, sender: Origin | None) -> Origin:
    """Return the client of a member in the form that notes keep. `sender`: that of its last request, if known."""
    if sender is None:
        return Origin(line.client_id, line.client_host)
    return replace(sender, client_id=line.client_id, client_host=line.client_host)


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
        facts["origin"] = origin_of(member.subscription, member.sender)
    epoch = group.epoch if epoch is None else epoch
    members = len(group.members) if members is None else members
    append_note(group, out, kind, cause, member_id, detail, epoch, members, **facts)


def note_revocation(group: ConsumerGroup, change: Change, current: Current, epoch: int, out: Outcome) -> None:
    """Append a note if the member's step to `current` gives up partitions later than a heartbeat interval after it was
    told to: a member that revokes at once acknowledges at once. Remember since when, and for which target `epoch`, it
    has others to revoke. Call it whenever the step is written."""
    member = group.members.get(change.member_id)
    if member is None:
        return
    is_told = member.current.state is _UNREVOKED or member.rejoin_until_ms >= 0
    if is_told and member.revoking is not None:
        _note_if_late(group, change, current, member.revoking, out)
    if current.state is _UNREVOKED and current.pending != member.current.pending:
        member.revoking = out.moment.monotonic_ms, epoch


def _note_if_late(
    group: ConsumerGroup, change: Change, current: Current, revoking: tuple[int, int], out: Outcome
) -> None:
    """Append the note. Those of one target fold into one, of the member that was last."""
    since_ms, epoch = revoking
    waited_ms = out.moment.monotonic_ms - since_ms
    if waited_ms <= group.settings.heartbeat_interval_ms:
        return
    kept = {(topic_id, number) for topic_id, number, _ in current.held}
    freed = [(topic_id, number) for topic_id, number, _ in change.current.held if (topic_id, number) not in kept]
    if not freed:
        return
    line = change.line
    who = client_text(line.client_id, line.client_host)
    places = [f"{group.topics.name_of(topic_id)}-{number}" for topic_id, number in freed[:_NAMED]]
    more = len(freed) - len(places)
    names = ", ".join(places) + (f" and {more} more" if more else "")
    note(
        group,
        out,
        ConsumerCause.REVOKED_LATE,
        line.member_id,
        f"{counted(len(freed), 'partition')} ({names}) revoked after {waited_ms} ms: {who}",
        kind="revoked",
        epoch=epoch,
        subject=f"revocation for epoch {epoch}",
        slowest=SlowestMember(line.member_id, line.client_id, line.client_host, waited_ms),
    )

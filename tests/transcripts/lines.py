"""Texts of events, records and replies in a transcript."""

from typing import Any

import msgspec

from coordinator.groups.classic.delayed import DelayedHeartbeat, DelayedPendingId
from coordinator.groups.classic.state import ClassicGroup
from coordinator.records.consumer_records import ConsumerRecord
from coordinator.records.records import (
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupSettingsRecord,
    GroupTombstone,
    MemberReplaced,
    Note,
    OffsetTombstone,
    Ownership,
    OwnershipTombstone,
    ShardRecord,
    TransactionEnded,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import JoinGroupMember
from purgatory.purgatory import DelayedOperation

_SHORT = {
    "member_id": "id",
    "generation_id": "generation",
    "protocol_name": "protocol",
    "group_instance_id": "instance",
}
_LEFT_OUT = ("throttle_time_ms", "wall_ms", "commit_timestamp_ms", "state_since_ms", "client_host")


def duration(ms: int) -> str:
    """Return `3 s`, or `1500 ms` where it is not whole."""
    return f"{ms} ms" if ms % 1_000 else f"{ms // 1_000} s"


def text(data: bytes) -> str:
    """Return bytes that are words as text, others as their length."""
    try:
        word = data.decode()
    except UnicodeDecodeError:
        return f"<{len(data)} bytes>"
    return word if word.isprintable() and word else f"<{len(data)} bytes>"


def operation(op: DelayedOperation[Any]) -> str:
    """Return the text of a waiting operation, without its deadline."""
    if isinstance(op, DelayedHeartbeat):
        return f"session {op.member.member_id}"
    if isinstance(op, DelayedPendingId):
        return f"pending id {op.pending.member_id}"
    return type(op).__name__


def watched(op: DelayedOperation[Any], now_ms: int) -> str:
    """Return the text of a waiting operation, with the time until its deadline."""
    return f"watch {operation(op)} for {duration(op.deadline_ms - now_ms)}"


def event(happened: Any) -> str:
    """Return the text of a delayed operation's event."""
    member_id = getattr(happened, "member_id", "")
    return f"{type(happened).__name__} {member_id}".rstrip()


def _name(member: Any) -> str:
    instance = member.group_instance_id
    return f"{member.member_id}{'' if instance is None else f'#{instance}'}"


def note(written: Note) -> str:
    """Return the text of a note."""
    by = f" by {written.initiator}" if written.initiator else ""
    return f"note {written.kind}: {written.cause}{by} ({written.detail})"


def record(appended: ShardRecord | None) -> str:
    """Return the text of an appended record."""
    if isinstance(appended, ConsumerRecord | GroupSettingsRecord):
        return f"record {appended.group_id}: {type(appended).__name__}"
    match appended:
        case GroupMetadata():
            members = " ".join(f"{_name(m)}={text(m.assignment)}" for m in appended.members)
            return (
                f"record {appended.group_id or '(no name)'}: generation={appended.generation_id} "
                f"type={appended.protocol_type or '-'} protocol={appended.protocol or '-'} "
                f"leader={appended.leader or '-'} members=[{members}]"
            )
        case GroupTombstone():
            return f"record {appended.group_id}: gone"
        case MemberReplaced():
            now = f"{appended.instance_id} is {appended.member_id}"
            return f"record {appended.group_id}: generation={appended.generation_id} {now}"
        case CommittedOffset():
            extra = f" {appended.metadata!r}" if 0 < len(appended.metadata) < 40 else ""
            at = f"{appended.group_id or '(no name)'}: {appended.topic}-{appended.partition}"
            return f"record {at}={appended.offset}{extra}"
        case OffsetTombstone():
            return f"record {appended.group_id}: {appended.topic}-{appended.partition} gone"
        case Ownership():
            owner = "nobody" if appended.owner is None else f"{appended.owner.member_id}/{appended.owner.thread}"
            return f"record {appended.group_id}: {appended.topic}-{appended.partition} @{appended.epoch} is {owner}'s"
        case OwnershipTombstone():
            return f"record {appended.group_id}: {appended.topic}-{appended.partition} was granted, forgotten"
        case BalancedMetadata():
            members = " ".join(f"{m.consumer_id}@{m.epoch}" for m in appended.members)
            return f"record {appended.group_id}: client-balanced meta={appended.meta_version} members=[{members}]"
        case BalancedTombstone():
            return f"record {appended.group_id}: was client-balanced, forgotten"
        case None:
            return "record of an unknown kind"


def marker(appended: TransactionEnded | None) -> str:
    """Return the text of a transaction's marker."""
    assert appended is not None
    return f"marker: producer {appended.producer_id} {'commits' if appended.is_committed else 'aborts'}"


def group(shown: ClassicGroup) -> str:
    """Return the group in one line."""
    members = " ".join(map(_name, shown.members.values()))
    pending = f" pending=[{' '.join(shown.pending)}]" if shown.pending else ""
    owed = f" unsynced=[{' '.join(shown.pending_sync)}]" if shown.pending_sync else ""
    return (
        f"{shown.group_id or '(no name)'} {shown.state.title} generation={shown.generation_id} "
        f"type={shown.protocol_type or '-'} protocol={shown.protocol_name or '-'} leader={shown.leader or '-'} "
        f"members=[{members}]{pending}{owed}"
    )


def message(sent: Message) -> str:
    """Return a reply or push: its kind, its error, and each field that is not at its default."""
    words = [type(sent).__name__.removesuffix("Reply")]
    if hasattr(sent, "error_code"):
        words.append(sent.error_code.name)
    words += fields(sent)
    return " ".join(words)


def fields(sent: Message) -> list[str]:
    """Return the fields to show."""
    shown = []
    for info in msgspec.structs.fields(type(sent)):
        value = getattr(sent, info.name)
        if info.name in _LEFT_OUT or info.name == "error_code" or value is None or value == info.default:
            continue
        shown.append(f"{_SHORT.get(info.name, info.name)}={_value(value)}")
    return shown


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Message):
        return _entry(value)
    return str(value) if value != "" else "''"


def _entry(entry: Message) -> str:
    if isinstance(entry, JoinGroupMember):
        return f"{_name(entry)}={text(entry.metadata)}"
    words = fields(entry)
    error = getattr(entry, "error_code", None)
    if error is not None:
        words.append(error.name)
    return " ".join(word.split("=", 1)[1] if word.startswith(("id=", "name=", "group_id=")) else word for word in words)

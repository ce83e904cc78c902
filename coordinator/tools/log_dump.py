"""Entries that `musterd log dump` prints: a log's records in words.

An entry is a mapping of plain values that makes a JSON line, or a line of text. `offset`, `timestamp_ms` and `type`
come first; what follows depends on the type.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from coordinator.accounts.records import ACCOUNTS_LOG, AccountsCorrupt, AclRecord, CredentialRecord
from coordinator.accounts.records import decode as decode_account
from coordinator.records.codec import decode, decode_marker
from coordinator.records.consumer_records import ConsumerRecord
from coordinator.records.records import (
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupSettingsRecord,
    GroupTombstone,
    LogCorrupt,
    MemberRecord,
    MemberReplaced,
    OffsetTombstone,
    Ownership,
    OwnershipTombstone,
    ShardRecord,
)
from coordinator.runtime.group_configs import CONFIGS_LOG
from coordinator.runtime.journal import decode_note
from coordinator.tasks.end_sampling import ENDS_LOG, decode_sample
from coordinator.topics.records import TOPICS_LOG, TopicsCorrupt, decode_topic
from partition_log.inspection.batch_scan import ScannedBatch
from partition_log.inspection.inspector import FramedBatch
from protocol.record_batch import BatchHeader, CorruptBatch, Record, decode_batch

NOTES_LOG, OFFSETS = "__muster_notes-0", "__consumer_offsets"
Entry = dict[str, Any]
_TEXT_BYTES = 4096
_NO_PRODUCER = -1


def entries_of(log: str, batch: ScannedBatch, *, with_values: bool = False) -> Iterator[Entry]:
    """One a record. A batch that is damaged, or does not parse, is an entry of type `damaged`."""
    if batch.header is None:
        yield _damaged(batch, batch.problem)
        return
    try:
        records = decode_batch(batch.data)
    except CorruptBatch as error:
        yield _damaged(batch, error.reason)
        return
    for record in records:
        entry: Entry = {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
        if batch.header.producer_id != _NO_PRODUCER:
            entry |= {"producer_id": batch.header.producer_id, "producer_epoch": batch.header.producer_epoch}
        try:
            described = _control(batch.header, record) or _describer(log)(record)
        except (LogCorrupt, TopicsCorrupt, AccountsCorrupt, msgspec.DecodeError, msgspec.ValidationError) as error:
            described = {"type": "unreadable", "why": str(error), **_sizes(record)}
        # Keys of credentials are nobody's to read: they would open the node to a guess of the password.
        yield entry | described | (_texts(record) if with_values and log != ACCOUNTS_LOG else {})


def frame_entry(framed: FramedBatch) -> Entry:
    """An entry of the write-ahead log: a batch and its log, or the removal of a log."""
    entry: Entry = {"wal_position": framed.position, "log": framed.log}
    batch = framed.batch
    if batch is None:
        return entry | {"type": "removed"}
    entry |= {"type": "batch", "file": batch.path, "file_position": batch.position, "offset": batch.offset}
    if batch.header is None:
        return entry | {"type": "damaged", "why": batch.problem}
    return entry | {"next_offset": batch.next_offset, "records": batch.header.record_count, "bytes": batch.size}


def text_of(entry: Mapping[str, Any]) -> str:
    """Return the entry as a line of text."""
    words = []
    for name, value in entry.items():
        if name.endswith("timestamp_ms"):
            words.append(f"{name.removesuffix('_ms')}={_time(value)}")
        elif name == "members" and isinstance(value, list):  # a note counts them
            words.append(f"members=[{'; '.join(text_of(member) for member in value)}]")
        elif name == "type":
            words.append(str(value))
        else:
            words.append(f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}")
    return " ".join(words)


def _time(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds") if wall_ms >= 0 else "-"
    except (OverflowError, ValueError):
        return str(wall_ms)


def _damaged(batch: ScannedBatch, why: str) -> Entry:
    return {"offset": batch.offset, "type": "damaged", "file": batch.path, "file_position": batch.position, "why": why}


def _control(header: BatchHeader, record: Record) -> Entry | None:
    if not header.is_control:
        return None
    marker = decode_marker(header, record.key, record.value)
    if marker is None:
        return {"type": "control", **_sizes(record)}
    kind = "commit_marker" if marker.is_committed else "abort_marker"
    return {"type": kind, "coordinator_epoch": marker.coordinator_epoch}


# -------------------------------------------------------------------------------------------------------- by the log


def _offsets(record: Record) -> Entry:
    decoded = decode(record.key, record.value)
    return {"type": "unknown", **_sizes(record)} if decoded is None else _of_shard(decoded)


def _of_shard(record: ShardRecord) -> Entry:
    if isinstance(record, CommittedOffset):
        described: Entry = {
            "type": "offset",
            "group": record.group_id,
            "topic": record.topic,
            "partition": record.partition,
            "committed_offset": record.offset,
            "leader_epoch": record.leader_epoch,
            "metadata": record.metadata,
            "commit_timestamp_ms": record.commit_timestamp_ms,
        }
        if record.expire_timestamp_ms >= 0:
            described["expire_timestamp_ms"] = record.expire_timestamp_ms
        if record.topic_id is not None:
            described["topic_id"] = record.topic_id.hex()
        return described
    if isinstance(record, OffsetTombstone):
        names = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
        return {"type": "offset_tombstone", **names}
    if isinstance(record, GroupTombstone):
        return {"type": "group_tombstone", "group": record.group_id}
    if isinstance(record, Ownership | OwnershipTombstone):
        return _grant(record)
    if isinstance(record, MemberReplaced):
        return _replaced(record)
    if isinstance(record, BalancedTombstone):
        return {"type": "balanced_tombstone", "group": record.group_id}
    if isinstance(record, GroupSettingsRecord):
        return {"type": "group_settings", "group": record.group_id, "settings": record.settings}
    if isinstance(record, ConsumerRecord):
        return _consumer(record)
    return _balanced(record) if isinstance(record, BalancedMetadata) else _group(record)


def _consumer(record: ConsumerRecord) -> Entry:
    """Show a record of a server-driven group under the name of its type."""
    names = type(record).__name__.removesuffix("Record")
    kind = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in names).lstrip("_")
    shown: Entry = msgspec.to_builtins(record, builtin_types=(bytes,))
    shown["group"] = shown.pop("group_id")
    return {"type": kind, **_as_text(shown)}


def _as_text(value: Any) -> Any:
    """Show topic ids and other bytes in hexadecimal digits."""
    if isinstance(value, dict):
        return {name: _as_text(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(one) for one in value]
    return value.hex() if isinstance(value, bytes) else value


def _grant(record: Ownership | OwnershipTombstone) -> Entry:
    names = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
    if isinstance(record, OwnershipTombstone):
        return {"type": "ownership_tombstone", **names}
    owner = None if record.owner is None else msgspec.structs.asdict(record.owner)
    return {"type": "ownership", **names, "epoch": record.epoch, "owner": owner}


def _replaced(record: MemberReplaced) -> Entry:
    described = msgspec.structs.asdict(record)
    described["subscription_bytes"] = len(described.pop("subscription"))
    return {"type": "member_replaced", "group": described.pop("group_id"), **described}


def _balanced(record: BalancedMetadata) -> Entry:
    described = msgspec.structs.asdict(record)
    described["members"] = [msgspec.structs.asdict(member) for member in record.members]
    described["filters"] = {topic: list(ones) for topic, ones in record.filters}
    described["meta_digest"] = record.meta_digest.hex()
    return {"type": "balanced_group", "group": described.pop("group_id"), **described}


def _group(record: GroupMetadata) -> Entry:
    return {
        "type": "group",
        "group": record.group_id,
        "protocol_type": record.protocol_type,
        "generation": record.generation_id,
        "protocol": record.protocol,
        "leader": record.leader,
        "state_timestamp_ms": record.state_timestamp_ms,
        "members": [_member(member) for member in record.members],
    }


def _member(member: MemberRecord) -> Entry:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription_bytes": len(member.subscription),
        "assignment_bytes": len(member.assignment),
    }


def _note(record: Record) -> Entry:
    if record.value is None:
        return {"type": "note_tombstone", "group": _text(record.key)}
    described = msgspec.to_builtins(decode_note(record.value))
    return {"type": "note", "group": described.pop("group_id"), **described}


def _sample(record: Record) -> Entry:
    described = msgspec.to_builtins(decode_sample(record.value or b""))
    return {"type": "end_sample", "group": described.pop("group_id"), **described}


def _topic(record: Record) -> Entry:
    name, topic = decode_topic(record.key, record.value)
    if topic is None:
        return {"type": "topic_tombstone", "topic": name}
    return {
        "type": "topic_deleted" if topic.is_deleted else "topic",
        "topic": name,
        "topic_id": topic.topic_id.hex(),
        "partitions": topic.partitions,
        "configs": topic.configs,
        "created_timestamp_ms": topic.created_wall_ms,
    }


def _config(record: Record) -> Entry:
    if record.value is None:
        return {"type": "config_tombstone", "of": _text(record.key)}
    return {"type": "config", "of": _text(record.key), "settings": msgspec.msgpack.decode(record.value[2:])}


def _account(record: Record) -> Entry:
    """Tell of a user or a rule, without the keys of the credential."""
    match decode_account(record.key, record.value):
        case CredentialRecord(mechanism, username, credential):
            kind = "credential_tombstone" if credential is None else "credential"
            described: Entry = {"type": kind, "user": username, "mechanism": mechanism.title}
            return described if credential is None else {**described, "iterations": credential.iterations}
        case AclRecord(acl, is_there):
            return {"type": "acl" if is_there else "acl_tombstone", **acl._asdict()}
        case _:
            return {"type": "decoy"}


def _plain(record: Record) -> Entry:
    return {"type": "record", **_sizes(record)}


_TELLERS: Mapping[str, Callable[[Record], Entry]] = {
    NOTES_LOG: _note,
    ENDS_LOG: _sample,
    TOPICS_LOG: _topic,
    CONFIGS_LOG: _config,
    ACCOUNTS_LOG: _account,
}


def _describer(log: str) -> Callable[[Record], Entry]:
    return _offsets if log.rpartition("-")[0] == OFFSETS else _TELLERS.get(log, _plain)


def _sizes(record: Record) -> Entry:
    sizes: Entry = {
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
    }
    if record.headers:
        sizes["headers"] = len(record.headers)
    return sizes


def _texts(record: Record) -> Entry:
    return {"key": _text(record.key), "value": _text(record.value)}


def _text(data: bytes | None) -> str | None:
    """Return the beginning of a text; bytes that are no UTF-8 in Python's notation."""
    return None if data is None else data[:_TEXT_BYTES].decode(errors="backslashreplace")

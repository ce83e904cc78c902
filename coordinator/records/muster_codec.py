"""Keys and values of Muster's own records, in the offsets log beside Kafka's.

Kafka does not use the version of their keys: its tools report it as unknown, and continue. A value is two bytes of
format version, then a MessagePack array (for settings, a map). `LogCorrupt` is a value that does not parse or has a
newer format: if a grant was skipped, its partition could be granted twice.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

import msgspec

from coordinator.records.records import (
    BalancedMember,
    BalancedMetadata,
    BalancedTombstone,
    GroupSettingsRecord,
    LogCorrupt,
    MemberReplaced,
    Owner,
    Ownership,
    OwnershipTombstone,
)

OWNERSHIP_KEY, BALANCED_KEY, REPLACED_KEY, SETTINGS_KEY = 0x4D01, 0x4D02, 0x4D03, 0x4D04
_FORMAT = b"\x00\x00"

OwnRecord = Ownership | OwnershipTombstone | BalancedMetadata | BalancedTombstone | MemberReplaced | GroupSettingsRecord
T = TypeVar("T")


class _Grant(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    owner: tuple[str, int, int, int, int, int] | None


class _Balanced(msgspec.Struct, frozen=True, array_like=True):
    """The fields of `BalancedMetadata` except the group's id, in its order; members have the fields of
    `BalancedMember`."""

    state_timestamp_ms: int
    epoch: int
    meta_version: int
    meta_digest: bytes
    from_max_id: int
    topics: tuple[str, ...]
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    source_count: int | None
    members: tuple[tuple[str, str | None, str, str, int | None, str, int, int, int, int], ...]
    replaced: tuple[str, ...]
    mode: str = "client"


class _Replaced(msgspec.Struct, frozen=True, array_like=True):
    """The fields of `MemberReplaced` except those of its key, in its order."""

    generation_id: int
    member_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_grant = msgspec.msgpack.Decoder(_Grant).decode
_decode_balanced = msgspec.msgpack.Decoder(_Balanced).decode
_decode_replaced = msgspec.msgpack.Decoder(_Replaced).decode
_decode_settings = msgspec.msgpack.Decoder(dict[str, str]).decode


def encode_own(record: OwnRecord) -> tuple[bytes, bytes | None]:
    """Encode key and value of the record; the value of a tombstone is None."""
    if isinstance(record, BalancedMetadata | BalancedTombstone):
        return _group_key(BALANCED_KEY, record.group_id), _balanced_value(record)
    if isinstance(record, GroupSettingsRecord):
        value = _FORMAT + _encode(record.settings) if record.settings else None
        return _group_key(SETTINGS_KEY, record.group_id), value
    if isinstance(record, MemberReplaced):
        fields = _Replaced(*msgspec.structs.astuple(record)[2:])
        return _replaced_key(record.group_id, record.instance_id), _FORMAT + _encode(fields)
    key = _ownership_key(record.group_id, record.topic, record.partition)
    if isinstance(record, OwnershipTombstone):
        return key, None
    owner = record.owner
    line = None if owner is None else msgspec.structs.astuple(owner)
    return key, _FORMAT + _encode(_Grant(record.epoch, line))


def _group_key(kind: int, group_id: str) -> bytes:
    group = group_id.encode()
    return struct.pack(">HH", kind, len(group)) + group


def _balanced_value(record: BalancedMetadata | BalancedTombstone) -> bytes | None:
    if isinstance(record, BalancedTombstone):
        return None
    fields = msgspec.structs.asdict(record)
    del fields["group_id"]
    fields["members"] = tuple([msgspec.structs.astuple(member) for member in record.members])
    return _FORMAT + _encode(_Balanced(**fields))


def _replaced_key(group_id: str, instance_id: str) -> bytes:
    group, instance = group_id.encode(), instance_id.encode()
    return struct.pack(">HH", REPLACED_KEY, len(group)) + group + len(instance).to_bytes(2, "big") + instance


def _ownership_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    head = struct.pack(">HH", OWNERSHIP_KEY, len(group))
    return head + group + len(name).to_bytes(2, "big") + name + partition.to_bytes(4, "big")


def decode_own(key: bytes, value: bytes | None) -> OwnRecord | None:
    """Decode the record; None if its key is none of Muster's. Raises LogCorrupt."""
    kind = int.from_bytes(key[:2], "big")
    if kind == OWNERSHIP_KEY:
        return _decode_ownership(key, value)
    if kind == BALANCED_KEY:
        return _decode_group(key, value)
    if kind == REPLACED_KEY:
        return _decode_replacement(key, value)
    if kind == SETTINGS_KEY:
        (group_id,), _rest = _read_key(key, texts=1, rest=0)
        return GroupSettingsRecord(group_id, {} if value is None else _read(_decode_settings, value, "settings"))
    return None


def _decode_ownership(key: bytes, value: bytes | None) -> Ownership | OwnershipTombstone:
    (group_id, topic), rest = _read_key(key, texts=2, rest=4)
    partition = int.from_bytes(rest, "big", signed=True)
    if value is None:
        return OwnershipTombstone(group_id, topic, partition)
    grant = _read(_decode_grant, value, "a grant")
    return Ownership(group_id, topic, partition, grant.epoch, None if grant.owner is None else Owner(*grant.owner))


def _decode_group(key: bytes, value: bytes | None) -> BalancedMetadata | BalancedTombstone:
    (group_id,), _rest = _read_key(key, texts=1, rest=0)
    if value is None:
        return BalancedTombstone(group_id)
    read = _read(_decode_balanced, value, "a client-balanced group")
    fields = msgspec.structs.asdict(read)
    fields["members"] = tuple([BalancedMember(*member) for member in read.members])
    return BalancedMetadata(group_id, **fields)


def _decode_replacement(key: bytes, value: bytes | None) -> MemberReplaced | None:
    (group_id, instance_id), _rest = _read_key(key, texts=2, rest=0)
    if value is None:
        return None  # every such record is replaced, never deleted
    read = _read(_decode_replaced, value, "a replaced member")
    return MemberReplaced(group_id, instance_id, *msgspec.structs.astuple(read))


def _read_key(key: bytes, *, texts: int, rest: int) -> tuple[list[str], bytes]:
    found, at = [], 2
    try:
        for _ in range(texts):
            end = at + 2 + int.from_bytes(key[at : at + 2], "big")
            found.append(key[at + 2 : end].decode())
            at = end
    except UnicodeDecodeError as error:
        raise LogCorrupt(f"not UTF-8: {error}") from None
    if len(key) != at + rest:
        raise LogCorrupt(f"a key of our own has {len(key)} bytes, where {at + rest} must be")
    return found, key[at:]


def _read(decode: Callable[[bytes], T], value: bytes, what: str) -> T:
    if value[:2] != _FORMAT:
        raise LogCorrupt(f"{what} of unknown format {value[:2].hex()}")
    try:
        return decode(value[2:])
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"{what}: {error}") from None

"""Keys and values of the records that are ours alone, in the offsets log beside Kafka's.

Their key's version is one that Kafka has no use for: its tools say that they do not know it, and go on. A value is its
format as two bytes, and a MessagePack array. `LogCorrupt` is one that does not parse; a newer format is one as well,
since to pass over a grant would be to make it twice.
"""

import struct

import msgspec

from coordinator.records import LogCorrupt, Owner, Ownership, OwnershipTombstone

OWNERSHIP_KEY = 0x4D01
_FORMAT = b"\x00\x00"

OwnRecord = Ownership | OwnershipTombstone


class _Grant(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    owner: tuple[str, int, int, int, int] | None


_encode = msgspec.msgpack.Encoder().encode
_decode_grant = msgspec.msgpack.Decoder(_Grant).decode


def encode_own(record: OwnRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the record; the value of a tombstone is None."""
    key = _ownership_key(record.group_id, record.topic, record.partition)
    if isinstance(record, OwnershipTombstone):
        return key, None
    owner = record.owner
    line = None if owner is None else msgspec.structs.astuple(owner)
    return key, _FORMAT + _encode(_Grant(record.epoch, line))


def _ownership_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    head = struct.pack(">HH", OWNERSHIP_KEY, len(group))
    return head + group + len(name).to_bytes(2, "big") + name + partition.to_bytes(4, "big")


def decode_own(key: bytes, value: bytes | None) -> OwnRecord | None:
    """The record; None if its key is not one of ours. Raises LogCorrupt."""
    if int.from_bytes(key[:2], "big") != OWNERSHIP_KEY:
        return None
    group_id, topic, partition = _read_ownership_key(key)
    if value is None:
        return OwnershipTombstone(group_id, topic, partition)
    grant = _read(value)
    return Ownership(group_id, topic, partition, grant.epoch, None if grant.owner is None else Owner(*grant.owner))


def _read_ownership_key(key: bytes) -> tuple[str, str, int]:
    texts, at = [], 2
    try:
        for _ in range(2):
            end = at + 2 + int.from_bytes(key[at : at + 2], "big")
            texts.append(key[at + 2 : end].decode())
            at = end
    except UnicodeDecodeError as error:
        raise LogCorrupt(f"not UTF-8: {error}") from None
    if len(key) != at + 4:
        raise LogCorrupt(f"the key of a grant has {len(key)} bytes, where {at + 4} must be")
    return texts[0], texts[1], int.from_bytes(key[at:], "big", signed=True)


def _read(value: bytes) -> _Grant:
    if value[:2] != _FORMAT:
        raise LogCorrupt(f"a grant of unknown format {value[:2].hex()}")
    try:
        return _decode_grant(value[2:])
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"a grant: {error}") from None

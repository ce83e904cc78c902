"""Keys and values of groups that the coordinator balances, in Kafka's schemas
(docs/spec/consumer-group-protocol.md#14.1). Keys have lengths of two bytes; values are of version 0, in compact forms.

`LogCorrupt` is a value that does not parse, or of a newer version. Unknown tagged fields are skipped.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.records.consumer_records import (
    AssignedTopic,
    AssignmentRecord,
    ClassicMetadata,
    ConsumerGroupRecord,
    ConsumerKey,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
    ConsumerTopicsRecord,
    MemberTargetRecord,
    ReconciliationState,
    RegexRecord,
    TargetRecord,
    TopicRacks,
)
from coordinator.records.fields import (
    NO_TAGS,
    FieldReader,
    array,
    compact_bytes,
    compact_nullable,
    compact_string,
    int32s,
    string,
    tagged,
)
from coordinator.records.records import LogCorrupt

_VERSION = b"\x00\x00"
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_EPOCHS_AND_STATE = struct.Struct(">iib")
_STATES = frozenset(ReconciliationState)
_NAMED = frozenset({ConsumerKey.MEMBER, ConsumerKey.MEMBER_TARGET, ConsumerKey.ASSIGNMENT, ConsumerKey.REGEX})
"""Types whose key has a name after the group's id: the member's id, or the pattern."""
_KEYS = frozenset(ConsumerKey)


# --- writing ---


def encode_consumer(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Encode key and value of the record; the value of a tombstone is None."""
    if isinstance(record, ConsumerTombstone):
        return _key(record.key, record.group_id, record.name), None
    kind, write = _WRITERS[type(record)]
    name = ""
    if kind in _NAMED:
        name = record.pattern if isinstance(record, RegexRecord) else record.member_id  # type: ignore[union-attr]
    return _key(kind, record.group_id, name), _VERSION + write(record)


def _key(kind: ConsumerKey, group_id: str, name: str) -> bytes:
    key = kind.to_bytes(2, "big") + string(group_id)
    return key + string(name) if kind in _NAMED else key


def _group(record: ConsumerGroupRecord) -> bytes:
    return _INT32.pack(record.epoch) + _optional_int64(record.metadata_hash)


def _target(record: TargetRecord) -> bytes:
    return _INT32.pack(record.epoch) + _optional_int64(record.timestamp_ms)


def _optional_int64(value: int) -> bytes:
    """Return the tagged fields of a struct whose tag 0 is a number, omitted if it is 0."""
    return tagged(0, _INT64.pack(value)) if value else NO_TAGS


def _topics(record: ConsumerTopicsRecord) -> bytes:
    return array(_topic_racks(one) for one in record.topics) + NO_TAGS


def _topic_racks(topic: TopicRacks) -> bytes:
    racks = array(_INT32.pack(index) + array(map(compact_string, names)) + NO_TAGS for index, names in topic.racks)
    return topic.topic_id + compact_string(topic.name) + _INT32.pack(topic.partitions) + racks + NO_TAGS


def _member(record: ConsumerMemberRecord) -> bytes:
    return b"".join(
        (
            compact_nullable(record.instance_id),
            compact_nullable(record.rack_id),
            compact_string(record.client_id),
            compact_string(record.client_host),
            array(map(compact_string, record.subscribed_topic_names)),
            compact_nullable(record.subscribed_topic_regex),
            _INT32.pack(record.rebalance_timeout_ms),
            compact_nullable(record.server_assignor),
            NO_TAGS if record.classic is None else tagged(0, _classic(record.classic)),
        )
    )


def _classic(classic: ClassicMetadata) -> bytes:
    protocols = array(compact_string(name) + compact_bytes(data) + NO_TAGS for name, data in classic.protocols)
    return b"\x01" + _INT32.pack(classic.session_timeout_ms) + protocols + NO_TAGS


def _member_target(record: MemberTargetRecord) -> bytes:
    return array(topic_id + int32s(partitions) + NO_TAGS for topic_id, partitions in record.topics) + NO_TAGS


def _assignment(record: AssignmentRecord) -> bytes:
    head = _EPOCHS_AND_STATE.pack(record.epoch, record.previous_epoch, record.state)
    return head + _assigned(record.assigned) + _assigned(record.pending) + NO_TAGS


def _assigned(topics: Iterable[AssignedTopic]) -> bytes:
    return array(one.topic_id + int32s(one.partitions) + tagged(0, int32s(one.epochs)) for one in topics)


def _regex(record: RegexRecord) -> bytes:
    numbers = struct.pack(">qq", record.version, record.timestamp_ms)
    return array(map(compact_string, record.topics)) + numbers + NO_TAGS


_WRITERS: dict[type[Any], tuple[ConsumerKey, Callable[[Any], bytes]]] = {
    ConsumerGroupRecord: (ConsumerKey.GROUP, _group),
    ConsumerTopicsRecord: (ConsumerKey.TOPICS, _topics),
    ConsumerMemberRecord: (ConsumerKey.MEMBER, _member),
    TargetRecord: (ConsumerKey.TARGET, _target),
    MemberTargetRecord: (ConsumerKey.MEMBER_TARGET, _member_target),
    AssignmentRecord: (ConsumerKey.ASSIGNMENT, _assignment),
    RegexRecord: (ConsumerKey.REGEX, _regex),
}


# --- reading ---


def decode_consumer(key: bytes, value: bytes | None) -> ConsumerRecord | None:
    """Decode the record; None if its key is of another type. Raises LogCorrupt."""
    number = int.from_bytes(key[:2], "big")
    if number not in _KEYS:
        return None
    kind, reader = ConsumerKey(number), FieldReader(key)
    reader.integer(2)
    group_id = reader.string()
    name = reader.string() if kind in _NAMED else ""
    if value is None:
        return ConsumerTombstone(group_id, kind, name)
    body = FieldReader(value)
    version = body.integer(2)
    if version != 0:
        raise LogCorrupt(f"a record of type {number} ({kind.name}) of unknown version {version}; 0 is known")
    body.use_compact_forms()
    return _READERS[kind](group_id, name, body)


def _read_group(group_id: str, _name: str, body: FieldReader) -> ConsumerGroupRecord:
    return ConsumerGroupRecord(group_id, body.integer(4), _read_optional_int64(body))


def _read_target(group_id: str, _name: str, body: FieldReader) -> TargetRecord:
    return TargetRecord(group_id, body.integer(4), _read_optional_int64(body))


def _read_optional_int64(body: FieldReader) -> int:
    data = body.tags().get(0)
    return 0 if data is None else FieldReader(data).integer(8)


def _read_topics(group_id: str, _name: str, body: FieldReader) -> ConsumerTopicsRecord:
    topics = tuple([_read_topic_racks(body) for _ in range(body.count())])
    body.tags()
    return ConsumerTopicsRecord(group_id, topics)


def _read_topic_racks(body: FieldReader) -> TopicRacks:
    topic_id, name, partitions = body.take(16), body.string(), body.integer(4)
    racks = []
    for _ in range(body.count()):
        racks.append((body.integer(4), body.strings()))
        body.tags()
    body.tags()
    return TopicRacks(topic_id, name, partitions, tuple(racks))


def _read_member(group_id: str, name: str, body: FieldReader) -> ConsumerMemberRecord:
    instance_id, rack_id = body.nullable(), body.nullable()
    client_id, client_host = body.string(), body.string()
    names, regex = body.strings(), body.nullable()
    rebalance_timeout_ms, assignor = body.integer(4), body.nullable()
    data = body.tags().get(0)
    return ConsumerMemberRecord(
        group_id=group_id,
        member_id=name,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=assignor,
        classic=None if data is None else _read_classic(data),
    )


def _read_classic(data: bytes) -> ClassicMetadata | None:
    body = FieldReader(data, flexible=True)
    if body.integer(1) < 0:
        return None
    session_timeout_ms = body.integer(4)
    protocols = []
    for _ in range(body.count()):
        protocols.append((body.string(), body.data()))
        body.tags()
    body.tags()
    return ClassicMetadata(session_timeout_ms, tuple(protocols))


def _read_member_target(group_id: str, name: str, body: FieldReader) -> MemberTargetRecord:
    topics = []
    for _ in range(body.count()):
        topics.append((body.take(16), body.int32s()))
        body.tags()
    body.tags()
    return MemberTargetRecord(group_id, name, tuple(topics))


def _read_assignment(group_id: str, name: str, body: FieldReader) -> AssignmentRecord:
    epoch, previous_epoch, number = body.integer(4), body.integer(4), body.integer(1)
    state = ReconciliationState(number) if number in _STATES else ReconciliationState.UNKNOWN
    assigned, pending = _read_assigned(body, epoch), _read_assigned(body, epoch)
    body.tags()
    return AssignmentRecord(group_id, name, epoch, previous_epoch, state, assigned, pending)


def _read_assigned(body: FieldReader, epoch: int) -> tuple[AssignedTopic, ...]:
    """Read topics. Records of Kafka before 4.3 have no assignment epochs: all partitions then have the member's
    epoch."""
    topics = []
    for _ in range(body.count()):
        topic_id, partitions = body.take(16), body.int32s()
        data = body.tags().get(0)
        epochs = (epoch,) * len(partitions) if data is None else FieldReader(data, flexible=True).int32s()
        if len(epochs) != len(partitions):
            raise LogCorrupt(f"{len(epochs)} assignment epochs, where {len(partitions)} must be")
        topics.append(AssignedTopic(topic_id, partitions, epochs))
    return tuple(topics)


def _read_regex(group_id: str, name: str, body: FieldReader) -> RegexRecord:
    topics, version, timestamp_ms = body.strings(), body.integer(8), body.integer(8)
    body.tags()
    return RegexRecord(group_id, name, topics, version, timestamp_ms)


_READERS: dict[ConsumerKey, Callable[[str, str, FieldReader], ConsumerRecord]] = {
    ConsumerKey.GROUP: _read_group,
    ConsumerKey.TOPICS: _read_topics,
    ConsumerKey.MEMBER: _read_member,
    ConsumerKey.TARGET: _read_target,
    ConsumerKey.MEMBER_TARGET: _read_member_target,
    ConsumerKey.ASSIGNMENT: _read_assignment,
    ConsumerKey.REGEX: _read_regex,
}

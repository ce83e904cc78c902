"""Two independent implementations of Kafka's wire, each given our messages in its own objects.

Both follow Kafka's schemas, so their fields are found by Kafka's names; what is called or shaped otherwise here stands
in one table for both. `kafka-python` runs Kafka's own JSON; `kio` is generated from it, and names times without unit.
"""

import datetime as dt
import importlib
import io
import pkgutil
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

import kafka.protocol
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, InitProducerId, InitProducerIdReply, OffsetForLeaderEpoch
from protocol.messages.groups import LeaveGroup
from protocol.messages.node import DescribeClusterReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetDeletePartitionReply,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchReply,
    TxnOffsetCommit,
)
from protocol.messages.topics import DeleteTopics, MetadataReply, MetadataTopicReply
from protocol.messages.transactions import (
    AddedPartition,
    AddedTopic,
    AddPartitionsToTxn,
    AddPartitionsToTxnReply,
    DescribeTransactionsReply,
)
from tests.protocol.kafka.samples import Case

_ELSEWHERE: dict[tuple[type[Message], str], Callable[[Any], Any]] = {
    (OffsetCommit, "generation_id_or_member_epoch"): lambda m: m.generation_id,
    (TxnOffsetCommit, "generation_id_or_member_epoch"): lambda m: m.generation_id,
    (DeleteTopics, "topic_names"): lambda m: tuple(topic.name for topic in m.topics),
    (FindCoordinator, "key"): lambda m: m.coordinator_keys[0],
    (OffsetDeleteTopic, "partitions"): lambda m: tuple(map(OffsetDeletePartitionReply, m.partition_indexes)),
    (MetadataReply, "authorized_operations"): lambda m: m.cluster_authorized_operations,
    (MetadataTopicReply, "authorized_operations"): lambda m: m.topic_authorized_operations,
    (DescribeClusterReply, "authorized_operations"): lambda m: m.cluster_authorized_operations,
    (Fetch, "replica_id"): lambda m: -1,
    (FetchPartition, "last_fetched_epoch"): lambda m: -1,
    (ListOffsets, "replica_id"): lambda m: -1,
    (ListOffsets, "timeout_ms"): lambda m: 0,
    (OffsetForLeaderEpoch, "replica_id"): lambda m: -1,
    (InitProducerId, "enable2_pc"): lambda m: False,
    (InitProducerId, "keep_prepared_txn"): lambda m: False,
    (InitProducerIdReply, "ongoing_txn_producer_id"): lambda m: -1,
    (InitProducerIdReply, "ongoing_txn_producer_epoch"): lambda m: -1,
    (AddPartitionsToTxn, "v3_and_below_transactional_id"): lambda m: m.transactional_id,
    (AddPartitionsToTxn, "v3_and_below_producer_id"): lambda m: m.producer_id,
    (AddPartitionsToTxn, "v3_and_below_producer_epoch"): lambda m: m.producer_epoch,
    (AddPartitionsToTxn, "v3_and_below_topics"): lambda m: m.topics,
    (AddPartitionsToTxnReply, "results_by_topic_v3_and_below"): lambda m: m.topics,
    (AddedTopic, "results_by_partition"): lambda m: m.partitions,
    (AddedPartition, "partition_error_code"): lambda m: m.error_code,
    (DescribeTransactionsReply, "transaction_states"): lambda m: m.transactions,
}
"""Fields that have another name in our messages, or that these lack because we always send one value."""

_INLINE: dict[type[Message], str] = {
    LeaveGroup: "members",
    FindCoordinatorReply: "coordinators",
    OffsetFetch: "groups",
    OffsetFetchReply: "groups",
}
"""Messages whose old versions have the fields of a list's only element beside the others."""

_Absent = object()


def _find(message: Any, name: str) -> Any:
    if (there := _ELSEWHERE.get((type(message), name))) is not None:
        return there(message)
    if name in message.__struct_fields__:
        return getattr(message, name)
    if only := getattr(message, _INLINE.get(type(message), ""), None):
        return _find(only[0], name)
    return _Absent


class Judge(Protocol):
    """Bodies and whole frames, the latter without their length."""

    def knows(self, case: Case) -> bool: ...
    def body(self, case: Case, message: Message) -> bytes: ...
    def frame(self, case: Case, message: Message, correlation_id: int, client_id: str | None) -> bytes: ...


# ------------------------------------------------------------------------------------------------------- kafka-python


@cache
def _kafka_classes() -> dict[tuple[int, bool], Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "stubs" not in module.name:
            importlib.import_module(module.name)

    def below(parent: Any) -> Iterator[Any]:
        for child in parent.__subclasses__():
            yield child
            yield from below(child)

    return {(one.API_KEY, one.type == "request"): one for one in below(ApiMessage) if one._class_version is None}


class KafkaPython:
    def knows(self, case: Case) -> bool:
        kind = _kafka_classes().get((case.api.key, case.is_request))
        if kind is None:
            return False
        oldest, newest = kind.valid_versions
        return bool(oldest <= case.version <= newest)

    def body(self, case: Case, message: Message) -> bytes:
        data: bytes = self._made(case, message).encode()
        return data

    def frame(self, case: Case, message: Message, correlation_id: int, client_id: str | None) -> bytes:
        made = self._made(case, message)
        if case.is_request:
            made.with_header(correlation_id=correlation_id, client_id=client_id)
        else:
            made.with_header(correlation_id=correlation_id)
        data: bytes = made.encode(header=True)
        return data

    def body_with_unknown_tags(self, case: Case, message: Message) -> bytes:
        """Return the body with two tagged fields of unknown tags at the end of every struct."""
        made = self._made(case, message)
        with _unknown_tags():
            data: bytes = made._struct.encode(made, version=case.version, compact=True, tagged=True)
        return data

    def _made(self, case: Case, message: Message) -> Any:
        kind = _kafka_classes()[case.api.key, case.is_request]
        return kind(version=case.version, **self._values(kind._struct, message, case.version))

    def _values(self, struct: Any, message: Message, version: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in struct.fields.values():
            if not field.for_version_q(version):
                continue
            value = _find(message, field.name)
            if value is not _Absent:
                values[field.name] = self._value(field, value, version)
            else:
                assert field.tagged_field_q(version), f"{type(message).__name__} has no {field.name}"
        return values

    def _value(self, field: Any, value: Any, version: int) -> Any:
        if value is None:
            return None
        if field.is_struct():
            return field.data_class(version=version, **self._values(field, value, version))
        if field.is_struct_array():
            return [field.data_class(version=version, **self._values(field, one, version)) for one in value]
        if field._type_str == "uuid":
            return uuid.UUID(bytes=value)
        if field._type_str == "bitfield":
            return {bit for bit in range(32) if value >> bit & 1}
        return list(value) if isinstance(value, tuple) else value


@contextmanager
def _unknown_tags() -> Iterator[None]:
    encode, empty = TaggedFields.encode, TaggedFields.encode_empty
    more = b"\x7d\x03abc" + b"\xff\xff\xff\xff\x07\x00"

    def with_more(self: Any, item: Any, version: int | None = None) -> bytes:
        data: bytes = encode(self, item, version=version)
        return bytes((data[0] + 2,)) + data[1:] + more

    TaggedFields.encode = with_more
    TaggedFields.encode_empty = classmethod(lambda cls: b"\x02" + more)
    try:
        yield
    finally:
        TaggedFields.encode, TaggedFields.encode_empty = encode, empty


# ---------------------------------------------------------------------------------------------------------------- kio


def _kio_name(case: Case) -> str:
    """Return the API's name: kafka-python's, which is Kafka's, or ours."""
    kind = _kafka_classes().get((case.api.key, True))
    return case.api.request.name if kind is None else kind.__name__.removesuffix("Request")


@cache
def _kio_module(case: Case) -> Any:
    name = _snake(_kio_name(case))
    side = "request" if case.is_request else "response"
    try:
        return importlib.import_module(f"kio.schema.{name}.v{case.version}.{side}")
    except ModuleNotFoundError:
        return None


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


class Kio:
    def knows(self, case: Case) -> bool:
        return _kio_module(case) is not None

    def body(self, case: Case, message: Message) -> bytes:
        return self._written(self._made(case, message))

    def frame(self, case: Case, message: Message, correlation_id: int, client_id: str | None) -> bytes:
        made = self._made(case, message)
        header = made.__header_schema__
        if not case.is_request:
            return self._written(header(correlation_id=correlation_id)) + self._written(made)
        head = header(
            request_api_key=case.api.key,
            request_api_version=case.version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        return self._written(head) + self._written(made)

    def _written(self, entity: Any) -> bytes:
        buffer = io.BytesIO()
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()

    def _made(self, case: Case, message: Message) -> Any:
        module = _kio_module(case)
        side = "Request" if case.is_request else "Response"
        name = _kio_name(case) + side
        return self._entity(getattr(module, name), message)

    def _entity(self, kind: Any, message: Message) -> Any:
        hints = _hints(kind)
        values: dict[str, Any] = {}
        for field in fields(kind):
            about = field.metadata.get("kafka_type", "")
            value = _find(message, field.name)
            if value is _Absent and about.startswith(("timedelta", "datetime")):
                value = _find(message, f"{field.name}_ms")
            if value is _Absent:
                assert "tag" in field.metadata, f"{type(message).__name__} has no {field.name}"
            else:
                if value is None and type(None) not in _alternatives(hints[field.name]):
                    value = ()  # as the oldest Metadata says "all topics"
                values[field.name] = self._value(hints[field.name], about, value)
        return kind(**values)

    def _value(self, hint: Any, about: str, value: Any) -> Any:
        if (entity := _entity_in(hint)) is not None and value is not None:
            return tuple(self._entity(entity, one) for one in value) if _is_many(hint) else self._entity(entity, value)
        if isinstance(value, tuple):
            return tuple(self._value(None, about, one) for one in value)
        if about.startswith("timedelta"):
            return dt.timedelta(milliseconds=value)
        if about.startswith("datetime"):
            return None if value == -1 else dt.datetime.fromtimestamp(value / 1_000, dt.UTC)
        if about == "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
        return KioErrorCode(value) if about == "error_code" else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_many(hint: Any) -> bool:
    return any(get_origin(one) is tuple for one in _alternatives(hint))


def _entity_in(hint: Any) -> Any:
    for one in _alternatives(hint):
        inner = get_args(one)[0] if get_origin(one) is tuple else one
        if is_dataclass(inner):
            return inner
    return None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)


JUDGES: dict[str, Judge] = {"kafka-python": KafkaPython(), "kio": Kio()}

"""Rows as records: the columns of the sink, by the rules of Spark's own Kafka sink. Without I/O."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS = "array<struct<key:string,value:binary>>"
Bytes = bytes | str | None


class ColumnError(ValueError):
    """Raised for rows that cannot become records; the sentence names the column."""


class Outgoing(NamedTuple):
    """A record to be written. `partition` None: chosen by the key's hash, or round robin."""

    topic: str
    value: Bytes
    key: Bytes
    partition: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def check_columns(schema: StructType, topic: str | None) -> None:
    """Check the columns of rows to be written; `topic` is the option. Other columns are ignored, as by Spark's own
    sink. Raises `ColumnError`.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    there = ", ".join(columns) or "none"
    if "value" not in columns:
        raise ColumnError(f"a column 'value' is needed, of type string or binary; there are {there}")
    if topic is None and "topic" not in columns:
        raise ColumnError(f"a column 'topic' of type string, or the option 'topic', is needed; there are {there}")
    for name, kinds, types in _TYPES:
        if name in columns and not isinstance(columns[name], types):
            raise _wrong_type(name, columns[name], kinds)
    if "headers" in columns and columns["headers"].simpleString() != HEADERS:
        raise _wrong_type("headers", columns["headers"], HEADERS)


_TYPES: tuple[tuple[str, str, tuple[type[DataType], ...]], ...] = (
    ("topic", "string", (StringType,)),
    ("key", "string or binary", (StringType, BinaryType)),
    ("value", "string or binary", (StringType, BinaryType)),
    ("partition", "int", (IntegerType,)),
)


def _wrong_type(name: str, found: DataType, wanted: str) -> ColumnError:
    return ColumnError(f"the column {name!r} is of type {found.simpleString()}: it must be {wanted}")


def outgoing(batch: "pa.RecordBatch", topic: str | None) -> Iterator[Outgoing]:
    """Return the records of a batch whose columns were checked. Raises `ColumnError` for a row without a topic, or
    with a header without a key.
    """
    names = frozenset(batch.schema.names)

    def values(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * batch.num_rows

    topics = values("topic") if topic is None else [topic] * batch.num_rows
    columns = zip(topics, values("value"), values("key"), values("partition"), values("headers"), strict=True)
    for where, value, key, partition, headers in columns:
        if where is None:
            raise ColumnError("the column 'topic' is null in a row: fill it, or give the option 'topic' for all rows")
        yield Outgoing(where, value, key, partition, _headers(headers))


def _headers(headers: list[dict[str, Any] | None] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    pairs = [(header["key"], header["value"]) if header else (None, None) for header in headers]
    if any(key is None for key, _ in pairs):
        raise ColumnError("the column 'headers' has a header without a key: each needs one")
    return tuple((str(key), value) for key, value in pairs)

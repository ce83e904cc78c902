"""The sink `format("muster")`: options, columns, and rows as records; a producer that keeps what it is sent."""

import pickle
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from muster import RequestTimedOut
from pyspark_muster.errors import OptionError
from pyspark_muster.source import WITH_HEADERS, DefaultSource
from pyspark_muster.writing import writer
from pyspark_muster.writing.options import SinkOptions
from pyspark_muster.writing.rows import ColumnError, Outgoing, check_columns, outgoing

NEEDED = {"bootstrap": "127.0.0.1:9390"}
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_sink_has_the_names_of_sparks_own_and_leaves_out_what_spark_adds() -> None:
    options = SinkOptions.parse(
        {
            "Kafka.Bootstrap.Servers": "k1:9092",
            "topic": "flights",
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.compression.type": "ZSTD",
            "kafka.linger.ms": "7",
            "kafka.security.protocol": "SSL",
            "checkpointLocation": "checkpoint",
            "queryName": "copy",
        }
    )
    assert (options.bootstrap, options.topic) == ("kafka://k1:9092", "flights")
    assert (options.compression, options.linger_ms) == ("zstd", 7)
    assert options.security is not None
    assert SinkOptions.parse(NEEDED).topic is None


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"bootstrap": ""}, "'bootstrap' is needed: host:port"),
        ({"bootstrap": "b:x"}, "'bootstrap' is 'b:x': "),
        ({"topic": " "}, "'topic' is '': it must be a topic's name"),
        ({"topics": "flights"}, "'topics' is unknown; did you mean 'topic'"),
        ({"kafka.acks": "1"}, "'kafka.acks' is '1': this sink is always idempotent, it must be 'all'"),
        ({"kafka.enable.idempotence": "false"}, "'kafka.enable.idempotence' is 'false'.* must be 'true'"),
        ({"compression": "rar"}, "'compression' is 'rar': it must be 'none' or 'gzip'"),
        ({"lingerMs": "soon"}, "'lingerMs' is 'soon': it must be a whole number"),
        ({"lingerMs": "1", "kafka.linger.ms": "1"}, "'lingerMs' and 'kafka.linger.ms' mean the same"),
        ({"muster.security.protocl": "SSL"}, "did you mean 'muster.security.protocol'"),
    ],
)
def test_a_wrong_option_of_a_sink_is_refused_by_name(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        SinkOptions.parse(NEEDED | wrong)


@pytest.mark.parametrize(
    "columns",
    [
        {"value": StringType(), "topic": StringType()},
        {"value": BinaryType(), "topic": StringType(), "key": StringType(), "partition": IntegerType()},
        {"value": BinaryType(), "topic": StringType(), "headers": ArrayType(HEADER), "other": LongType()},
    ],
)
def test_rows_with_these_columns_are_written(columns: dict[str, DataType]) -> None:
    check_columns(schema(**columns), None)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"key": StringType()}, "a column 'value' is needed.*there are key"),
        ({"value": LongType()}, "the column 'value' is of type bigint: it must be string or binary"),
        ({"value": StringType(), "key": IntegerType()}, "the column 'key' is of type int"),
        ({"value": StringType(), "topic": BinaryType()}, "the column 'topic' is of type binary: it must be string"),
        ({"value": StringType(), "partition": LongType()}, "the column 'partition' is of type bigint: it must be int"),
        ({"value": StringType(), "headers": StringType()}, "'headers' is of type string: it must be array<struct<key"),
    ],
)
def test_a_wrong_column_is_refused_by_name(columns: dict[str, DataType], sentence: str) -> None:
    with pytest.raises(ColumnError, match=sentence):
        check_columns(schema(**columns), "flights")


def test_a_topic_comes_from_the_option_or_from_a_column() -> None:
    with pytest.raises(ColumnError, match="a column 'topic' of type string, or the option 'topic', is needed"):
        check_columns(schema(value=StringType()), None)
    rows = pa.RecordBatch.from_pylist([{"topic": "a", "value": "1"}, {"topic": None, "value": "2"}])
    assert [one.topic for one in outgoing(rows, "b")] == ["b", "b"]
    assert [one.topic for one in outgoing(rows[:1], None)] == ["a"]
    with pytest.raises(ColumnError, match="'topic' is null"):
        list(outgoing(rows, None))


def test_rows_keep_their_key_partition_headers_and_nulls() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "value": b"1",
                "key": "k",
                "partition": 3,
                "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
            },
            {"value": None, "key": None, "partition": None, "headers": None},
        ]
    )
    assert list(outgoing(rows, "t")) == [
        Outgoing("t", b"1", "k", 3, (("h", b"x"), ("h", None))),
        Outgoing("t", None, None, None, ()),
    ]
    keyless = pa.RecordBatch.from_pylist([{"value": b"1", "headers": [{"key": None, "value": b"x"}]}])
    with pytest.raises(ColumnError, match="'headers' has a header without a key"):
        list(outgoing(keyless, "t"))


def test_the_source_gives_writers_that_can_be_sent_to_executors() -> None:
    source = DefaultSource(NEEDED | {"topic": "copies"})
    assert pickle.loads(pickle.dumps(source.writer(WITH_HEADERS, overwrite=False)))
    assert pickle.loads(pickle.dumps(source.streamWriter(WITH_HEADERS, overwrite=True)))
    with pytest.raises(OptionError, match="'overwrite' is not possible"):
        source.writer(WITH_HEADERS, overwrite=True)
    with pytest.raises(ColumnError, match="'topic', is needed"):
        DefaultSource(NEEDED).streamWriter(schema(value=StringType()), overwrite=False)


class Servers:
    """Servers behind a producer: what was sent, and acknowledged; `refuses` ends a flush."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.acknowledged = 0
        self.settings: dict[str, Any] = {}
        self.refuses = False

    def producer(self, bootstrap: str, **settings: Any) -> "FakeProducer":
        self.settings = settings | {"bootstrap": bootstrap}
        return FakeProducer(self)


class FakeProducer:
    """A producer without a network."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def send(self, *record: Any, headers: Any) -> None:
        self._servers.sent.append((*record, headers))

    def flush(self) -> None:
        if self._servers.refuses:
            raise RequestTimedOut("not acknowledged")
        self._servers.acknowledged = len(self._servers.sent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.flush()


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(writer, "Producer", servers.producer)
    return servers


def test_a_task_ends_when_all_its_records_are_acknowledged_and_fails_with_the_first_that_is_not(
    servers: Servers,
) -> None:
    batches = [
        pa.RecordBatch.from_pylist([{"value": b"1"}, {"value": b"2"}]),
        pa.RecordBatch.from_pylist([{"value": b"3"}]),
    ]
    writers = DefaultSource(NEEDED | {"topic": "t", "compression": "lz4"})
    batch_writer = writers.writer(schema(value=BinaryType()), overwrite=False)
    message: Any = batch_writer.write(iter(batches))
    assert (message.records, servers.acknowledged) == (3, 3)
    assert [record[1] for record in servers.sent] == [b"1", b"2", b"3"]
    assert (servers.settings["compression"], servers.settings["bootstrap"]) == ("lz4", "127.0.0.1:9390")
    assert "enable_idempotence" not in servers.settings  # the producer is, unless it is told not to be
    servers.refuses = True
    stream_writer = writers.streamWriter(schema(value=BinaryType()), overwrite=False)
    with pytest.raises(RequestTimedOut):
        stream_writer.write(iter(batches))
    assert len(servers.sent) == 5  # the second batch was not begun

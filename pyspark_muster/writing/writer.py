"""EDGE: writes the rows of a task, on an executor, with a producer of its own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from muster import Producer
from pyspark_muster.errors import OptionError
from pyspark_muster.writing.options import SinkOptions
from pyspark_muster.writing.rows import check_columns, outgoing

if TYPE_CHECKING:
    import pyarrow as pa


class RowsWritten(WriterCommitMessage):
    """The message of a task to the driver: the number of acknowledged records."""

    def __init__(self, records: int) -> None:
        self.records = records


class TopicWriter(DataSourceArrowWriter):
    """Writes a batch: each task's records are acknowledged before the task ends. Records stay written if another task
    fails, and a retried task writes its records again.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises `ColumnError`, `OptionError`."""
        if overwrite:
            raise OptionError("the mode 'overwrite' is not possible: a topic is only appended to, use mode('append')")
        check_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> RowsWritten:
        return write_rows(self._options, iterator)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch as `TopicWriter` does, in every output mode: rows that a mode would replace are
    appended."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Raises `ColumnError`."""
        check_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> RowsWritten:
        return write_rows(self._options, iterator)


def write_rows(options: SinkOptions, batches: Iterator["pa.RecordBatch"]) -> RowsWritten:
    """Write rows and wait until all are acknowledged. A record that fails ends this at the end of its batch. Raises
    `ColumnError`, the client's errors, ValueError for a partition that the topic does not have.
    """
    written = 0
    with Producer(
        options.bootstrap,
        compression=options.compression,
        linger_ms=options.linger_ms,
        batch_bytes=options.batch_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
        client_id=options.client_id,
        security=options.security,
        broker_security=options.broker_security,
    ) as producer:
        for batch in batches:
            for one in outgoing(batch, options.topic):
                producer.send(one.topic, one.value, one.key, one.partition, headers=one.headers)
                written += 1
            producer.flush()
    return RowsWritten(written)

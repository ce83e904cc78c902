"""The data source that Spark finds by the name "muster"."""

import os

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_muster.batch import BatchOptions, BatchReader
from pyspark_muster.errors import OptionError
from pyspark_muster.options import Options
from pyspark_muster.synonyms import in_our_names
from pyspark_muster.tables.columns import ddl
from pyspark_muster.tables.options import TableOptions, names_table

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""Schema of rows, the same as `pyspark_muster.decode.SCHEMA`."""
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
WITH_HEADERS = StructType([*SCHEMA.fields, StructField("headers", ArrayType(_HEADER))])


class MusterDataSource(DataSource):
    """`format("muster")`, of records or of a table. An invalid option of a source fails at `load()`, before any
    connection: with a group the options are those of a stream, without one those of a batch or of a stream without a
    group. Invalid options of a sink fail before the first row is written.
    """

    @classmethod
    def name(cls) -> str:
        return "muster"

    def schema(self) -> StructType | str:
        if names_table(self.options):
            return ddl(self._table_options().table)
        options = self._group_options() if self._has_group() else self._options_without_group().shared
        return WITH_HEADERS if options.include_headers else SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if names_table(self.options):
            table = self._table_options().table
            raise OptionError(f"the option 'table' is {table!r}: a table is a batch, use `spark.read`")
        if self._has_group():
            from pyspark_muster.reader import GroupReader  # each of Spark's processes needs one reader or writer

            return GroupReader(self._group_options())
        from pyspark_muster.standalone.reader import StandaloneReader

        return StandaloneReader(self._batch_options(is_stream=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        if names_table(self.options):
            from pyspark_muster.tables.reader import TableReader

            return TableReader(self._table_options())
        return BatchReader(self._batch_options(is_stream=False))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_muster.writing.options import SinkOptions
        from pyspark_muster.writing.writer import TopicWriter

        return TopicWriter(SinkOptions.parse(self.options, os.environ), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_muster.writing.options import SinkOptions
        from pyspark_muster.writing.writer import TopicStreamWriter

        return TopicStreamWriter(SinkOptions.parse(self.options, os.environ), schema)

    def _has_group(self) -> bool:
        return any(name.lower() == "group" for name in in_our_names(self.options, latest=False))

    def _table_options(self) -> TableOptions:
        return TableOptions.parse(self.options, os.environ)

    def _group_options(self) -> Options:
        return Options.parse(in_our_names(self.options, latest=True), os.environ)

    def _batch_options(self, *, is_stream: bool) -> BatchOptions:
        return BatchOptions.parse(in_our_names(self.options, latest=False), os.environ, is_stream=is_stream)

    def _options_without_group(self) -> BatchOptions:
        """Return the options at `load()`, where it is unknown whether Spark will read a batch or a stream: those of
        either are valid."""
        try:
            return self._batch_options(is_stream=True)
        except OptionError:
            return self._batch_options(is_stream=False)


DefaultSource = MusterDataSource

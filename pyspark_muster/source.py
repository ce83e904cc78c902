"""The data source that Spark finds by the name "muster"."""

import os
from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from pyspark_muster.options import Options
from pyspark_muster.reader import GroupReader

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
"""Schema of rows, the same as `pyspark_muster.decode.SCHEMA`."""


class MusterDataSource(DataSource):
    """`format("muster")`. A wrong option fails here, at `load()`, before anything connects."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._checked = Options.parse(options, os.environ)

    @classmethod
    def name(cls) -> str:
        return "muster"

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return GroupReader(self._checked)


DefaultSource = MusterDataSource

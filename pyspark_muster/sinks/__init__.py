"""Sinks that store each record once, even if a query repeats it or another writer has written it."""

from pyspark_muster.sinks.database import DatabaseSink
from pyspark_muster.sinks.parquet import EmptyTable, ParquetSink, read_parquet
from pyspark_muster.sinks.topic import TopicSink

__all__ = ["DatabaseSink", "EmptyTable", "ParquetSink", "TopicSink", "read_parquet"]

"""Sinks that have each record once, whatever a query repeats and whoever wrote it before."""

from pyspark_muster.sinks.database import DatabaseSink
from pyspark_muster.sinks.parquet import ParquetSink, read_parquet
from pyspark_muster.sinks.topic import TopicSink

__all__ = ["DatabaseSink", "ParquetSink", "TopicSink", "read_parquet"]

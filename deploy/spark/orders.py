"""A job that is the same on one machine, on a cluster and through Spark Connect: records of a topic into Parquet, once.

It runs where the environment says: on this machine without any of them, on a standalone cluster with
`MASTER=spark://HOST:7077`, through a Connect server with `SPARK_REMOTE=sc://HOST:15002`.
"""

import argparse

from pyspark.sql import SparkSession

from pyspark_muster import guard
from pyspark_muster.java import use_java
from pyspark_muster.sinks import ParquetSink


def main() -> None:
    parser = argparse.ArgumentParser(description="Records of a topic into a Parquet table, each of them once.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9390", help="musterd's native listener")
    parser.add_argument("--group", default="orders-table")
    parser.add_argument("--topics", default="orders", help="names, separated by commas")
    parser.add_argument("--table", required=True, help="a folder that the driver and all executors see")
    parser.add_argument("--once", action="store_true", help="read what there is, and end")
    options = parser.parse_args()

    use_java()
    spark = guard(SparkSession.builder.appName("orders").getOrCreate())
    records = spark.readStream.format("muster").options(
        bootstrap=options.bootstrap, group=options.group, topics=options.topics
    )
    writer = records.load().writeStream.queryName("orders").foreachBatch(ParquetSink(options.table).write)
    writer = writer.option("checkpointLocation", f"{options.table}/_checkpoint")
    query = (writer.trigger(availableNow=True) if options.once else writer.trigger(processingTime="5 seconds")).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()

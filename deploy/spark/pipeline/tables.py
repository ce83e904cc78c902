"""Tables of a declarative pipeline: orders as they come, and how often each item was ordered.

`spark-pipelines run` reads what is new and ends. `--full-refresh orders` empties the table and deletes its checkpoint;
the query then begins where `startingOffsets` says, as `newCheckpoint` has it, and not at the group's offsets.
"""

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP = os.environ.get("MUSTER_BOOTSTRAP", "127.0.0.1:9390")


@pipelines.table(name="orders")
def orders() -> DataFrame:
    spark = SparkSession.active()
    records = spark.readStream.format("muster").options(
        bootstrap=BOOTSTRAP, group="orders-pipeline", topics="orders", newCheckpoint="startingOffsets"
    )
    return records.load().selectExpr("partition", "offset", "timestamp", "CAST(value AS STRING) AS item")


@pipelines.materialized_view(name="items")
def items() -> DataFrame:
    return SparkSession.active().read.table("orders").groupBy("item").count()

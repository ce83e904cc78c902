"""Writes orders into a table, and derives visits from them: `python examples/spark_orders.py [HOST:PORT [FOLDER]]`.

A run reads the new orders and ends. The table has each order once, also after crashes, and whichever member of the
group has read it: `spark_orders_service.py` may share the group and the table. A visit is a customer's orders without a
pause of half an hour; it is derived from the whole table, because a query in a group keeps no state.
"""

import sys

from pyspark.sql import functions as sql

from pyspark_muster.session import local_session
from pyspark_muster.sinks import EmptyTable, ParquetSink, read_parquet

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "spark-orders"

spark = local_session("orders")
records = spark.readStream.format("muster").options(bootstrap=BOOTSTRAP, group="orders-table", topics="orders").load()
orders = records.selectExpr(
    *("topic", "partition", "offset"),
    *("timestamp AS ordered_at", "CAST(key AS STRING) AS customer", "CAST(value AS STRING) AS item"),
)
writer = orders.writeStream.queryName("orders").foreachBatch(ParquetSink(f"{FOLDER}/orders").write)
query = writer.option("checkpointLocation", f"{FOLDER}/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()

try:
    table = read_parquet(spark, f"{FOLDER}/orders")
except EmptyTable:
    print("no orders yet")
    spark.stop()
    sys.exit()
visits = (
    table.groupBy("customer", sql.session_window("ordered_at", "30 minutes").alias("visit"))
    .agg(sql.count("*").alias("orders"), sql.collect_list("item").alias("items"))
    .select("customer", "visit.start", "visit.end", "orders", "items")
)
visits.write.mode("overwrite").parquet(f"{FOLDER}/visits")
spark.read.parquet(f"{FOLDER}/visits").orderBy("start", "customer").show(truncate=40)
spark.stop()

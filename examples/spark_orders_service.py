"""A service beside the query of `spark_orders.py`, without Spark: `python examples/spark_orders_service.py [HOST:PORT
[FOLDER]]`, until Ctrl-C.

It is a member of the same group and adds the orders it reads to the same table, which has each order once, whichever
member reads it.
"""

import sys
from contextlib import suppress

import pyarrow as pa

from muster import CommitRefused, Consumer
from pyspark_muster.sinks import ParquetSink

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "spark-orders"
COLUMNS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "ordered_at": pa.timestamp("ms", tz="UTC"),
    "customer": pa.string(),
    "item": pa.string(),
}


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


table = ParquetSink(f"{FOLDER}/orders")
with (
    suppress(KeyboardInterrupt),
    Consumer(BOOTSTRAP, "orders-table", auto_offset_reset="earliest", enable_auto_commit=False) as consumer,
):
    consumer.subscribe(["orders"])
    while True:
        records = consumer.poll()
        if records:
            orders = [
                (one.topic, one.partition, one.offset, one.timestamp_ms, text(one.key), text(one.value))
                for one in records
            ]
            rows = [dict(zip(COLUMNS, order, strict=True)) for order in orders]
            table.add(pa.Table.from_pylist(rows, schema=pa.schema(COLUMNS)))
            with suppress(CommitRefused):  # other members own the partitions now: the table has these rows
                consumer.commit()
            print(len(records), "orders", flush=True)

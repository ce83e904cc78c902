"""A Spark query in a driver of its own: `python -m interop.beside_spark_query BOOTSTRAP GROUP TOPICS NAME FOLDER`.

What each batch read stands in FOLDER/NAME.rows before the batch is over. It ends with its standard input, drained.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from interop.beside_rows import append
from pyspark_muster.session import drain, local_session

SESSION_MS = 6_000
BATCH_RECORDS = 2_000


def run(bootstrap: str, group: str, topics: str, name: str, folder: Path) -> None:
    spark = local_session(name, cores=1)
    drain_file = folder / f"{name}.drain"
    options: dict[str, str | int] = {
        "bootstrap": bootstrap,
        "group": group,
        "topics": topics,
        "clientId": name,
        "sessionTimeoutMs": SESSION_MS,
        "heartbeatIntervalMs": 1_000,
        "maxRecordsPerBatch": BATCH_RECORDS,
        "drainFile": str(drain_file),
    }

    def take(batch: DataFrame, _number: int) -> None:
        rows = batch.select("topic", "partition", "offset", "value").collect()
        append(folder, name, [(one.topic, one.partition, one.offset, bytes(one.value)) for one in rows])

    stream = spark.readStream.format("muster").options(**options).load()
    query = stream.writeStream.option("checkpointLocation", str(folder / f"{name}.checkpoint")).foreachBatch(take)
    running = query.start()
    sys.stdin.read()
    drain(running, drain_file)
    spark.stop()


if __name__ == "__main__":
    bootstrap, group, topics, name, folder = sys.argv[1:]
    run(bootstrap, group, topics, name, Path(folder))

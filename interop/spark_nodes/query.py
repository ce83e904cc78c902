"""A Spark query in a driver of its own: `python -m interop.spark_nodes.query --help`.

Each batch first goes into the sink's topic, if there is one; then its places are appended to the file, `partition
offset` a line. It is drained after SIGTERM.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from pyspark_muster.session import drain, local_session
from pyspark_muster.sinks import TopicSink

SESSION_MS = 10_000
BATCH_RECORDS = 2_000


def run(given: argparse.Namespace) -> None:
    is_over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: is_over.append(number))
    spark = local_session(given.name, cores=1)
    drain_file = given.folder / f"{given.name}.drain"
    options: dict[str, str | int] = {
        "bootstrap": given.bootstrap,
        "group": given.group,
        "topics": given.topic,
        "clientId": given.name,
        "sessionTimeoutMs": SESSION_MS,
        "heartbeatIntervalMs": 1_000,
        "maxRecordsPerBatch": BATCH_RECORDS,
        "drainFile": str(drain_file),
    }
    sink = TopicSink(given.sink_bootstrap, given.to, sink=given.sink) if given.to else None

    def take(batch: DataFrame, number: int) -> None:
        places = [(row.partition, row.offset) for row in batch.select("partition", "offset").collect()]
        if sink is not None:
            sink.write(batch, number)
        with given.file.open("ab", buffering=0) as file:
            os.write(file.fileno(), "".join(f"{partition} {offset}\n" for partition, offset in places).encode())

    stream = spark.readStream.format("muster").options(**options).load()
    writer = stream.writeStream.option("checkpointLocation", str(given.folder / f"{given.name}.checkpoint"))
    query = writer.foreachBatch(take).start()
    while query.isActive and not is_over:
        time.sleep(0.1)
    if error := query.exception():
        raise error
    drain(query, drain_file)
    spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.spark_nodes.query", description="A query for kills.")
    for name in ("bootstrap", "group", "topic", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="of the checkpoint")
    parser.add_argument("--file", type=Path, required=True, help="for what was read")
    parser.add_argument("--to", help="topic that batches are written to")
    parser.add_argument("--sink", help="name of the sink")
    parser.add_argument("--sink-bootstrap", help="where the sink writes, kafka://HOST:PORT")
    run(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())

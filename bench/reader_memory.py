"""Memory of the process that is a Spark query's member: `python -m bench reader_memory`.

The process plans micro-batches as Spark's runner has it do, at a real musterd, without Spark: tasks are read by other
processes there. It hears of each batch's end over its socket, as from the driver's listener. By itself it is `python -m
bench.reader_memory BOOTSTRAP BATCHES`, and prints a line of JSON: its size after so many batches.
"""

import gc
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.processes import Daemon, scratch
from bench.report import Options, Sheet
from muster import Producer

TOPIC, GROUP, PARTITIONS = "flights", "sizes", 4
BATCH_RECORDS, BATCHES = 40, 1_000
_MIB = 1024 * 1024


def measure(options: Options) -> list[Sheet]:
    """Skipped, with a sentence, where there is no Spark."""
    title = "Spark: memory of the reader's process"
    if find_spec("pyspark") is None:
        return [Sheet(f"{title}: skipped", ("why",), [("pyspark is not installed: the extra `spark` brings it",)])]
    batches = BATCHES // 5 if options.quick else BATCHES
    with scratch() as folder, Daemon(folder / "data", {}, http=False) as daemon:
        daemon.create_topic(TOPIC, PARTITIONS)
        host, port = daemon.native
        with Producer(f"{host}:{port}", linger_ms=20) as producer:
            for number in range(batches * BATCH_RECORDS):
                producer.send(TOPIC, b"a flight", partition=number % PARTITIONS)
        command = [sys.executable, "-m", "bench.reader_memory", f"{host}:{port}", str(batches)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes: list[tuple[int, float]] = [(number, size / _MIB) for number, size in json.loads(printed)]
    grown = sizes[-1][1] - sizes[0][1]
    note = f"From {sizes[0][0]} to {sizes[-1][0]} batches it grew by {grown:.2f} MiB."
    return [Sheet(title, ("micro-batches", "resident MiB"), list(sizes), (note,))]


def plan(bootstrap: str, batches: int) -> list[tuple[int, int]]:
    """Plan so many batches; the process's resident bytes after each tenth of them."""
    from pyspark_muster.control import Finished, send_finished
    from pyspark_muster.options import Options as QueryOptions
    from pyspark_muster.reader import GroupReader

    given = {"bootstrap": bootstrap, "group": GROUP, "topics": TOPIC, "maxRecordsPerBatch": str(BATCH_RECORDS)}
    reader = GroupReader(QueryOptions.parse(given))
    sizes: list[tuple[int, int]] = []
    offset = json.dumps(reader.initialOffset())
    limit = reader.getDefaultReadLimit()
    number = 0
    try:
        while number < batches:
            start: dict[str, Any] = json.loads(offset)
            planned = json.dumps(reader.latestOffset(start, limit))
            if planned == offset:
                continue
            report = reader.reportLatestOffset() or {}
            reader.partitions(start, json.loads(planned))
            offset = planned
            number += 1
            facts = {"query": "sizes", "batch": str(number)}
            send_finished(report["control"], Finished(json.loads(planned)["seq"], facts=facts))
            if number % (batches // 10) == 0:
                gc.collect()
                sizes.append((number, _resident_bytes()))
    finally:
        reader.stop()
    return sizes


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    print(json.dumps(plan(sys.argv[1], int(sys.argv[2]))))

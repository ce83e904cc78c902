"""A member of a group that Spark queries share, in a process of its own, to be killed: `python -m bench.sharing_member
KIND BOOTSTRAP GROUP TOPIC DATABASE [CHECKPOINT]`.

KIND is `native`, `stock` (confluent-kafka), or the name of a query: its reader, called as Spark calls it, with a
checkpoint. What it reads it writes into the database, with its marks, in one transaction, and then commits it. SIGTERM
has it leave in good order. While CHECKPOINT.hold exists a query writes nothing, and says so in CHECKPOINT.held.
"""

import json
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer as StockConsumer

from muster import Consumer, TopicPartition
from pyspark_muster.sinks.bounds import Positions
from pyspark_muster.sinks.marks import Marks

TABLE, MARKS = "flown", "muster_marks"
SESSION_MS, BEAT_MS, POLL_INTERVAL_MS = 6_000, 1_000, 60_000
HELD_POLL_INTERVAL_MS = 30_000
_BATCH = 200
Row = tuple[str, int, int]
"""Topic, partition and offset."""


def connect(database: str) -> sqlite3.Connection:
    """Return a connection that waits for other writers."""
    return sqlite3.connect(database, timeout=120)


class Table:
    """The table that all members of the group write."""

    def __init__(self, database: str, writer: str) -> None:
        self._connection = connect(database)
        self._marks = Marks(self._connection, TABLE, table=MARKS)
        self._marks.prepare()
        self._writer = writer

    def add(self, rows: Iterable[Row]) -> bool:
        """Add the rows that the table does not have, and return whether there were any."""
        offsets: dict[TopicPartition, list[int]] = {}
        for topic, partition, offset in rows:
            offsets.setdefault(TopicPartition(topic, partition), []).append(offset)

        def insert(firsts: Positions) -> None:
            self._connection.executemany(
                f'INSERT INTO {TABLE} (topic, "partition", "offset", writer) VALUES (?, ?, ?, ?)',
                [(*one, at, self._writer) for one, first in firsts.items() for at in offsets[one] if at >= first],
            )

        return self._marks.append({one: (min(read), max(read)) for one, read in offsets.items()}, insert)


def native(bootstrap: str, group: str, topic: str, table: Table, ended: Callable[[], bool]) -> None:
    with Consumer(
        bootstrap,
        group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=BEAT_MS,
        max_poll_interval_ms=POLL_INTERVAL_MS,
        client_id="native",
    ) as consumer:
        consumer.subscribe([topic])
        while not ended():
            if records := consumer.poll(0.2):
                table.add((one.topic, one.partition, one.offset) for one in records)
                consumer.commit()


def stock(bootstrap: str, group: str, topic: str, table: Table, ended: Callable[[], bool]) -> None:
    consumer = StockConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": BEAT_MS,
            "max.poll.interval.ms": POLL_INTERVAL_MS,
            "partition.assignment.strategy": "range",
            "client.id": "stock",
        }
    )
    consumer.subscribe([topic])
    while not ended():
        messages = [one for one in consumer.consume(_BATCH, 0.2) if one.error() is None]
        if messages:
            table.add((str(one.topic()), int(one.partition() or 0), int(one.offset() or 0)) for one in messages)
            consumer.commit(asynchronous=True)
    consumer.close()


class Checkpoint:
    """Spark's logs of one query: the newest plan, and the newest that is finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        logged = json.loads(path.read_text()) if path.exists() else (None, None)
        self.finished: Any = logged[0]
        self.planned: Any = logged[1]

    def log(self, finished: Any, planned: Any) -> None:
        self.finished, self.planned = finished, planned
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps([finished, planned]))
        draft.replace(self._path)


def query(settings: dict[str, str], table: Table, path: Path) -> None:
    """Run micro-batches, as Spark does, until an operator drains the query."""
    from pyspark_muster.control import Finished, send_finished
    from pyspark_muster.errors import Drained
    from pyspark_muster.options import Options
    from pyspark_muster.reader import GroupReader

    reader = GroupReader(Options.parse(settings))
    checkpoint = Checkpoint(path)
    hold, held = path.with_suffix(".hold"), path.with_suffix(".held")
    if checkpoint.finished is None:
        first = reader.initialOffset()
        checkpoint.log(first, first)
    try:
        while True:
            finished, planned = checkpoint.finished, checkpoint.planned
            if planned == finished:
                planned = json.loads(json.dumps(reader.latestOffset(finished, reader.getDefaultReadLimit())))
                if planned == finished:
                    continue
                checkpoint.log(finished, planned)
            batches = [batch for task in reader.partitions(finished, planned) for batch in reader.read(task)]
            while hold.exists():
                held.touch()
                time.sleep(0.1)
            rows = (zip(*(batch[name].to_pylist() for name in ("topic", "partition", "offset"))) for batch in batches)  # noqa: B905
            has_written = table.add(row for some in rows for row in some)
            if held.exists():
                held.unlink()
                print(f"          the held batch was {'written in part' if has_written else 'refused'}", flush=True)
            checkpoint.log(planned, planned)
            report = reader.reportLatestOffset() or {}
            send_finished(report["control"], Finished(planned["seq"], facts={"batch": str(planned["seq"])}))
    except Drained:
        return
    finally:
        reader.stop()


def main(kind: str, bootstrap: str, group: str, topic: str, database: str, *checkpoint: str) -> None:
    table = Table(database, kind)
    if checkpoint:
        query(query_settings(kind, bootstrap, group, topic), table, Path(checkpoint[0]))
        return
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    {"native": native, "stock": stock}[kind](bootstrap, group, topic, table, ended.is_set)


def query_settings(name: str, bootstrap: str, group: str, topic: str) -> dict[str, str]:
    """Return the options of a query. The second one's interval is short: its batch is held for longer."""
    return {
        "bootstrap": bootstrap,
        "group": group,
        "topics": topic,
        "clientId": name,
        "assignors": "range",
        "maxRecordsPerBatch": "2000",
        "sessionTimeoutMs": str(SESSION_MS),
        "heartbeatIntervalMs": str(BEAT_MS),
        "maxPollIntervalMs": str(HELD_POLL_INTERVAL_MS if name == "second" else POLL_INTERVAL_MS),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A plain consumer of the group, in a process of its own: `python -m demo.plain_member`.

It reports on its standard output, one JSON object a line, and leaves the group when its standard input ends: so it ends
with whoever started it, whatever happens to that one.
"""

import json
import sys
import threading
import time
from pathlib import Path

from demo.sink import PlainSink
from muster import CommitRefused, Consumer, TopicPartition

SESSION_TIMEOUT_MS = 6_000
"""The shortest a daemon allows unless told otherwise: how long the killed one is missed."""


def run(bootstrap: str, group: str, topic: str, name: str, folder: Path, records_per_s: int) -> None:
    leaving = threading.Event()
    threading.Thread(target=leave_at_end_of_input, args=(leaving,), daemon=True).start()
    sink = PlainSink(folder, name)
    held: tuple[TopicPartition, ...] | None = None
    with Consumer(
        bootstrap,
        group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1_000,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=1_000,
        client_id=name,
    ) as consumer:
        consumer.subscribe([topic])
        free_at = time.monotonic()
        while not leaving.is_set():
            records = consumer.poll(0.2)
            if consumer.assignment != held:
                held = consumer.assignment
                report(holds=[one.partition for one in held])
            if not records:
                continue
            sink.write(records)
            try:
                consumer.commit()
            except CommitRefused as refused:
                report(refused=str(refused))
            report(read=len(records))
            # What it does with a record takes its time, as in a real job; heartbeats go on meanwhile.
            free_at = max(free_at, time.monotonic()) + len(records) / records_per_s
            leaving.wait(max(0.0, free_at - time.monotonic() - 0.05))


def report(**what: object) -> None:
    print(json.dumps(what), flush=True)


def leave_at_end_of_input(leaving: threading.Event) -> None:
    sys.stdin.read()
    leaving.set()


if __name__ == "__main__":
    bootstrap, group, topic, name, folder, records_per_s = sys.argv[1:]
    run(bootstrap, group, topic, name, Path(folder), int(records_per_s))

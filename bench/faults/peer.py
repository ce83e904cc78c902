"""Clients on the other machine: `python -m bench.faults.peer members|idle|waiting BOOTSTRAP COUNT`; ends when killed.

`ready` on stdout: the members share their topic with others, the idle have asked once, the waiting have asked for what
comes late. Members go on whatever becomes of the network.
"""

import sys
import time

from bench.faults.clients import TOPIC, Crew
from bench.wire import Wire


def main() -> None:
    kind, bootstrap, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    host, _, port = bootstrap.rpartition(":")
    if kind == "members":
        with Crew(bootstrap, count) as crew:
            while 0 in crew.assigned:
                time.sleep(0.05)
            _rest()
    wires = [Wire((host, int(port))) for _ in range(count)]
    for wire in wires:
        wire.call("DescribeNode")
        if kind == "waiting":
            topics = [{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0}]}]
            wire.send("Fetch", topics=topics, max_wait_ms=3_600_000, min_bytes=1)
    _rest()


def _rest() -> None:
    print("ready", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()

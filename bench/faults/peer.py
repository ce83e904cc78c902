"""Clients on the other machine: `python -m bench.faults.peer members|crowd|waiting BOOTSTRAP [COUNT]`, until killed.

`ready` on stdout: the members share their topic with others, the crowd has taken all connections there are, the waiting
have asked for what comes late. Members go on whatever becomes of the network.
"""

import contextlib
import sys
import threading
import time

from bench.faults.clients import TOPIC, Crew
from bench.wire import Wire


def main() -> None:
    kind, bootstrap, *rest = sys.argv[1:]
    host, _, port = bootstrap.rpartition(":")
    if kind == "crowd":
        _crowd((host, int(port)))
    elif kind == "waiting":
        _wait((host, int(port)), int(rest[0]))
    else:
        _be_members(bootstrap, int(rest[0]))


def _be_members(bootstrap: str, count: int) -> None:
    with Crew(bootstrap, count) as crew:
        while 0 in crew.assigned:
            time.sleep(0.05)
        _rest()


def _crowd(address: tuple[str, int]) -> None:
    """Connections that have asked once, as many as are let in, and each that becomes free later."""
    wires = []
    while True:
        try:
            wire = Wire(address)
            wire.call("DescribeNode")
            wires.append(wire)
        except OSError:
            print("ready", flush=True)
            time.sleep(0.1)


def _wait(address: tuple[str, int], count: int) -> None:
    wires = [Wire(address) for _ in range(count)]
    topics = [{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0}]}]
    for wire in wires:
        wire.call("DescribeNode")
        wire.send("Fetch", topics=topics, max_wait_ms=3_600_000, min_bytes=1)
    _rest()


def _rest() -> None:
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()

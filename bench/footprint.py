"""Bytes that a node by itself allocates for a connection and a member: `python -m bench footprint`. They are those of
Python's objects, by `tracemalloc`, the group's committed offsets included: sockets, the loop's transports and the
allocator's gaps are not in it. What a whole process grows by is a figure of `idle`.
"""

import gc
import tracemalloc
from collections.abc import Callable

from bench.alone import requests_of
from bench.node_rig import CONNECTIONS, Rig
from bench.processes import scratch
from bench.report import Options, Sheet, Value
from protocol.messages.groups import JoinGroupReply

MEMBERS = 1_000
_QUICK = 10


def measure(options: Options) -> list[Sheet]:
    """Take many members through the same stations, and count what each of these leaves behind."""
    count = MEMBERS // (_QUICK if options.quick else 1)
    numbers = range(CONNECTIONS, CONNECTIONS + count)
    members: list[tuple[str, JoinGroupReply]] = []
    rows: list[tuple[Value, ...]] = []
    with scratch(in_memory=True) as folder:
        rig = Rig(folder)

        def station(name: str, act: Callable[[int], None]) -> None:
            rig.settle()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for number in numbers:
                act(number)
            rig.settle()
            gc.collect()
            rows.append((name, (tracemalloc.get_traced_memory()[0] - before) / count))

        tracemalloc.start()
        try:
            station("a connection is opened", rig.open)
            station("a group is made, with one member", lambda number: members.append(rig.join(number)))
            for kind, frames in requests_of(members).items():
                station(kind, lambda number, frames=frames: rig.send(number, bytes(frames[number - CONNECTIONS])))  # type: ignore[misc]
        finally:
            tracemalloc.stop()
    return [Sheet("The node alone: bytes of Python's objects", ("station", "bytes a connection"), rows)]

"""A member of a group that reads by grants, in a process of its own, to be killed: `python -m bench.owning_reader KIND
BOOTSTRAP GROUP TOPIC NODE NODES RATE FILE`.

What it hands out stands in FILE before the next message is asked for: the clock of the machine, partition and offset of
each. A line on stdin, or its end, lets it leave in good order.
"""

import os
import sys
import threading
import time
from struct import Struct

from muster import ClientBalancedConsumer
from muster.balanced import BalancedConfig, BalancedLoop
from muster.streams import MessageStream, StreamsConnector

LINE = Struct("<dIQ")
THREADS = 2
SESSION_MS = 6_000
_PACE_EVERY = 100


class Diary:
    """Takes what was handed out, no faster than `rate` messages a second."""

    def __init__(self, path: str, rate: float) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._pause_s = _PACE_EVERY / rate

    def note(self, partition: int, offset: int) -> None:
        os.write(self._file, LINE.pack(time.monotonic(), partition, offset))
        if offset % _PACE_EVERY == 0:
            time.sleep(self._pause_s)


def read_streams(bootstrap: str, group: str, topic: str, diary: Diary, ended: threading.Event) -> None:
    connector = StreamsConnector(
        bootstrap,
        group,
        auto_offset_reset="smallest",
        session_timeout_ms=SESSION_MS,
        auto_commit_interval_ms=500,
        rebalance_backoff_ms=200,
    )
    streams = connector.create_message_streams({topic: THREADS})[topic]

    def iterate(stream: MessageStream) -> None:
        for record in stream:
            diary.note(record.partition, record.offset)

    threads = [threading.Thread(target=iterate, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    ended.wait()
    connector.shutdown()
    for thread in threads:
        thread.join()


def read_balanced(
    bootstrap: str, group: str, topic: str, node: int, nodes: int, diary: Diary, ended: threading.Event
) -> None:
    config = BalancedConfig(
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 3,
        consume_position="first",
        instance_id=f"node-{node}",
        meta_check_period_ms=5_000,
        ready_wait_ms=500,
        fetch_max_bytes=64 << 10,
    )
    with ClientBalancedConsumer(bootstrap, group, config) as consumer:
        while not ended.is_set() and not (started := consumer.start({topic: None}, nodes, node)).ok:
            print(started.code, started.msg, file=sys.stderr, flush=True)
        with BalancedLoop(consumer, period_s=0.5):
            while not ended.is_set():
                said = consumer.get_message()
                if said.ok:
                    for record in said.data.messages:
                        diary.note(record.partition, record.offset)
                    consumer.confirm_consume(said.data.confirm_ctx)


def main(kind: str, bootstrap: str, group: str, topic: str, node: int, nodes: int, rate: float, path: str) -> None:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    diary = Diary(path, rate)
    if kind == "streams":
        read_streams(bootstrap, group, topic, diary, ended)
    else:
        read_balanced(bootstrap, group, topic, node, nodes, diary, ended)


if __name__ == "__main__":
    given = sys.argv
    main(given[1], given[2], given[3], given[4], int(given[5]), int(given[6]), float(given[7]), given[8])

"""One of several members that divide a topic among themselves:
`python consume_client_balanced.py HOST:PORT GROUP TOPIC SOURCE_COUNT NODE_ID SECONDS`.

Start it SOURCE_COUNT times, as node 0, 1 and so on. If a node is missing, no other takes over its share: the others
only warn.
"""

import logging
import sys
import time

from muster import ClientBalancedConsumer
from muster.balanced import BalancedConfig, BalancedLoop, Round


def say(done: Round) -> None:
    for word, keys in (("connected", done.connected), ("gave up", done.released)):
        if keys:
            print(f"{word} {' '.join(keys)}\n", end="", flush=True)  # in one piece: the loop runs in another thread


def main(bootstrap: str, group: str, topic: str, source_count: int, node_id: int, seconds: float) -> None:
    ends = time.monotonic() + seconds
    config = BalancedConfig(consume_position="first", ready_wait_ms=500)
    with ClientBalancedConsumer(bootstrap, group, config) as consumer:
        started = consumer.start({topic: None}, source_count, node_id)
        if not started.ok:
            sys.exit(f"{started.code}: {started.msg}")
        with BalancedLoop(consumer, on_round=say):  # the same share function in every member: hash_mod
            while time.monotonic() < ends:
                said = consumer.get_message()
                if not said.ok:
                    continue  # 404 to 408: no record at the moment
                for record in said.data.messages:
                    print(f"{said.data.key} {record.offset} {record.value!r}\n", end="", flush=True)
                consumer.confirm_consume(said.data.confirm_ctx)  # until then this partition returns no further record


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit("usage: python consume_client_balanced.py HOST:PORT GROUP TOPIC SOURCE_COUNT NODE_ID SECONDS")
    logging.basicConfig(format="%(message)s")
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))

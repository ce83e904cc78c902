"""A member of a client-balanced group in a process of its own, which may be killed at any moment:
`python -m tests.edges.balanced_reader BOOTSTRAP TOPIC SOURCE_COUNT NODE_ID FILE`; the group has the topic's name.
Each batch is written there as a line, its key, first and next offset, before it is confirmed. Ends when its input does.
"""

import os
import sys
import threading

from muster import ClientBalancedConsumer
from muster.balanced import BalancedConfig, BalancedLoop

FETCH_BYTES = 20_000


def main(bootstrap: str, topic: str, source_count: int, node_id: int, path: str) -> None:
    is_over = threading.Event()

    def end_with_input() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=end_with_input, daemon=True).start()
    config = BalancedConfig(
        consume_position="first",
        fetch_max_bytes=FETCH_BYTES,
        instance_id=f"node-{node_id}",
        ready_wait_ms=200,
        not_found_wait_ms=50,
    )
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with ClientBalancedConsumer(bootstrap, topic, config) as consumer:
        said = consumer.start({topic: None}, source_count, node_id)
        assert said.ok, said
        with BalancedLoop(consumer, period_s=0.5):
            while not is_over.is_set():
                said = consumer.get_message()
                if said.ok:
                    first = said.data.messages[0].offset
                    os.write(out, f"{said.data.key} {first} {said.data.curr}\n".encode())
                    consumer.confirm_consume(said.data.confirm_ctx)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])

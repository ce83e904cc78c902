"""A member that does not interrupt others: `python examples/cooperative.py [HOST:PORT [NAME]]`, until Ctrl-C.

Start it as `a`, then as `b`: `a` revokes only the partitions that move, and reads the others meanwhile (cooperative
rebalancing). Stop `b` and start it again within its session timeout of ten seconds: since it has an instance id, it
keeps its partitions without a rebalance (static membership). All members of the group must offer assignors of the same
kind.
"""

import sys
from contextlib import suppress

from muster import Consumer, TopicPartition

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
NAME = sys.argv[2] if len(sys.argv) > 2 else "a"


def say(word: str, partitions: tuple[TopicPartition, ...]) -> None:
    print(word, [one.partition for one in partitions], flush=True)


consumer = Consumer(
    BOOTSTRAP,
    "cooperative",
    auto_offset_reset="earliest",
    assignors=["cooperative-sticky"],
    group_instance_id=NAME,
    session_timeout_ms=10_000,
)
with suppress(KeyboardInterrupt), consumer:
    consumer.subscribe(
        ["orders"],
        on_assigned=lambda added: say("given", added),  # only new partitions: the others were kept
        on_revoked=lambda going: say("gave up", going),
    )
    for record in consumer:
        print(record.partition, record.offset, record.value, flush=True)

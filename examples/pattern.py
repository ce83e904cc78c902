"""Every topic whose name matches: `python examples/pattern.py [HOST:PORT [PATTERN]]`, until Ctrl-C.

Topics created later are found too. The listeners are called from `poll` and `close`, in the order of events. When
partitions are revoked, work on them can still be finished and committed. When partitions are lost, other members may
own them already, and uncommitted work on them is repeated there.
"""

import sys
from collections import Counter
from contextlib import suppress

from muster import Consumer, TopicPartition

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
PATTERN = sys.argv[2] if len(sys.argv) > 2 else "order.*"

seen = Counter[TopicPartition]()


def given(partitions: tuple[TopicPartition, ...]) -> None:
    print("given", *partitions, flush=True)


def revoked(partitions: tuple[TopicPartition, ...]) -> None:
    consumer.commit()
    for one in partitions:
        print("gave up", one, "after", seen.pop(one, 0), flush=True)


def lost(partitions: tuple[TopicPartition, ...]) -> None:
    for one in partitions:
        print("lost", one, "and", seen.pop(one, 0), "records are read again", flush=True)


consumer = Consumer(BOOTSTRAP, "pattern", auto_offset_reset="earliest", enable_auto_commit=False)
with suppress(KeyboardInterrupt), consumer:
    consumer.subscribe(pattern=PATTERN, on_assigned=given, on_revoked=revoked, on_lost=lost)
    while True:
        for record in consumer.poll():
            print(record.topic, record.partition, record.offset, record.value, flush=True)
            seen[TopicPartition(record.topic, record.partition)] += 1

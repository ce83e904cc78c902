"""At least once: `python examples/poll_loop.py [HOST:PORT]`, until Ctrl-C.

Records are committed after they were processed. If a member dies before that, others process its records again: a
record may be processed twice, and none is skipped. Start it several times: the members divide the partitions among
them.
"""

import sys
from contextlib import suppress

from muster import CommitRefused, Consumer, ConsumerRecord

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"


def work_on(record: ConsumerRecord) -> None:
    print(record.partition, record.offset, record.value, flush=True)


def consume(consumer: Consumer) -> None:
    consumer.subscribe(["orders"])
    while True:
        records = consumer.poll(timeout_s=1.0)
        for record in records:
            work_on(record)
        if records:
            try:
                consumer.commit()  # everything polled so far
            except CommitRefused as refused:
                print("others will repeat what was not committed:", refused, flush=True)


with (
    suppress(KeyboardInterrupt),
    Consumer(BOOTSTRAP, "poll-loop", auto_offset_reset="earliest", enable_auto_commit=False) as consumer,
):
    consume(consumer)

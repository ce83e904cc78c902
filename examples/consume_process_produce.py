"""Produces to another topic: `python examples/consume_process_produce.py [HOST:PORT]`, until Ctrl-C. It needs a second
topic: `muster topics create receipts --partitions 4`.

The producer is idempotent: it writes each record once and in order, even if connections are lost. Offsets are committed
once the records produced from them are on disk. So no record is skipped; after a crash some are produced again.
"""

import sys
from contextlib import suppress

from muster import CommitRefused, Consumer, Producer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"


def receipt(order: bytes | None) -> bytes:
    return b"paid: " + (order or b"nothing")


with (
    suppress(KeyboardInterrupt),
    Producer(BOOTSTRAP, compression="zstd", linger_ms=20) as producer,
    Consumer(BOOTSTRAP, "till", auto_offset_reset="earliest", enable_auto_commit=False) as consumer,
):
    consumer.subscribe(["orders"])
    while True:
        records = consumer.poll()
        for record in records:
            producer.send("receipts", receipt(record.value), key=record.key, headers={"order": b"%d" % record.offset})
        producer.flush()  # raises the error of a failed record: then nothing is committed
        if records:
            with suppress(CommitRefused):  # other members own the partitions now, and will produce these again
                consumer.commit()
            print(len(records), "receipts", flush=True)

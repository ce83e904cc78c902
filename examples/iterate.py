"""Reads ten records and leaves: `python examples/iterate.py [HOST:PORT [COUNT]]`. The next run continues after them.

Commits are automatic: every five seconds, before a rebalance revokes partitions, and at the end. They cover the records
that the loop has received, not all fetched ones. A record that cannot be decoded raises an error that names it; this
program continues after it.
"""

import json
import sys

from muster import CannotDeserialize, Consumer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 10

with Consumer(BOOTSTRAP, "iterate", auto_offset_reset="earliest", value_deserializer=json.loads) as consumer:
    consumer.subscribe(["orders"])
    left = COUNT
    while left:
        try:
            for record in consumer:
                print(record.partition, record.offset, record.value, flush=True)
                left -= 1
                if not left:
                    break
        except CannotDeserialize as error:
            print("passed over:", error, flush=True)
            consumer.seek(error.partition, error.offset + 1)

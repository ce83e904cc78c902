"""Prints records written since a time, and the lag: `python examples/from_a_time.py [HOST:PORT [MINUTES]]`, until
Ctrl-C.
"""

import sys
import time
from contextlib import suppress

from muster import Consumer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0


def begin(consumer: Consumer) -> None:
    partitions = consumer.partitions_for("orders")
    consumer.assign(partitions)
    since_ms = int((time.time() - MINUTES * 60) * 1000)
    for one, offset in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
        if offset is None:  # no record was written since
            consumer.seek_to_end(one)
        else:
            consumer.seek(one, offset)


with suppress(KeyboardInterrupt), Consumer(BOOTSTRAP, max_poll_records=100) as consumer:
    begin(consumer)
    while True:
        records = consumer.poll()
        lags = {one: consumer.current_lag(one) for one in consumer.assignment}  # None: not known yet
        behind = sum(lag for lag in lags.values() if lag is not None)
        if records:
            print(len(records), "records,", behind, "behind", flush=True)

"""The same client with any Kafka cluster: `python examples/over_kafka.py [kafka://HOST:PORT,...]`.

`kafka://` is the only difference. The default address is that of a musterd, which speaks Kafka's protocol too.
"""

import sys

from muster import Consumer, Producer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "kafka://127.0.0.1:9092"

with Producer(BOOTSTRAP, compression="gzip") as producer:
    written = producer.send("orders", "one tea", key="table-4", headers={"waiter": b"Ada"}).result(timeout_s=10)
    print("written", written.partition, written.offset, flush=True)

with Consumer(BOOTSTRAP, "over-kafka", auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
    consumer.subscribe(["orders"])
    for record in consumer:
        print(record.partition, record.offset, record.key, record.value, dict(record.headers), flush=True)
        if (record.partition, record.offset) == (written.partition, written.offset):
            break

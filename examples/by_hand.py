"""The last three records of each partition: `python examples/by_hand.py [HOST:PORT [COUNT]]`.

The program uses no group and no commits: it assigns its partitions itself, and seeks to where it reads.
"""

import sys

from muster import Consumer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 3

with Consumer(BOOTSTRAP) as consumer:
    partitions = consumer.partitions_for("orders")
    begins, ends = consumer.begin_offsets(partitions), consumer.end_offsets(partitions)
    consumer.assign(partitions)
    for one in partitions:
        consumer.seek(one, max(begins[one], ends[one] - COUNT))
    while any(consumer.position(one) < ends[one] for one in partitions):
        for record in consumer.poll():
            print(record.partition, record.offset, record.value, flush=True)

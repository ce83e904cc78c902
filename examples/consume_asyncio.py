"""Reads in an event loop, as a member of a group: `python examples/consume_asyncio.py [HOST:PORT [SECONDS]]`.

Start it several times: the members divide the partitions among them, and each continues from the committed offsets.
`kafka://HOST:PORT` connects over Kafka's protocol.
"""

import asyncio
import sys
from contextlib import suppress

from muster import TopicPartition
from muster.aio import Consumer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0


async def count(consumer: Consumer) -> int:
    seen = 0

    async def say(word: str, partitions: tuple[TopicPartition, ...]) -> None:
        held = sorted(one.partition for one in partitions)
        print(word, held, flush=True)

    async def let_go(partitions: tuple[TopicPartition, ...]) -> None:
        await consumer.commit()  # the records read so far are done
        await say("gave up", partitions)

    consumer.subscribe(["orders"], on_assigned=lambda partitions: say("was given", partitions), on_revoked=let_go)
    with suppress(asyncio.CancelledError):  # the time is over: records that were not printed are not committed
        async for record in consumer:
            print(record.partition, record.offset, record.value, flush=True)
            seen += 1
    return seen


async def main() -> None:
    async with Consumer(BOOTSTRAP, "asyncio", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        counting = asyncio.create_task(count(consumer))
        await asyncio.wait((counting,), timeout=SECONDS)
        counting.cancel()
        print("read", await counting, "records")


asyncio.run(main())

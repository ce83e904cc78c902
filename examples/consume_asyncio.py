"""Reads a topic in an event loop, as a member of a group: `python consume_asyncio.py HOST:PORT GROUP TOPIC SECONDS`.

Start it several times: the members divide the partitions among them, and each goes on from what was committed.
`kafka://HOST:PORT` is another way in.
"""

import asyncio
import sys
from contextlib import suppress

from muster import TopicPartition
from muster.aio import Consumer


async def count(consumer: Consumer, topic: str) -> int:
    seen = 0

    async def say(word: str, partitions: tuple[TopicPartition, ...]) -> None:
        held = sorted(one.partition for one in partitions)
        print(word, held, flush=True)

    async def let_go(partitions: tuple[TopicPartition, ...]) -> None:
        await consumer.commit()  # what was read so far still counts
        await say("gave up", partitions)

    consumer.subscribe([topic], on_assigned=lambda partitions: say("was given", partitions), on_revoked=let_go)
    with suppress(asyncio.CancelledError):  # the time is over: nothing that was not printed is lost
        async for record in consumer:
            print(record.partition, record.offset, record.value, flush=True)
            seen += 1
    return seen


async def main(bootstrap: str, group: str, topic: str, seconds: float) -> None:
    async with Consumer(bootstrap, group, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        counting = asyncio.create_task(count(consumer, topic))
        await asyncio.wait((counting,), timeout=seconds)
        counting.cancel()
        print("read", await counting, "records")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: python consume_asyncio.py HOST:PORT GROUP TOPIC SECONDS")
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))

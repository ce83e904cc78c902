"""EDGE: the client for programs with an event loop, over the same cores as `muster.blocking`.

from muster.aio import Consumer

async with Consumer("127.0.0.1:9390", "billing") as consumer:
    consumer.subscribe(["orders"])
    async for record in consumer:
        print(record.value)
"""

from muster.aio.consumer import Consumer
from muster.aio.group_member import GroupMember
from muster.aio.guard import Listener
from muster.aio.producer import Producer
from muster.aio.sent import Sent

__all__ = ["Consumer", "GroupMember", "Listener", "Producer", "Sent"]

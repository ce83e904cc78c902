"""Members of groups that the coordinator balances, over Kafka's protocol, or natively with pushes."""

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    JOINING,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicIdPartitions,
)
from protocol.native.client import NativeAnswer, NativeClient

PATIENCE_S = 300.0
_COMES_UP_S = 60.0
VERSION = 1
_TIMEOUT_MS = 600_000
_MAX_FRAME_BYTES = 1 << 26
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of a server that has just come up."""
_LOOKS_S = 0.005
"""Pause between looks at all members of a group."""


class Refused(Exception):
    """A heartbeat was answered with an error: members that wait for their turn longer than a session are fenced."""


class Asking(Protocol):
    """A connection that a member asks over, one request at a time."""

    async def ask(self, message: Message, version: int) -> Message: ...

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the server has pushed something."""

    def close(self) -> None: ...


class KafkaAsking:
    """A connection of Kafka's protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._client = KafkaClient("bench", _MAX_FRAME_BYTES)

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, message: Message, version: int) -> Message:
        self._writer.write(self._client.encode_request(message, version)[1])
        while data := await self._reader.read(1 << 18):
            for answer in self._client.receive_data(data):
                return answer.reply
        raise ConnectionResetError("the server closed the connection")

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self) -> None:
        self._writer.close()


class NativeAsking:
    """A native connection of one member: what is pushed to it is the member's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._client = NativeClient(_MAX_FRAME_BYTES)
        self._is_pushed = False

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, message: Message, _version: int) -> Message:
        self._writer.write(self._client.encode_request(message)[1])
        while True:
            if (reply := await self._hear()) is not None:
                return reply

    async def pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not self._is_pushed:
                    await self._hear()
        except TimeoutError:
            pass
        self._is_pushed = False

    async def _hear(self) -> Message | None:
        data = await self._reader.read(1 << 18)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        reply = None
        for heard in self._client.receive_data(data):
            if isinstance(heard, NativeAnswer):
                reply = heard.reply
            else:
                self._is_pushed = True
        return reply

    def close(self) -> None:
        self._writer.close()


class BalancedMember:
    """A member that does as the protocol says; `owned` is what it may use."""

    def __init__(self, group_id: str, topics: tuple[str, ...], changed: asyncio.Event) -> None:
        """`changed` is set with each new epoch or assignment."""
        self.epoch = JOINING
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self.interval_s = 0.0
        self._group_id, self._topics, self._changed = group_id, topics, changed
        self._id = str(uuid.uuid4())
        self._reported: tuple[TopicIdPartitions, ...] | None = None

    @property
    def count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    def request(self) -> ConsumerGroupHeartbeat:
        """Build its next heartbeat: it joins, reports what it owns if that has changed, or says no more than that it is
        alive."""
        is_new = self.epoch == JOINING
        owned = None if self.owned == self._reported and not is_new else self.owned
        self._reported = self.owned
        return ConsumerGroupHeartbeat(
            group_id=self._group_id,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=_TIMEOUT_MS if is_new else -1,
            subscribed_topic_names=self._topics if is_new else None,
            topic_partitions=owned,
        )

    def hear(self, reply: ConsumerGroupHeartbeatReply) -> None:
        """Take what the reply says. Raises Refused."""
        if reply.error_code is not ErrorCode.NONE:
            raise Refused(f"a heartbeat was answered {reply.error_code.name}: {reply.error_message}")
        if reply.member_epoch != self.epoch or reply.assignment is not None:
            self._changed.set()
        self.epoch, self.interval_s = reply.member_epoch, reply.heartbeat_interval_ms / 1e3
        if reply.assignment is not None:
            self.owned = reply.assignment.topic_partitions

    async def beat(self, connection: Asking) -> None:
        """Send its next heartbeat. Raises Refused."""
        request = self.request()
        ends = time.monotonic() + _COMES_UP_S
        while True:
            reply = await connection.ask(request, VERSION)
            assert isinstance(reply, ConsumerGroupHeartbeatReply)
            if reply.error_code not in _NOT_YET or time.monotonic() > ends:
                break
            await asyncio.sleep(0.1)
        self.hear(reply)

    async def live(self, connection: Asking, first_s: float) -> None:
        """Send heartbeats in the server's interval, the first after `first_s`; at once what was given up or received,
        and when the server pushes. Those in between move no turn."""
        due_s = time.monotonic() + first_s
        while True:
            if self.owned == self._reported:
                await connection.pause(max(due_s - time.monotonic(), 0.0))
            await self.beat(connection)
            if time.monotonic() >= due_s:
                due_s += self.interval_s


class BalancedGroup:
    """Members that share all partitions of some topics."""

    def __init__(self, topics: Mapping[str, int], connections: Sequence[Asking]) -> None:
        """`topics`: their numbers of partitions."""
        self._topics, self._partitions = tuple(topics), sum(topics.values())
        self._connections = connections
        self.group_id = f"bench-{uuid.uuid4().hex[:8]}"
        self.members: list[BalancedMember] = []
        self._epoch_before = JOINING
        self._changed = asyncio.Event()

    @property
    def is_balanced(self) -> bool:
        """Return whether all own their shares and are at one epoch, newer than before the last came."""
        epochs = {member.epoch for member in self.members}
        return len(epochs) == 1 and epochs.pop() > self._epoch_before and self.owns_all

    @property
    def owns_all(self) -> bool:
        """Return whether the members own all partitions, as many each but for one. Members whose shares stay as they
        are may learn the newest epoch later."""
        counts = [member.count for member in self.members]
        return sum(counts) == self._partitions and max(counts) - min(counts) <= 1

    async def add(self, count: int) -> None:
        """Returns once everybody owns its share. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            await self.make(count).beat(self._connections[0])
            while not self.is_balanced:
                await self.beat()

    def make(self, count: int) -> BalancedMember:
        """Add members that have not joined yet; returns the last of them."""
        self._epoch_before = max((member.epoch for member in self.members), default=JOINING)
        self.members += [BalancedMember(self.group_id, self._topics, self._changed) for _ in range(count)]
        return self.members[-1]

    async def until_owned(self) -> None:
        """Returns once everybody owns its share; members live by themselves. There are more partitions than members,
        so a new member changes others' shares. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.owns_all:
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(_LOOKS_S)

    async def beat(self) -> None:
        """Send a heartbeat of every member, those of one connection one after the other."""
        await asyncio.gather(*[self._beat_some(number) for number in range(len(self._connections))])

    async def _beat_some(self, number: int) -> None:
        for member in self.members[number :: len(self._connections)]:
            await member.beat(self._connections[number])

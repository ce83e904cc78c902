"""A consumer's loop around a fetcher, in a world of nodes, delays and losses with a clock of its own.

`poll` is docs/spec/consumer-client.md#B1 without its coordinator: collect, send what comes next, wait for something
usable.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from membership.events import (
    CallFailed,
    HangUp,
    MemberEffect,
    MemberEvent,
    NodeAddress,
    Replied,
    SendRequest,
    TimePassed,
)
from membership.topic_partition import TopicPartition
from muster.core.fetching.fetcher import Fetcher
from muster.core.fetching.records import ConsumerRecord
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import ConsumerPositions
from muster.errors import MusterError
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchReply, OffsetForLeaderEpoch
from protocol.messages.offsets import ListOffsets
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.record_batch import decode_batch, read_header
from tests.client.fetching.nodes import Log, Node

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def address(number: int) -> NodeAddress:
    return NodeAddress("node", number, number)


class World:
    """`leaders[n]` is the node of partition n of topic t. Requests that reached a node are in `requests`."""

    def __init__(self, *leaders: int, offsets: Iterable[int] | None = None, nodes: int = 3, **settings: Any) -> None:
        self.now_ms = 0
        self.logs = {TopicPartition("t", number): Log(leader) for number, leader in enumerate(leaders)}
        self.nodes = [Node(number, self.logs) for number in range(nodes)]
        self.usual_ms = 1
        self.slow: dict[NodeAddress | None, int] = {}
        self.loses: Callable[[Message], bool] = lambda _message: False
        self.requests: list[tuple[int, int, Fetch]] = []
        self.answers: list[FetchReply] = []
        self.others: list[Message] = []
        self.errors: list[MusterError] = []
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._parked: list[tuple[int, int, SendRequest, int, dict[TopicPartition, FetchPartition]]] = []
        self._happened = 0
        self.subscription = ConsumerPositions()
        self.fetcher = Fetcher(self.subscription, FetchSettings(**settings))
        self.subscription.assign(self.logs)
        for one, offset in zip(self.logs, offsets or [0] * len(leaders), strict=True):
            self.subscription.seek(one, offset)

    # -- the consumer

    def poll(self, timeout_ms: int = 0, most: int = 500) -> list[ConsumerRecord]:
        end_ms = self.now_ms + timeout_ms
        while True:
            records = self.fetcher.take(most)
            self.feed(TimePassed())
            if records or self.fetcher.made_progress or self.now_ms >= end_ms:
                return records
            self.run(end_ms, until=lambda: self.fetcher.has_something)

    def offsets(self, timeout_ms: int = 1_000, most: int = 500) -> list[int]:
        return [record.offset for record in self.poll(timeout_ms, most)]

    def feed(self, event: MemberEvent) -> None:
        self.carry_out(self.fetcher.step(event, self.now_ms))

    def carry_out(self, effects: list[MemberEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendRequest):
                self._send(effect)
            else:
                assert isinstance(effect, HangUp)

    # -- time and the network

    def run(self, end_ms: int, until: Callable[[], bool] = lambda: False) -> None:
        """Advance the simulation up to `end_ms`, or `until` a condition holds."""
        steps = 0
        while not until():
            steps += 1
            assert steps < 5_000, "the fetcher never rests"
            due_ms = self.fetcher.next_deadline_ms
            parked_ms = min((one[0] for one in self._parked), default=end_ms)
            at_ms = min(end_ms, parked_ms, self._coming[0][0] if self._coming else end_ms)
            if due_ms is not None and due_ms < at_ms:
                self.now_ms = max(due_ms, self.now_ms)
                self.feed(TimePassed())
                continue
            self.now_ms = max(at_ms, self.now_ms)
            if self._coming and self._coming[0][0] <= self.now_ms:
                heapq.heappop(self._coming)[2]()
            elif self.now_ms >= end_ms and parked_ms > self.now_ms:
                return
            self._unpark()
            if self.now_ms >= end_ms and not (self._coming and self._coming[0][0] <= end_ms):
                return

    def rest(self, milliseconds: int = 50) -> None:
        """Let time pass while the application does something else."""
        self.run(self.now_ms + milliseconds)

    def between_requests(self) -> None:
        """Advance until a reply is under way and no fetch waits at a node."""
        self.run(self.now_ms + 60_000, until=lambda: bool(self._parked))
        self.run(self.now_ms + 60_000, until=lambda: not self._parked)

    def after(self, milliseconds: int, happens: Callable[[], None]) -> None:
        self._happened += 1
        heapq.heappush(self._coming, (self.now_ms + milliseconds, self._happened, happens))

    def append(self, one: TopicPartition, count: int, **more: Any) -> None:
        self.logs[one].append(count, **more)
        self._unpark()

    def _send(self, call: SendRequest) -> None:
        delay_ms = self.slow.get(call.node, self.usual_ms)
        if self.loses(call.message):
            self.after(delay_ms, lambda: self.feed(CallFailed(call.call)))
        else:
            self.after(delay_ms, lambda: self._arrive(call))

    def _arrive(self, call: SendRequest) -> None:
        message, node = call.message, self.nodes[call.node.node_id if call.node else 0]
        if isinstance(message, Fetch):
            self.requests.append((self.now_ms, node.number, message))
            begun = node.begin(message)
            if isinstance(begun, FetchReply):
                self._reply(call, begun)
            else:
                self._parked.append((self.now_ms + message.max_wait_ms, node.number, call, *begun))
                self._unpark()
            return
        self.others.append(message)
        if isinstance(message, Metadata):
            self._reply(call, self._metadata())
        elif isinstance(message, ListOffsets):
            self._reply(call, node.list_offsets(message))
        else:
            assert isinstance(message, OffsetForLeaderEpoch)
            self._reply(call, node.end_offsets(message))

    def _unpark(self) -> None:
        for parked in tuple(self._parked):
            until_ms, number, call, session_id, wanted = parked
            node = self.nodes[number]
            assert isinstance(call.message, Fetch)
            if until_ms <= self.now_ms or node.has_news(call.message, wanted):
                self._parked.remove(parked)
                self._reply(call, node.answer(call.message, session_id, wanted))

    def _reply(self, call: SendRequest, reply: Message) -> None:
        if isinstance(reply, FetchReply):
            self.answers.append(reply)
        self.after(self.slow.get(call.node, self.usual_ms), lambda: self.feed(Replied(call.call, reply)))

    def _metadata(self) -> MetadataReply:
        brokers = tuple(MetadataBroker(number, *address(number)[:2]) for number in range(len(self.nodes)))
        partitions = tuple(
            MetadataPartitionReply(one.partition, log.leader, leader_epoch=log.epoch) for one, log in self.logs.items()
        )
        return MetadataReply(brokers, topics=(MetadataTopicReply("t", partitions=partitions),))

    # -- looking

    def records(self, one: TopicPartition) -> list[int]:
        """Return the offsets with a record for the application."""
        found: list[int] = []
        for batch in self.logs[one].batches:
            if not read_header(batch).is_control:
                found += [record.offset for record in decode_batch(batch)]
        return found

    def asked(self) -> Iterator[tuple[int, dict[int, int]]]:
        """Fetches that reached a node: the node, and the partitions named with their offsets."""
        for _, number, message in self.requests:
            yield number, {one.partition: one.fetch_offset for topic in message.topics for one in topic.partitions}

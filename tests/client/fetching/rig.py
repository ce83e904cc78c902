"""A rig for a fetcher: the test acts as nodes, network and clock."""

from typing import Any

from membership.events import CallFailed, HangUp, NodeAddress, Replied, SendRequest, TimePassed
from membership.topic_partition import TopicPartition
from muster.core.fetching.fetcher import Fetcher
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import ConsumerPositions
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.record_batch import encode_batch

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
NODES = tuple(NodeAddress("host", port, port) for port in range(3))


class FetcherRig:
    def __init__(self, positions: dict[TopicPartition, int], **settings: Any) -> None:
        self.subscription = ConsumerPositions()
        self.subscription.assign(positions)
        for one, offset in positions.items():
            self.subscription.seek(one, offset)
        self.fetcher = Fetcher(self.subscription, FetchSettings(**settings))
        self.now_ms = 0
        self.waiting: dict[int, SendRequest] = {}
        self.hung_up: list[NodeAddress | None] = []
        self.sent: list[tuple[NodeAddress | None, Message]] = []

    def feed(self, event: Any) -> "FetcherRig":
        for effect in self.fetcher.step(event, self.now_ms):
            if isinstance(effect, SendRequest):
                self.waiting[effect.call] = effect
                self.sent.append((effect.node, effect.message))
            else:
                assert isinstance(effect, HangUp)
                self.hung_up.append(effect.node)
        return self

    def wake(self, after_ms: int = 0) -> "FetcherRig":
        self.now_ms += after_ms
        return self.feed(TimePassed())

    def leaders(self, *nodes: int) -> "FetcherRig":
        """Make the n-th given node the leader of partition n of topic t."""
        brokers = tuple(MetadataBroker(node.node_id, node.host, node.port) for node in NODES)
        partitions = tuple(MetadataPartitionReply(number, node) for number, node in enumerate(nodes))
        return self.answer(Metadata, MetadataReply(brokers, topics=(MetadataTopicReply("t", partitions=partitions),)))

    def answer(self, kind: type[Message], reply: Message, node: int | None = None) -> "FetcherRig":
        return self.feed(Replied(self._oldest(kind, node), reply))

    def cut(self, kind: type[Message]) -> "FetcherRig":
        return self.feed(CallFailed(self._oldest(kind, None)))

    def _oldest(self, kind: type[Message], node: int | None) -> int:
        number = next(
            number
            for number, call in self.waiting.items()
            if isinstance(call.message, kind) and (node is None or call.node == NODES[node])
        )
        del self.waiting[number]
        return number

    def new(self) -> list[tuple[NodeAddress | None, Message]]:
        sent, self.sent = self.sent, []
        return sent

    def taken(self, at_most: int = 500) -> list[tuple[int, int]]:
        return [(one.partition, one.offset) for one in self.fetcher.take(at_most)]


def ready(positions: dict[TopicPartition, int], *leaders: int, **settings: Any) -> FetcherRig:
    """Run everything up to the first fetches."""
    return FetcherRig(positions, **settings).wake().leaders(*leaders)


def fetched(one: TopicPartition, offset: int = 0, count: int = 0, error: ErrorCode = ErrorCode.NONE) -> FetchReply:
    pairs = [(None, b"%d" % n) for n in range(count)]
    return fetched_bytes(one, encode_batch(pairs, timestamp_ms=1, base_offset=offset) if count else b"", error)


def fetched_bytes(one: TopicPartition, records: bytes, error: ErrorCode = ErrorCode.NONE) -> FetchReply:
    answer = FetchPartitionReply(one.partition, error, records=records)
    return FetchReply(responses=(FetchTopicReply(one.topic, (answer,)),))


def asked(message: Message) -> dict[int, int]:
    assert isinstance(message, Fetch)
    return {one.partition: one.fetch_offset for topic in message.topics for one in topic.partitions}

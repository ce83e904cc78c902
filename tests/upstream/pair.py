"""A gateway and a broker in memory: the broker is another node, with embedded topics. Bytes travel between them when
the test lets them."""

import random
from collections.abc import Callable
from typing import Any

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.gateway.brokers import Broker
from coordinator.gateway.effects import AbandonUpstream, Forward, Splice, UpstreamRequest
from coordinator.gateway.events import (
    BrokersFound,
    Forwarded,
    Spliced,
    UpstreamLost,
    UpstreamReply,
    UpstreamUnreachable,
)
from coordinator.gateway.gateway import Gateway
from coordinator.node.effects import Close, Effect, Flush, LogError, Pause, Resume, Return, RunJob, Send
from coordinator.node.events import Call, Event, Flushed, JobDone, Lost, Opened, Received, Woke
from coordinator.node.node import AnyNode, Node
from partition_log.store.log_store import LogStore
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigs
from protocol.messages.groups import DescribeGroups, ListGroups
from protocol.messages.node import ApiVersions, ApiVersionsReply, FindCoordinator
from protocol.messages.offsets import ListOffsets, OffsetFetch
from protocol.messages.topics import NO_TOPIC_ID, CreatePartitions, CreateTopics, DeleteTopics, Metadata
from protocol.native.client import NativeAnswer, NativeClient
from tests.groups.checks import CountingIds
from tests.node.node_rig import LIMITS, WALL_MS
from tests.simulation.disk import SimDisk

FRAME_BYTES = 1 << 20
_EDGE_VERSIONS: dict[type[Message], int] = {
    Metadata: 12,
    ListOffsets: 7,
    FindCoordinator: 4,
    DescribeGroups: 5,
    OffsetFetch: 9,
    ListGroups: 4,
    CreateTopics: 5,
    DeleteTopics: 5,
    CreatePartitions: 3,
    DescribeConfigs: 4,
}
"""Versions in which the edge usually sends these requests."""
_UPSTREAM, _OWN = 10_000, 20_000
"""Connection numbers at the broker: upstream sides of clients count from the first, the gateway's own connection has
the second."""


class PairNode:
    """A node on a disk of its own."""

    def __init__(self, kind: Callable[..., AnyNode], pair: "Pair", name: str, **settings: Any) -> None:
        self._config = Config(**{"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 3, **settings})
        self._kind = kind
        self._pair = pair
        self._name = name
        self.disk = SimDisk(1)
        self.node = self._begin()
        self.rest()

    def _begin(self) -> AnyNode:
        store = LogStore(self.disk, "data", LIMITS, cluster_id=self._name)
        store.open()
        addresses = {"native": (self._name, 9), "kafka": (self._name, 10)}
        return self._kind(self._config, store, CountingIds(), addresses, self._pair.moment)

    def restart(self) -> None:
        """Restart after a clean stop, with nothing but what is on the disk."""
        self.node.core.store.close(self.node.snapshots())
        self.node = self._begin()
        self.rest()

    def step(self, event: Event) -> None:
        for effect in self.node.step(event, self._pair.moment):
            if isinstance(effect, Flush):
                effect.job.run(self.disk)
                self.step(Flushed(effect.job.up_to))
            elif isinstance(effect, RunJob):
                effect.job.run(self.disk)
                self.step(JobDone(effect.call_id, effect.job))
            else:
                self._pair.carry_out(self, effect)

    def rest(self) -> None:
        for _ in range(10_000):
            deadline_ms = self.node.next_deadline_ms
            if deadline_ms is None or deadline_ms > self._pair.now_ms:
                return
            self.step(Woke())
        raise AssertionError("the node never rests")


class Pair:
    """The gateway `front` and its `broker`. While `is_cut` the broker cannot be reached; while `is_silent` it answers
    nothing."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.is_cut = self.is_silent = False
        self.wall_ahead_ms = 0
        self.holds_questions = False
        self.to_broker: list[Forward] = []
        self.to_front: list[tuple[int, bytes]] = []
        self.splices: dict[int, int] = {}
        """Bytes of the broker's next ones that may be spliced to the client, by connection."""
        self.spliced_bytes = 0
        self.questions: list[UpstreamRequest] = []
        self.asked: list[UpstreamRequest] = []
        self.closed: dict[int, str] = {}
        self.complaints: list[str] = []
        self.paused: dict[int, bool] = {}
        self.replied: dict[int, Message] = {}
        self.heard: dict[int, list[Message]] = {}
        self.broker_received: list[bytes] = []
        self._clients: dict[int, KafkaClient] = {}
        self._native: dict[int, NativeClient] = {}
        self.pushed: dict[int, list[Message]] = {}
        self.sentences: list[str] = []
        """Error messages of native replies."""
        self._upstreams: set[int] = set()
        self._own = KafkaClient("own", FRAME_BYTES)
        self._own_answers: list[Message] = []
        self.broker = PairNode(Node, self, "broker")
        self.front = PairNode(Gateway, self, "front", **settings)
        self.broker.step(Opened(_OWN, "kafka", "front"))
        (versions,) = self._ask_broker(ApiVersions("own", "1"), 3)
        assert isinstance(versions, ApiVersionsReply)
        self.versions = versions

    def replace_broker(self, name: str, **settings: Any) -> None:
        """Replace the broker by one of another cluster, at the same address."""
        self.lose_upstreams("another")
        self.broker = PairNode(Node, self, name, **settings)
        self.broker.step(Opened(_OWN, "kafka", "front"))

    @property
    def node(self) -> Gateway:
        assert isinstance(self.front.node, Gateway)
        return self.front.node

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.wall_ahead_ms + self.now_ms)

    # ------------------------------------------------------------------------------------------- what the edge does

    def find(self, *more: int) -> None:
        """Report broker 1, and the given ones that do not exist, as the edge does at each discovery."""
        brokers = [
            Broker(number, "hidden", 10 + number, "front", 9100 + number, self.versions) for number in (1, *more)
        ]
        self.front.step(BrokersFound(tuple(brokers)))
        self.run()

    def away(self) -> None:
        self.front.step(UpstreamUnreachable("cut"))

    def connect(self, number: int, broker: int = 1) -> int:
        self._clients[number] = KafkaClient("c", FRAME_BYTES)
        self.heard[number] = []
        self.front.step(Opened(number, "kafka", "10.0.0.1", broker))
        return number

    def connect_natively(self, number: int) -> int:
        self._native[number] = NativeClient(FRAME_BYTES)
        self.heard[number] = []
        self.front.step(Opened(number, "native", "10.0.0.1"))
        return number

    def ask_natively(self, number: int, message: Message) -> Message:
        """Send a native request and do everything that follows; return its reply."""
        self.send_natively(number, message)
        self.run()
        reply = self.heard[number].pop()
        assert not self.heard[number]
        return reply

    def send_natively(self, number: int, message: Message) -> None:
        self.front.step(Received(number, self._native[number].encode_request(message)[1]))

    def send(self, number: int, message: Message, version: int) -> None:
        """Send a client's request; nothing of it has reached the broker yet."""
        self.front.step(Received(number, self._clients[number].encode_request(message, version)[1]))

    def encode(self, number: int, message: Message, version: int) -> bytes:
        """Encode a client's next request."""
        return self._clients[number].encode_request(message, version)[1]

    def carry_some(self, chance: random.Random) -> None:
        """Move a few of the bytes in flight, in pieces."""
        if self.to_broker and not self.is_cut and chance.random() < 0.7:
            self._deliver(self.to_broker.pop(0))
        if self.to_front and chance.random() < 0.7:
            number, data = self.to_front.pop(0)
            size = chance.choice((1, 9, 100, len(data)))
            if data[size:]:
                self.to_front.insert(0, (number, data[size:]))
            self.arrive(number, data[:size], can_splice=chance.random() < 0.7)

    def ask(self, number: int, message: Message, version: int) -> Message:
        """Send a client's request and do everything that follows; return its reply."""
        self.send(number, message, version)
        self.run()
        reply = self.heard[number].pop()
        assert not self.heard[number]
        return reply

    def ask_inside(self, message: Message) -> Message:
        self.front.step(Call(7, message))
        self.run()
        return self.replied.pop(7)

    def lose_upstreams(self, reason: str) -> None:
        """Break every connection to the broker."""
        lost = sorted({*self._upstreams, *(effect.connection for effect in self.to_broker)})
        self.to_broker.clear()
        self.to_front.clear()
        self.splices.clear()
        self._upstreams.clear()
        for number in lost:
            self.broker.step(Lost(_UPSTREAM + number))
            self.front.step(UpstreamLost(number, reason))

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.run()

    def run(self) -> None:
        """Run until nothing is in flight any more."""
        while True:
            self.front.rest()
            self.broker.rest()
            if not self._carry():
                return

    def _carry(self) -> bool:
        moved = False
        if self.is_silent:
            self.to_broker.clear()
        if self.is_cut and self.to_broker:
            self.lose_upstreams("cut")
        while self.to_broker:
            self._deliver(self.to_broker.pop(0))
            moved = True
        while self.to_front:
            (number, data), moved = self.to_front.pop(0), True
            self.arrive(number, data)
        while self.questions and not self.holds_questions:
            question, moved = self.questions.pop(0), True
            self.asked.append(question)
            self.front.step(UpstreamReply(question.call_id, self._answer(question), "cut" if self.is_cut else ""))
        return moved

    def _deliver(self, effect: Forward) -> None:
        if effect.connection not in self._upstreams:
            self._upstreams.add(effect.connection)
            self.broker.step(Opened(_UPSTREAM + effect.connection, "kafka", "front"))
        self.broker_received.append(effect.data)
        self.broker.step(Received(_UPSTREAM + effect.connection, effect.data))

    def arrive(self, number: int, data: bytes, *, can_splice: bool = True) -> None:
        """Bring bytes of the broker to the edge, which splices what the node allows."""
        allowed = self.splices.pop(number, 0)
        spliced = data[:allowed] if can_splice and number not in self.closed else b""
        if spliced:
            self.spliced_bytes += len(spliced)
            self.splices[number] = allowed - len(spliced)
            self._hear(number, spliced)
            self.front.step(Spliced(number, len(spliced)))
        if rest := data[len(spliced) :]:
            self.splices.pop(number, None)
            self.front.step(Forwarded(number, rest))

    def _answer(self, question: UpstreamRequest) -> Message | None:
        if self.is_cut or question.broker not in (None, 1):
            return None
        if isinstance(question.message, Metadata):
            _check_metadata_request(question.message)
        version = _EDGE_VERSIONS[type(question.message)]
        (reply,) = self._ask_broker(question.message, version)
        return reply

    def _ask_broker(self, message: Message, version: int) -> list[Message]:
        self.broker.step(Received(_OWN, self._own.encode_request(message, version)[1]))
        self.broker.rest()
        answers, self._own_answers = self._own_answers, []
        return answers

    def ask_broker(self, message: Message, version: int) -> Message:
        """Send a request to the broker itself; return its reply."""
        (reply,) = self._ask_broker(message, version)
        return reply

    # -------------------------------------------------------------------------------------------------------- effects

    def carry_out(self, half: PairNode, effect: Effect) -> None:
        match effect:
            case Send() | Close() if half is self.broker_or_none():
                self._broker_does(effect)
            case Send():
                assert not self.splices.get(effect.connection), "in the middle of what splices by itself"
                self._hear(effect.connection, effect.data)
            case Close():
                self.closed[effect.connection] = effect.reason
            case Pause() | Resume():
                self.paused[effect.connection] = isinstance(effect, Pause)
            case Return():
                self.replied[effect.call_id] = effect.reply
            case Forward():
                self.to_broker.append(effect)
            case AbandonUpstream():
                self.front.step(UpstreamLost(effect.connection, effect.reason))
            case Splice():
                self.splices[effect.connection] = effect.size
            case UpstreamRequest():
                self.questions.append(effect)
            case LogError():
                self.complaints.append(effect.sentence)

    def _broker_does(self, effect: Send | Close) -> None:
        if isinstance(effect, Close):
            self.front.step(UpstreamLost(effect.connection - _UPSTREAM, "closed"))
        elif effect.connection == _OWN:
            self._own_answers += [answer.reply for answer in self._own.receive_data(effect.data)]
        else:
            self.to_front.append((effect.connection - _UPSTREAM, effect.data))

    def _hear(self, number: int, data: bytes) -> None:
        native = self._native.get(number)
        if native is None:
            self.heard[number] += [answer.reply for answer in self._clients[number].receive_data(data)]
            return
        for said in native.receive_data(data):
            if isinstance(said, NativeAnswer):
                self.heard[number].append(said.reply)
                self.sentences.append(said.error_message)
            else:
                self.pushed.setdefault(number, []).append(said.message)

    def broker_or_none(self) -> PairNode | None:
        return getattr(self, "broker", None)


def _check_metadata_request(message: Metadata) -> None:
    """Check that no request mixes names and ids: Apache Kafka then looks at ids alone, and describes no topic if one
    has neither."""
    topics = message.topics or ()
    assert len({bool(topic.name) for topic in topics}) <= 1, "names and ids"
    assert all(topic.name or topic.topic_id != NO_TOPIC_ID for topic in topics), "neither a name nor an id"

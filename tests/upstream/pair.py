"""A node beside a broker, both in memory: the broker is another node, with embedded topics. Bytes travel between the
two when the test lets them."""

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
from partition_log.store import LogStore
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigs
from protocol.messages.groups import DescribeGroups, ListGroups
from protocol.messages.node import ApiVersions, ApiVersionsReply, FindCoordinator
from protocol.messages.offsets import ListOffsets, OffsetFetch
from protocol.messages.topics import NO_TOPIC_ID, CreatePartitions, CreateTopics, DeleteTopics, Metadata
from protocol.native.client import NativeAnswer, NativeClient
from tests.groups.checks import CountingIds
from tests.node.desk import LIMITS, WALL_MS
from tests.simulation.disk import SimDisk

FRAME_BYTES = 1 << 20
_VERSIONS: dict[type[Message], int] = {
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
"""In which the edge asks, by and large."""
_TWINS, _OWN = 10_000, 20_000
"""By these the broker knows what comes from the node's side: twins of clients, and the node's own connection."""


class Half:
    """One node on a disk of its own."""

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
        """After a clean stop: with what is on the disk, and nothing else."""
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
    """`front` and `broker`. While `is_cut` the broker cannot be reached; while `is_silent` what is sent to it is
    never answered."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.is_cut = self.is_silent = False
        self.wall_ahead_ms = 0
        self.holds_questions = False
        self.to_broker: list[Forward] = []
        self.to_front: list[tuple[int, bytes]] = []
        self.passes: dict[int, int] = {}
        """How many of the next bytes from the broker may go to the client by themselves."""
        self.passed_bytes = 0
        self.questions: list[UpstreamRequest] = []
        self.asked: list[UpstreamRequest] = []
        self.closed: dict[int, str] = {}
        self.complaints: list[str] = []
        self.paused: dict[int, bool] = {}
        self.replied: dict[int, Message] = {}
        self.heard: dict[int, list[Message]] = {}
        self.broker_saw: list[bytes] = []
        self._clients: dict[int, KafkaClient] = {}
        self._native: dict[int, NativeClient] = {}
        self.sentences: list[str] = []
        """What native clients were told for people."""
        self._twins: set[int] = set()
        self._own = KafkaClient("own", FRAME_BYTES)
        self._own_answers: list[Message] = []
        self.broker = Half(Node, self, "broker")
        self.front = Half(Gateway, self, "front", **settings)
        self.broker.step(Opened(_OWN, "kafka", "front"))
        (versions,) = self._ask_broker(ApiVersions("own", "1"), 3)
        assert isinstance(versions, ApiVersionsReply)
        self.versions = versions

    def replace_broker(self, name: str) -> None:
        """By one of another cluster, at the same address."""
        self.lose_twins("another")
        self.broker = Half(Node, self, name)
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
        """As the edge does from time to time: broker 1, and such that are not there."""
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
        """A request, with everything that follows, and its answer."""
        self.send_natively(number, message)
        self.run()
        reply = self.heard[number].pop()
        assert not self.heard[number]
        return reply

    def send_natively(self, number: int, message: Message) -> None:
        self.front.step(Received(number, self._native[number].encode_request(message)[1]))

    def send(self, number: int, message: Message, version: int) -> None:
        """A request of a client's; nothing of it has reached the broker yet."""
        self.front.step(Received(number, self._clients[number].encode_request(message, version)[1]))

    def encode(self, number: int, message: Message, version: int) -> bytes:
        """The bytes of a client's next request."""
        return self._clients[number].encode_request(message, version)[1]

    def carry_some(self, chance: random.Random) -> None:
        """A few of the bytes that are under way, in pieces."""
        if self.to_broker and not self.is_cut and chance.random() < 0.7:
            self._deliver(self.to_broker.pop(0))
        if self.to_front and chance.random() < 0.7:
            number, data = self.to_front.pop(0)
            size = chance.choice((1, 9, 100, len(data)))
            if data[size:]:
                self.to_front.insert(0, (number, data[size:]))
            self.arrive(number, data[:size], may_pass=chance.random() < 0.7)

    def ask(self, number: int, message: Message, version: int) -> Message:
        """The same, with everything that follows, and its answer."""
        self.send(number, message, version)
        self.run()
        reply = self.heard[number].pop()
        assert not self.heard[number]
        return reply

    def ask_inside(self, message: Message) -> Message:
        self.front.step(Call(7, message))
        self.run()
        return self.replied.pop(7)

    def lose_twins(self, reason: str) -> None:
        """Every connection to the broker breaks."""
        lost = sorted({*self._twins, *(effect.connection for effect in self.to_broker)})
        self.to_broker.clear()
        self.to_front.clear()
        self.passes.clear()
        self._twins.clear()
        for number in lost:
            self.broker.step(Lost(_TWINS + number))
            self.front.step(UpstreamLost(number, reason))

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.run()

    def run(self) -> None:
        """Until nothing is under way any more."""
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
            self.lose_twins("cut")
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
        if effect.connection not in self._twins:
            self._twins.add(effect.connection)
            self.broker.step(Opened(_TWINS + effect.connection, "kafka", "front"))
        self.broker_saw.append(effect.data)
        self.broker.step(Received(_TWINS + effect.connection, effect.data))

    def arrive(self, number: int, data: bytes, *, may_pass: bool = True) -> None:
        """From the broker, at the edge: past the node, as far as it lets it and the edge can."""
        allowed = self.passes.pop(number, 0)
        passing = data[:allowed] if may_pass and number not in self.closed else b""
        if passing:
            self.passed_bytes += len(passing)
            self.passes[number] = allowed - len(passing)
            self._hear(number, passing)
            self.front.step(Spliced(number, len(passing)))
        if rest := data[len(passing) :]:
            self.passes.pop(number, None)
            self.front.step(Forwarded(number, rest))

    def _answer(self, question: UpstreamRequest) -> Message | None:
        if self.is_cut or question.broker not in (None, 1):
            return None
        if isinstance(question.message, Metadata):
            _check_question(question.message)
        version = _VERSIONS[type(question.message)]
        (reply,) = self._ask_broker(question.message, version)
        return reply

    def _ask_broker(self, message: Message, version: int) -> list[Message]:
        self.broker.step(Received(_OWN, self._own.encode_request(message, version)[1]))
        self.broker.rest()
        answers, self._own_answers = self._own_answers, []
        return answers

    def ask_broker(self, message: Message, version: int) -> Message:
        """Behind the node's back."""
        (reply,) = self._ask_broker(message, version)
        return reply

    # -------------------------------------------------------------------------------------------------------- effects

    def carry_out(self, half: Half, effect: Effect) -> None:
        match effect:
            case Send() | Close() if half is self.broker_or_none():
                self._broker_does(effect)
            case Send():
                assert not self.passes.get(effect.connection), "in the middle of what passes by itself"
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
                self.passes[effect.connection] = effect.size
            case UpstreamRequest():
                self.questions.append(effect)
            case LogError():
                self.complaints.append(effect.sentence)

    def _broker_does(self, effect: Send | Close) -> None:
        if isinstance(effect, Close):
            self.front.step(UpstreamLost(effect.connection - _TWINS, "closed"))
        elif effect.connection == _OWN:
            self._own_answers += [answer.reply for answer in self._own.receive_data(effect.data)]
        else:
            self.to_front.append((effect.connection - _TWINS, effect.data))

    def _hear(self, number: int, data: bytes) -> None:
        native = self._native.get(number)
        if native is None:
            self.heard[number] += [answer.reply for answer in self._clients[number].receive_data(data)]
            return
        for said in native.receive_data(data):
            if isinstance(said, NativeAnswer):
                self.heard[number].append(said.reply)
                self.sentences.append(said.error_message)

    def broker_or_none(self) -> Half | None:
        return getattr(self, "broker", None)


def _check_question(message: Metadata) -> None:
    """Apache Kafka looks at ids alone where there are both, and tells of no topic where one has neither."""
    topics = message.topics or ()
    assert len({bool(topic.name) for topic in topics}) <= 1, "names and ids"
    assert all(topic.name or topic.topic_id != NO_TOPIC_ID for topic in topics), "neither a name nor an id"

"""Whole blocking consumers on a simulated clock, a real node on a simulated disk, and a network between them that the
test can cut, slow down or replace the node in.

Everything runs in one thread. A waiting consumer advances the simulation until something wakes it, so a poll of ten
seconds takes no real time and ends at an exact millisecond.
"""

import heapq
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Self

import pytest

from coordinator.node.effects import Effect as NodeEffect
from coordinator.node.effects import Send
from coordinator.node.events import Lost as ConnectionLost
from coordinator.node.events import Opened, Received
from coordinator.node.events import Woke as NodeWoke
from membership.events import (
    CallFailed,
    HangUp,
    MemberEffect,
    MemberEvent,
    NodeAddress,
    Pushed,
    Replied,
    SendRequest,
    TimePassed,
)
from muster import Consumer, ConsumerRecord, TopicPartition
from muster.errors import AuthenticationFailed
from muster.net.cores import Driven
from muster.net.refusals import Refusals
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.topics import CreatePartitions, GrowingTopic
from protocol.native.client import NativeClient, Push
from protocol.record_batch import encode_batch
from tests.node.node_rig import NodeRig

GROUP = "orders"
NODE = NodeAddress("node", 9)
LATENCY_MS = 1
_LONG_MS = 600_000
P = [TopicPartition("t", number) for number in range(12)]


class SentRequest(NamedTuple):
    """A request sent by a consumer."""

    at_ms: int
    who: str
    message: Message

    @property
    def kind(self) -> str:
        return type(self.message).__name__


class Callback(NamedTuple):
    """A callback."""

    who: str
    what: str
    partitions: tuple[TopicPartition, ...]


class Never:
    """In place of a reply: there will be none."""


class _Node(NodeRig):
    """A node whose replies take time."""

    def __init__(self, say: Callable[[Send], None], **settings: Any) -> None:
        self._say = say
        super().__init__(**settings)

    def _carry_out(self, effect: NodeEffect) -> None:
        if isinstance(effect, Send):
            self._say(effect)
        else:
            super()._carry_out(effect)


class Changed:
    """A condition whose wait advances the simulation."""

    lock = nullcontext()

    def __init__(self, rig: "ConsumerRig") -> None:
        self._rig = rig
        self._is_notified = False

    def notify_all(self) -> None:
        self._is_notified = True

    def wait(self, timeout_s: float) -> bool:
        self._is_notified = False
        # At least a millisecond, since a remainder from rounding would be waited for for ever.
        self._rig.run(max(round(timeout_s * 1000), 1), until=lambda: self._is_notified)
        return self._is_notified

    def wait_for(self, holds: Callable[[], bool], timeout_s: float | None) -> bool:
        self._rig.run(_LONG_MS if timeout_s is None else round(timeout_s * 1000), until=holds)
        return holds()


class SimDriver:
    """In place of `muster.net.thread.ThreadDriver`, with its interface."""

    def __init__(self, rig: "ConsumerRig", who: str) -> None:
        self.rig = rig
        self.who = who
        self.changed = Changed(rig)
        self.has_ever_connected = False
        self.last_failure = ""
        self.refusals = Refusals()
        self.on_refusal: Callable[[AuthenticationFailed], None] = lambda _failed: None
        self.on_failure: Callable[[], None] = lambda: None
        self.driven: list[Driven] = []
        self.waiting: dict[tuple[int, int], SendRequest] = {}
        self.connections: dict[int, int] = {}

    def condition(self) -> Changed:
        return Changed(self.rig)

    def time(self) -> float:
        return self.rig.now_ms / 1000

    def now_ms(self) -> int:
        return self.rig.now_ms

    @staticmethod
    def jitter() -> float:
        return 0.5

    def add(self, driven: Driven) -> None:
        self.driven.append(driven)

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        self.carry_out(driven, lambda now_ms: driven.core.step(event, now_ms))

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        for effect in action(self.rig.now_ms):
            if isinstance(effect, SendRequest):
                self.waiting[self.driven.index(driven), effect.call] = effect
                self.rig.send(self, self.driven.index(driven), effect)
            elif isinstance(effect, HangUp):
                self._hang_up(driven, effect.node)
            else:
                driven.on_effect(effect)
        self.changed.notify_all()

    def _hang_up(self, driven: Driven, node: NodeAddress | None) -> None:
        which = self.driven.index(driven)
        for key, call in self.waiting.items():
            if key[0] == which and call.node == node:
                self.rig.after(0, partial(self.hear, *key, None))

    @property
    def trouble(self) -> str:
        return self.last_failure

    def hear(self, which: int, number: int, reply: Message | None, reason: str = "") -> None:
        if self.waiting.pop((which, number), None) is None:
            return
        if reply is None:
            self.last_failure = "cannot connect to node:9"
            self.feed(self.driven[which], CallFailed(number))
        else:
            self.has_ever_connected = True
            self.feed(self.driven[which], Replied(number, reply, reason))

    def stop(self) -> None:
        self.rig.left(self)


class ConsumerRig:
    """Consumers, node and network. `script` may answer in place of the node; `plot` has all requests and callbacks, in
    order."""

    def __init__(self, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now_ms = 0
        self.is_up = self.pushes = True
        self.script: Callable[[str, Message], Message | type[Never] | None] = lambda _who, _message: None
        self.latency_ms: Callable[[Message], int] = lambda _message: LATENCY_MS
        self.plot: list[SentRequest | Callback] = []
        self._coming: list[tuple[int, int, Callable[[], object]]] = []
        self._counted = 0
        self._hands: list[SimDriver] = []
        self._clients: dict[int, tuple[NativeClient, SimDriver, int, dict[int, int]]] = {}
        self.node = _Node(self._said, **settings)
        patch.setattr("muster.blocking.runner.ThreadDriver", lambda _where, who: self._hand(who))
        self.run(1_000)

    # -- who plays

    def consumer(self, who: str, *topics: str, **settings: Any) -> Consumer:
        """Make a consumer that subscribes to these topics, if any, and records every callback."""
        consumer = Consumer(
            "node:9",
            GROUP,
            client_id=who,
            **{"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings},
        )
        if topics:
            consumer.subscribe(topics, **self.listeners(who))
        return consumer

    def listeners(self, who: str) -> dict[str, Any]:
        def writes(what: str) -> Callable[[tuple[TopicPartition, ...]], None]:
            return lambda partitions: self.plot.append(Callback(who, what, partitions))

        return {f"on_{what}": writes(what) for what in ("assigned", "revoked", "lost")}

    def make(self, topic: str = "t", partitions: int = 6) -> Self:
        self.node.make_topic(topic, partitions)
        return self

    def grow(self, topic: str, partitions: int) -> None:
        assert self.node.ask_inside(CreatePartitions((GrowingTopic(topic, partitions),)), call=98) is not None

    def append(self, *partitions: TopicPartition, count: int = 1) -> None:
        """Append `count` records to each partition."""
        for one in partitions:
            data = encode_batch([(None, b"%d" % number) for number in range(count)], timestamp_ms=1)
            message = Produce((ProduceTopic(one.topic, (ProducePartition(one.partition, data),)),), acks=-1)
            assert self.node.ask_inside(message, call=97) is not None

    # -- playing

    def polls(
        self, *consumers: Consumer, until: Callable[[], bool] = lambda: False, for_ms: int = 20_000, every_ms: int = 10
    ) -> list[ConsumerRecord]:
        """Poll with all consumers in turn, as their applications would; return the records."""
        end_ms, records = self.now_ms + for_ms, list[ConsumerRecord]()
        while self.now_ms < end_ms:
            for one in consumers:
                records += one.poll(0.0)
            if until():
                break
            self.run(every_ms)
        return records

    def steady(self, *consumers: Consumer) -> "ConsumerRig":
        """Run until the consumers have assignments and positions; forget the requests and callbacks so far."""
        self.steady_again(*consumers)
        self.forget()
        return self

    def steady_again(self, *consumers: Consumer) -> None:
        def are_together() -> bool:
            return all(map(self.is_settled, consumers)) and len(self.members()) >= len(consumers)

        self.polls(*consumers, until=are_together)
        assert are_together(), self.told

    @staticmethod
    def is_settled(consumer: Consumer) -> bool:
        return consumer.member.is_steady and len(consumer.positions()) == len(consumer.assignment)

    def forget(self) -> None:
        self.plot.clear()

    @property
    def requests(self) -> list[SentRequest]:
        return [one for one in self.plot if isinstance(one, SentRequest)]

    @property
    def told(self) -> list[Callback]:
        return [one for one in self.plot if isinstance(one, Callback)]

    def kinds(self, who: str = "", *, of: Iterable[str] = ()) -> list[str]:
        """Return the types of a consumer's requests, in order."""
        return [one.kind for one in self.requests if who in {"", one.who} and (not of or one.kind in of)]

    def messages(self, kind: str, who: str = "") -> list[Any]:
        return [one.message for one in self.requests if one.kind == kind and who in {"", one.who}]

    def members(self) -> list[str]:
        """Return the ids of the group's members at the coordinator."""
        reply = self.node.ask_inside(DescribeGroups((GROUP,)), call=96)
        assert isinstance(reply, DescribeGroupsReply)
        return [one.member_id for one in reply.groups[0].members]

    # -- time

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> None:
        """Advance the simulation for that time, or until the condition holds."""
        end_ms, steps = self.now_ms + milliseconds, 0
        while not until():
            steps += 1
            assert steps < 100_000, "the world never rests"
            at_ms, happens = self._next()
            if at_ms > end_ms or happens is None:
                self._now(end_ms)
                return
            self._now(max(at_ms, self.now_ms))
            happens()

    def after(self, milliseconds: int, happens: Callable[[], object]) -> None:
        self._counted += 1
        heapq.heappush(self._coming, (self.now_ms + milliseconds, self._counted, happens))

    def _next(self) -> tuple[int, Callable[[], None] | None]:
        due: list[tuple[int, int, Callable[[], None] | None]] = [(1 << 60, 9, None)]
        if self._coming:
            due.append((self._coming[0][0], 0, self._go_on))
        if self.node.node.next_deadline_ms is not None:
            due.append((self.node.node.next_deadline_ms, 1, self._wake_node))
        for hand in self._hands:
            for driven in hand.driven:
                at_ms = driven.core.next_deadline_ms
                if at_ms is not None:
                    due.append((at_ms, 2, partial(hand.feed, driven, TimePassed())))
        at_ms, _, happens = min(due, key=lambda one: one[:2])
        return at_ms, happens

    def _go_on(self) -> None:
        heapq.heappop(self._coming)[2]()

    def _wake_node(self) -> None:
        self.node.step(NodeWoke())

    def _now(self, now_ms: int) -> None:
        self.now_ms = self.node.now_ms = now_ms

    # -- the network

    def _hand(self, who: str) -> SimDriver:
        hand = SimDriver(self, who)
        self._hands.append(hand)
        return hand

    def left(self, hand: SimDriver) -> None:
        """Note that a consumer's thread has ended, and its connections are closed."""
        if hand not in self._hands:
            return
        self._hands.remove(hand)
        hand.waiting.clear()
        for number in hand.connections.values():
            self.node.step(ConnectionLost(number))

    def send(self, hand: SimDriver, which: int, call: SendRequest) -> None:
        self.plot.append(SentRequest(self.now_ms, hand.who, call.message))
        if not self.is_up:
            self.after(LATENCY_MS, lambda: hand.hear(which, call.call, None))
            return
        instead = self.script(hand.who, call.message)
        delay_ms = self.latency_ms(call.message)
        if isinstance(instead, Message):
            self.after(2 * delay_ms, lambda: hand.hear(which, call.call, instead))
        elif instead is None:
            self.after(delay_ms, lambda: self._arrive(hand, which, call))

    def _arrive(self, hand: SimDriver, which: int, call: SendRequest) -> None:
        if (which, call.call) not in hand.waiting:
            return
        if which not in hand.connections:
            hand.connections[which] = len(self._clients) + 1
            self._clients[len(self._clients) + 1] = (NativeClient(1 << 24), hand, which, {})
            self.node.step(Opened(hand.connections[which], "native", "10.0.0.1"))
        number = hand.connections[which]
        client, _, _, calls = self._clients[number]
        sent, data = client.encode_request(call.message)
        calls[sent] = call.call
        self.node.step(Received(number, data))

    def _said(self, effect: Send) -> None:
        client, hand, which, calls = self._clients[effect.connection]
        for said in client.receive_data(effect.data):
            if isinstance(said, Push):
                self.after(LATENCY_MS, partial(self._push, hand, which, said))
            else:
                heard = partial(hand.hear, which, calls.pop(said.number), said.reply, said.error_message)
                self.after(LATENCY_MS, heard)

    def _push(self, hand: SimDriver, which: int, said: Push) -> None:
        if hand in self._hands and self.is_up and self.pushes:
            hand.feed(hand.driven[which], Pushed(said.message))

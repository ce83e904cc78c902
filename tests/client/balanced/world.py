"""Client-balanced members together: their cores, a coordinator, and a network between them that can be cut.

There is one clock. Calls wait in simulated time: a call of ninety seconds takes no real time, and ends at an exact
millisecond. The coordinator is the model, or any object with `answer(message, now_ms)`.
"""

import heapq
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from membership.events import CallFailed, HangUp, MemberEffect, MemberEvent, Pushed, Replied, SendRequest, TimePassed
from muster.core.balancing import BalancedConfig, BalancedMembership, Batch, Result
from muster.core.balancing.events import (
    ConfirmAsked,
    ConnectAsked,
    DisconnectAsked,
    Fetched,
    Handed,
    MessageAsked,
    MetaAsked,
    Noted,
    OperationEnded,
    PassedOver,
    ReadyAsked,
    ShutdownAsked,
    StartAsked,
)
from muster.core.balancing.records import read
from protocol.messages import Message
from tests.client.balanced.model import Model

GROUP = "g"
LATENCY_MS = 1


class Coordinator(Protocol):
    def answer(self, message: Message, now_ms: int) -> Message: ...


class ApplicationCall:
    """A call of the application, with its result and time."""

    def __init__(self, asked_ms: int) -> None:
        self.asked_ms = asked_ms
        self.ended_ms = -1
        self.said: Result | None = None
        self.operation = -1
        self.reg_epoch = -1
        """Epoch of the grant of the returned batch."""

    @property
    def result(self) -> Result:
        assert self.said is not None, "it has not ended"
        return self.said

    @property
    def is_over(self) -> bool:
        return self.said is not None

    @property
    def took_ms(self) -> int:
        assert self.is_over
        return self.ended_ms - self.asked_ms


class SimMember:
    """A member and its application. `sent` has all sent requests; `notes` its log entries."""

    def __init__(self, world: "World", who: str, **settings: Any) -> None:
        self.world = world
        self.who = who
        self.core = BalancedMembership(GROUP, who, BalancedConfig(**settings))
        self.is_cut = False
        self.late_ms = 0
        """Delay with which requests reach the coordinator after their connection was lost."""
        self.cut_kinds: frozenset[str] = frozenset()
        """Types of requests that are lost, while others arrive."""
        self.sent: list[tuple[int, Message]] = []
        self.notes: list[Noted] = []
        self.waiting: dict[int, SendRequest] = {}
        self._asked: dict[int, ApplicationCall] = {}

    # -- asking

    def begin(self, make: Callable[[int], MemberEvent]) -> ApplicationCall:
        number = len(self._asked) + 1
        call = self._asked[number] = ApplicationCall(self.world.now_ms)
        self.feed(make(number))
        return call

    def ask(self, make: Callable[[int], MemberEvent]) -> Result:
        call = self.begin(make)
        self.world.run_until(lambda: call.is_over)
        return call.result

    def start(self, source_count: int = -1, node_id: int = -1, **targets: set[str] | None) -> Result:
        return self.ask(self.starting(source_count, node_id, **targets))

    def starting(self, source_count: int, node_id: int, **targets: set[str] | None) -> Callable[[int], MemberEvent]:
        return lambda number: StartAsked(number, targets or {"t": None}, source_count, node_id)

    def meta(self) -> Result:
        return self.ask(MetaAsked)

    def connect(self, key: str, offset: int = -1) -> Result:
        return self.ask(lambda number: ConnectAsked(number, key, offset))

    def disconnect(self, key: str) -> Result:
        return self.ask(lambda number: DisconnectAsked(number, key))

    def ready(self, max_wait_ms: int) -> ApplicationCall:
        return self.begin(lambda number: ReadyAsked(number, max_wait_ms))

    def get(self) -> Result:
        """Decode records as the edge does; without any for the consumer, request more."""
        call = self.getting()
        self.world.run_until(lambda: call.is_over)
        return call.result

    def getting(self) -> ApplicationCall:
        call = ApplicationCall(self.world.now_ms)

        def ask(make: Callable[[int], MemberEvent]) -> None:
            part = self.begin(make)
            call.operation = len(self._asked)
            self.world.when(lambda: part.is_over, partial(heard, part))

        def heard(part: ApplicationCall) -> None:
            fetched = part.result.data
            if not isinstance(fetched, Fetched):
                call.said, call.ended_ms = part.result, self.world.now_ms
                return
            found = read(fetched)
            if not found.records:
                self.feed(PassedOver(fetched.key, fetched.token, found.next_offset))
                ask(lambda number: MessageAsked(number, fetched.deadline_ms, is_rest=True))
                return
            call.reg_epoch = self.core.grants.get(fetched.key, -1)
            number = len(self._asked) + 1
            over = self._asked[number] = ApplicationCall(self.world.now_ms)
            self.feed(Handed(number, fetched.key, fetched.token, found.next_offset))
            if over.result.ok:
                call.said, call.ended_ms = Result(True, data=found.batch(fetched)), self.world.now_ms
            else:
                ask(lambda number: MessageAsked(number, fetched.deadline_ms, is_rest=True))

        ask(MessageAsked)
        return call

    def batch(self) -> Batch:
        """Return the next batch, which must come; other results of `get` before it are skipped."""
        for _ in range(1_000):
            result = self.get()
            if result.ok:
                assert isinstance(result.data, Batch)
                return result.data
            assert result.code in {404, 407}, result
        raise AssertionError("nothing comes")

    def values(self) -> list[bytes]:
        return [record.value for record in self.batch().messages]

    def confirm(self, context: str, consumed: bool = True) -> Result:
        return self.ask(lambda number: ConfirmAsked(number, context, consumed))

    def shut_down(self) -> Result:
        return self.ask(ShutdownAsked)

    def push(self, message: Message) -> None:
        self.feed(Pushed(message))

    def as_consumer(self) -> "AsConsumer":
        return AsConsumer(self)

    # -- the usual way there

    def on_the_way(self, *keys: str, source_count: int = -1, node_id: int = -1) -> "SimMember":
        """Start, get the metadata, and connect these keys; forget the requests sent so far."""
        assert self.start(source_count, node_id).ok
        assert self.meta().ok
        for key in keys:
            assert self.connect(key).ok, key
        self.sent.clear()
        return self

    def kinds(self) -> list[str]:
        return [type(message).__name__ for _, message in self.sent]

    def messages(self, kind: str) -> list[Any]:
        return [message for _, message in self.sent if type(message).__name__ == kind]

    # -- the rig

    def feed(self, event: MemberEvent) -> None:
        for effect in self.core.step(event, self.world.now_ms):
            self._carry_out(effect)
        self.world.look()

    def _carry_out(self, effect: MemberEffect) -> None:
        match effect:
            case SendRequest():
                self.sent.append((self.world.now_ms, effect.message))
                self.waiting[effect.call] = effect
                self.world.send(self, effect)
            case OperationEnded():
                ended = self._asked[effect.operation]
                assert not ended.is_over, "ended twice"
                ended.said, ended.ended_ms = effect.result, self.world.now_ms
            case Noted():
                self.notes.append(effect)
            case HangUp():
                for call in tuple(self.waiting.values()):
                    if call.node == effect.node:
                        self.world.after(0, partial(self.hear, call.call, None))

    def loses(self, call: SendRequest) -> bool:
        return self.is_cut or type(call.message).__name__ in self.cut_kinds

    def hear(self, call: int, reply: Message | None) -> None:
        if self.waiting.pop(call, None) is not None:
            self.feed(CallFailed(call) if reply is None else Replied(call, reply))


class AsConsumer:
    """The calls of `muster.core.balancing.loop.Balanced`."""

    def __init__(self, player: SimMember) -> None:
        self._player = player

    def is_shutdown(self) -> bool:
        return self._player.core.is_shutdown

    def source_count(self) -> int | None:
        return self._player.core.source_count

    def node_id(self) -> int | None:
        return self._player.core.node_id

    def registered_partitions(self) -> list[str]:
        return self._player.core.registered

    def partition_meta(self) -> Result:
        return self._player.meta()

    def connect_partition(self, key: str, bootstrap_offset: int = -1) -> Result:
        return self._player.connect(key, bootstrap_offset)

    def disconnect_partition(self, key: str) -> Result:
        return self._player.disconnect(key)


class World:
    def __init__(self, coordinator: Coordinator | None = None) -> None:
        self.now_ms = 1_000
        self.model = Model()
        self.coordinator: Coordinator = coordinator or self.model
        self.players: list[SimMember] = []
        self.refuses_connections = False
        """True if connections of a client that is cut off fail at once; False: its requests get no answer."""
        self.latency_ms = LATENCY_MS
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._counted = 0
        self._watched: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._looks = False

    def member(self, who: str = "A", **settings: Any) -> SimMember:
        player = SimMember(self, who, **settings)
        self.players.append(player)
        return player

    # -- time

    def after(self, milliseconds: int, happens: Callable[[], None]) -> None:
        self._counted += 1
        heapq.heappush(self._coming, (self.now_ms + milliseconds, self._counted, happens))

    def when(self, holds: Callable[[], bool], happens: Callable[[], None]) -> None:
        self._watched.append((holds, happens))
        self.look()

    def look(self) -> None:
        if self._looks:
            return
        self._looks = True
        found = True
        while found:
            found = False
            for one in tuple(self._watched):
                if one[0]():
                    self._watched.remove(one)
                    one[1]()
                    found = True
        self._looks = False

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> None:
        end_ms, steps = self.now_ms + milliseconds, 0
        while not until():
            steps += 1
            assert steps < 200_000, "the world never rests"
            at_ms, happens = self._next()
            if at_ms > end_ms or happens is None:
                self.now_ms = end_ms
                return
            self.now_ms = max(at_ms, self.now_ms)
            happens()

    def run_until(self, holds: Callable[[], bool], *, within_ms: int = 1_000_000) -> None:
        self.run(within_ms, holds)
        assert holds(), "it never came"

    def _next(self) -> tuple[int, Callable[[], None] | None]:
        due: list[tuple[int, int, Callable[[], None] | None]] = [(1 << 60, 9, None)]
        if self._coming:
            due.append((self._coming[0][0], 0, self._go_on))
        for player in self.players:
            at_ms = player.core.next_deadline_ms
            if at_ms is not None:
                due.append((at_ms, 1, partial(player.feed, TimePassed())))
        at_ms, _, happens = min(due, key=lambda one: one[:2])
        return at_ms, happens

    def _go_on(self) -> None:
        heapq.heappop(self._coming)[2]()

    # -- the network

    def send(self, player: SimMember, call: SendRequest) -> None:
        if player.late_ms:
            self.after(self.latency_ms, partial(player.hear, call.call, None))
            self.after(player.late_ms, partial(self._arrive_late, call))
            return
        if player.loses(call):
            if self.refuses_connections:
                self.after(self.latency_ms, partial(player.hear, call.call, None))
            return
        self.after(self.latency_ms, partial(self._arrive, player, call))

    def _arrive_late(self, call: SendRequest) -> None:
        self.coordinator.answer(call.message, self.now_ms)

    def _arrive(self, player: SimMember, call: SendRequest) -> None:
        if player.loses(call) or call.call not in player.waiting:
            return
        reply = self.coordinator.answer(call.message, self.now_ms)
        self.after(self.latency_ms, partial(self._come_back, player, call, reply))

    def _come_back(self, player: SimMember, call: SendRequest, reply: Message) -> None:
        if not player.loses(call):
            player.hear(call.call, reply)

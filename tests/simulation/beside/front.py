"""The node in front of the brokers, with its edge."""

from collections import defaultdict, deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from coordinator.gateway.effects import AbandonUpstream, Forward, Splice, UpstreamRequest
from coordinator.gateway.gateway import Gateway
from coordinator.node.effects import Close, Effect, LogError, Pause, Resume
from coordinator.node.events import Event, Opened
from coordinator.node.node import AnyNode
from partition_log.store.log_store import LogStore
from tests.simulation.beside.edge import Edge
from tests.simulation.beside.network import Between
from tests.simulation.daemon import CLUSTER, Daemon
from tests.simulation.faults import Seen
from tests.simulation.ids import SimIds

if TYPE_CHECKING:
    from tests.simulation.beside.watch import Watch

SLOWEST_SYNC_MS = 1_500
READ_BYTES = 64 * 1024
"""Most bytes that a socket returns at once."""


class Front(Daemon):
    """Its connections to the brokers end with it; it starts without any."""

    between: Between
    watch: "Watch"
    edge: Edge | None = None
    has_authorizer = False
    """True if the brokers are asked for each client's permissions; they permit everything."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._unread: dict[int, deque[bytes]] = defaultdict(deque)
        self._paused: set[int] = set()
        self._brokers: dict[int, int] = {}

    @property
    def seen(self) -> Seen:
        return self._seen

    @property
    def node_beside(self) -> Gateway | None:
        """Return the object as its own type."""
        assert self.node is None or isinstance(self.node, Gateway)
        return self.node

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._clock.after(delay_ms, action)

    # --- up and down ---

    def _make_node(self, store: LogStore, ids: SimIds) -> AnyNode:
        return Gateway(self.config, store, ids, {"native": (CLUSTER, 1), "kafka": ("front", 2)}, self.moment())

    def _make_topics(self, node: AnyNode) -> None:
        """Look for brokers, as it does at its start."""
        self.edge = Edge(self, self.between, Random(f"edge {self._life} {self._random.random()}"))
        self.edge.look()

    def _down(self, how: str) -> None:
        super()._down(how)
        if self.edge is not None:
            self.edge.die()
        self.edge = None
        self._unread.clear()
        self._paused.clear()
        self._brokers.clear()

    @property
    def is_hindered(self) -> bool:
        """True if it cannot be made to run now."""
        now_ms = self._clock.now_ms
        slow_until_ms = max(self.loop_time.slow_until_ms, self.loop_time.still_until_ms) + SLOWEST_SYNC_MS
        return self.node is None or now_ms < max(self.paused_until_ms, slow_until_ms) or self.disk.is_full

    # --- what clients send ---

    def arrived(self, number: int, data: bytes) -> None:
        for at in range(0, len(data), READ_BYTES):
            self._unread[number].append(data[at : at + READ_BYTES])
        self._read(number)

    def read_on(self, number: int) -> None:
        """Read on soon: not from within a step."""
        if self._unread.get(number):
            self._clock.after(0, self.in_this_life(lambda: self._read(number)))

    def _read(self, number: int) -> None:
        if self._unread.get(number) and self._stands_still:  # and reads nothing ahead, or it could not stop in time
            later_ms = max(1, self.paused_until_ms - self._clock.now_ms)
            self._clock.after(later_ms, self.in_this_life(lambda: self._read(number)))
            return
        if self._unread.get(number) and not self._may_not_be_read(number):
            super().arrived(number, self._unread[number].popleft())
            self.read_on(number)

    def _may_not_be_read(self, number: int) -> bool:
        upstream = self.edge.upstreams.get(number) if self.edge is not None else None
        return number in self._paused or (upstream is not None and upstream.is_full)

    def gone(self, number: int) -> None:
        self._forget(number)
        super().gone(number)

    def _forget(self, number: int) -> None:
        self._unread.pop(number, None)
        self._paused.discard(number)
        self._brokers.pop(number, None)
        if self.edge is not None:
            self.edge.finish(number)

    def may_pass(self, number: int) -> bool:
        """Return whether bytes can be spliced to the client: not while the process stands still."""
        link = self.links.get(number)
        return link is not None and link.open and not self._stands_still

    @property
    def _stands_still(self) -> bool:
        return bool(self._waiting) or self._clock.now_ms < self.paused_until_ms

    def send(self, number: int, data: bytes) -> None:
        self._trace.update(data)
        self.links[number].reply(data)

    # --- effects ---

    def _carry_out(self, effect: Effect) -> None:
        edge = self.edge
        match effect:
            case Forward() if edge is not None and effect.connection in self._brokers:
                edge.forward(effect, self._brokers[effect.connection])
            case Splice() if edge is not None:
                edge.splice(effect)
            case AbandonUpstream() if edge is not None:
                edge.give_up(effect)
            case UpstreamRequest() if edge is not None:
                self._seen.add("upstream asked")
                edge.ask(effect)
            case Pause():
                self._seen.add("clients not read")
                self._paused.add(effect.connection)
            case Resume():
                self._paused.discard(effect.connection)
                self.read_on(effect.connection)
            case LogError():
                self._seen.add("sentences for the operator")
            case Close():
                self._seen.add(f"closed: {effect.reason[:40]}")
                super()._carry_out(effect)
                self._forget(effect.connection)
            case _:
                super()._carry_out(effect)

    def _step(self, node: AnyNode, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Opened) and event.broker is not None:
                self._brokers[event.connection] = event.broker
        super()._step(node, events)
        for event in events:
            if self.node is node:
                self.watch.after_front_step(self, event)

"""`coordinator.gateway.io` on simulated time: looks for brokers, sends them the node's requests, and has a connection
to the broker for each client's. It starts and ends with its node."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from coordinator.gateway.broker_timeout import SILENT
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
from coordinator.node.events import Event
from protocol.apis import BY_MESSAGE
from protocol.errors import ProtocolViolation
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.node import ApiVersions, ApiVersionsReply
from protocol.messages.offsets import OffsetFetch
from protocol.messages.topics import Metadata, MetadataReply
from tests.simulation.beside.network import Between
from tests.simulation.beside.wires import UPSTREAM
from tests.simulation.errors import Broken
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.beside.front import Front

FRONT_HOST, FRONT_PORTS = "front", 9_100
UNSENT_BYTES = 64 * 1024
DIAL_MS = 3_000
FIRST_BROKER = 1
_ANSWER_BYTES = 1 << 22
_OFFSET_FETCH_BY_NAME = 9
_QUESTION = (-8).to_bytes(4, "big", signed=True)
"""Correlation id by which a connection in front of a broker asks for its client's permissions."""

Told = Callable[[Message | None, str], None]
"""Takes an answer, or the reason why there is none."""


class OwnLink:
    """A connection of the node's own to one broker: one request after another; any fault ends it."""

    dialect = UPSTREAM

    def __init__(self, edge: "Edge", broker: int) -> None:
        self.link: Link | None = None
        self.versions: ApiVersionsReply | None = None
        self.is_open = True
        self._edge, self._broker = edge, broker
        self._client = KafkaClient("muster", _ANSWER_BYTES)
        self._waiting: deque[tuple[Message | None, Told]] = deque()
        self._is_asking = False
        edge.between.dial(self, broker, edge.timeout_ms)

    def ask(self, message: Message | None, told: Told) -> None:
        """Send the request; None: only check whether the broker can be reached."""
        self._waiting.append((message, told))
        if self.versions is not None:
            self._in_time(told)
            self._go_on()

    def _in_time(self, told: Told) -> None:
        def overdue() -> None:
            if any(told == other for _message, other in self._waiting):
                self.close("no answer in time")

        self._edge.after(self._edge.timeout_ms, overdue)

    def connected(self, link: Link) -> None:
        if self._edge.is_dead:
            link.close_by_client()
            return
        self._waiting.appendleft((ApiVersions("muster", "1"), self._greeted))
        self._in_time(self._greeted)
        self._send(ApiVersions("muster", "1"), 3)

    def _greeted(self, reply: Message | None, _reason: str) -> None:
        if isinstance(reply, ApiVersionsReply):
            self.versions = reply
            for _message, told in self._waiting:
                self._in_time(told)

    def _send(self, message: Message, version: int) -> None:
        assert self.link is not None
        self._is_asking = True
        self.link.to_daemon.send(self._client.encode_request(message, version)[1])

    def _go_on(self) -> None:
        while self._waiting and not self._is_asking and self.is_open:
            message, told = self._waiting[0]
            if message is None:
                self._waiting.popleft()
                told(None, "")
                continue
            self._send(message, self._version(message))

    def _version(self, message: Message) -> int:
        request, key = BY_MESSAGE[type(message)].request, BY_MESSAGE[type(message)].key
        assert self.versions is not None
        (newest,) = [row.max_version for row in self.versions.api_keys if row.api_key == key]
        return min(newest, request.newest, _OFFSET_FETCH_BY_NAME if isinstance(message, OffsetFetch) else newest)

    def received(self, data: bytes) -> None:
        try:
            answers = self._client.receive_data(data)
        except ProtocolViolation as violation:
            self.close(str(violation))
            return
        for answer in answers:
            _message, told = self._waiting.popleft()
            self._is_asking = False
            told(answer.reply, "")
            self._go_on()

    def failed(self, reason: str) -> None:
        self.close(reason)

    def lost(self) -> None:
        self.close("the broker closed the connection")

    def close(self, reason: str) -> None:
        """Fail all requests in flight."""
        if not self.is_open:
            return
        self.is_open = False
        link, self.link = self.link, None
        if link is not None:
            link.close_by_client()
        waiting, self._waiting = self._waiting, deque()
        for _message, told in waiting:
            told(None, reason)


class _Frames:
    """Counts the whole frames that have passed."""

    def __init__(self) -> None:
        self.count = 0
        self._rest = b""

    def add(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= 4 and len(self._rest) >= (end := 4 + int.from_bytes(self._rest[:4], "big")):
            self._rest = self._rest[end:]
            self.count += 1


class UpstreamConnection:
    """The connection to a broker for one client's."""

    dialect = UPSTREAM

    def __init__(self, edge: "Edge", number: int, broker: int) -> None:
        self.link: Link | None = None
        self._edge, self._number = edge, number
        self._pending: list[bytes] = []
        self._passing = 0
        self._is_over = False
        self._requests, self._answers = _Frames(), _Frames()
        edge.between.dial(self, broker, DIAL_MS)

    @property
    def is_full(self) -> bool:
        """Return whether reading from the client must pause."""
        return sum(map(len, self._pending)) > UNSENT_BYTES

    def send(self, data: bytes) -> None:
        self._edge.front.seen.add("permissions asked", data[8:12] == _QUESTION)
        self._requests.add(data)
        if self.link is None:
            self._pending.append(data)
        else:
            self.link.to_daemon.send(data)

    def connected(self, link: Link) -> None:
        if self._edge.is_dead:
            link.close_by_client()
            return
        pending, self._pending = self._pending, []
        for data in pending:
            link.to_daemon.send(data)
        if self._is_over:
            link.close_by_client()
        else:
            self._edge.front.read_on(self._number)

    def splice(self, size: int) -> None:
        """Pass the next bytes to the client unchanged."""
        self._passing = size

    def received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._answers.add(data)
        count = min(self._passing, len(data)) if self._edge.front.may_pass(self._number) else 0
        if count:
            self._passing -= count
            self._edge.front.send(self._number, data[:count])
            self._edge.happen(Spliced(self._number, count))
        if data[count:]:
            self._passing = 0  # what is not passed comes as any other, and the rest is asked for anew
            self._edge.happen(Forwarded(self._number, data[count:]))

    def failed(self, reason: str) -> None:
        self._lost(reason)

    def lost(self) -> None:
        self._lost("the broker closed it")

    def _lost(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._pending = []
        self._edge.upstreams.pop(self._number, None)
        self._edge.front.seen.add("upstreams lost")
        self._edge.happen(UpstreamLost(self._number, reason))
        self._edge.front.read_on(self._number)

    def give_up(self, reason: str) -> None:
        # That no broker can be reached may be found in the step that takes the last answer, after a pause.
        is_silent = reason.startswith(SILENT)
        if is_silent and self._requests.count == self._answers.count:
            raise Broken("a broker is given up that has answered everything")
        self._edge.front.seen.add("silent upstreams given up")
        if self.link is not None:
            self.link.close_by_client()
        self._lost(reason)

    def finish(self) -> None:
        """The client has disconnected. What it sent last is still sent to the broker."""
        self._is_over = True
        if self.link is not None:
            self.link.close_by_client()


class Edge:
    """State of one life of the node."""

    def __init__(self, front: "Front", between: Between, random: Random) -> None:
        self.front, self.between = front, between
        self.is_dead = False
        self.timeout_ms = front.config.upstream_ask_timeout_ms
        self.brokers: dict[int, Broker] = {}
        self.upstreams: dict[int, UpstreamConnection] = {}
        self._random = random
        self._links: dict[int, OwnLink] = {}
        self._turn = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Act later, unless the node has died by then."""
        self.front.after(delay_ms, lambda: None if self.is_dead else action())

    def happen(self, event: Event) -> None:
        if not self.is_dead:
            self.front.step(event)

    def die(self) -> None:
        """The process has died: the system closes its connections."""
        self.is_dead = True
        found = [one.link for one in self._links.values()] + [one.link for one in self.upstreams.values()]
        self.between.cut([link for link in found if link is not None and link.open])

    # --- connections of clients ---

    def any_broker(self) -> int | None:
        """Return the next of the brokers with a connection, else of those known."""
        known = sorted(self.brokers)
        living = [one for one in known if one in self._links and self._links[one].is_open] or known
        self._turn += 1
        return living[self._turn % len(living)] if living else None

    def forward(self, effect: Forward, broker: int) -> None:
        """Forward a request on the client's upstream connection, which is opened now if there is none."""
        upstream = self.upstreams.get(effect.connection)
        if upstream is None:
            upstream = self.upstreams[effect.connection] = UpstreamConnection(self, effect.connection, broker)
        upstream.send(effect.data)

    def splice(self, effect: Splice) -> None:
        """Splice; sometimes this is not possible."""
        upstream = self.upstreams.get(effect.connection)
        if upstream is not None and self._random.random() < 0.8:
            self.front.seen.add("answers let pass")
            upstream.splice(effect.size)

    def give_up(self, effect: AbandonUpstream) -> None:
        upstream = self.upstreams.get(effect.connection)
        if upstream is not None:
            self.after(0, lambda: upstream.give_up(effect.reason))

    def finish(self, number: int) -> None:
        upstream = self.upstreams.pop(number, None)
        if upstream is not None:
            upstream.finish()

    # --- questions ---

    def ask(self, effect: UpstreamRequest) -> None:
        def told(reply: Message | None, reason: str) -> None:
            self.front.watch.answered(reply)
            # Each request that waits for a connection tries again to open it, one after another.
            waits_ms = 0 if reply is not None else self._random.choice((0, 0, self.timeout_ms, 3 * self.timeout_ms))
            self.after(waits_ms, lambda: self.happen(UpstreamReply(effect.call_id, reply, reason)))

        broker = self.any_broker() if effect.broker is None else effect.broker
        if broker not in self.brokers:
            told(None, "not known")
        else:
            assert broker is not None
            self._link(broker).ask(effect.message, told)

    def _link(self, broker: int) -> OwnLink:
        link = self._links.get(broker)
        if link is None or not link.is_open:
            link = self._links[broker] = OwnLink(self, broker)
        return link

    # --- who is there ---

    def look(self) -> None:
        """Look for brokers now, and from time to time."""
        known = dict.fromkeys((*self.brokers, FIRST_BROKER))
        self._ask_one_of(sorted(known, key=lambda one: one not in self._links), "nobody to ask")

    def _ask_one_of(self, brokers: list[int], why: str) -> None:
        if not brokers:
            self.front.seen.add("upstream away")
            self.happen(UpstreamUnreachable(why))
            self._look_later()
            return

        def told(reply: Message | None, reason: str) -> None:
            if isinstance(reply, MetadataReply) and reply.brokers:
                self._meet([broker.node_id for broker in reply.brokers])
            else:
                self._ask_one_of(brokers[1:], reason)

        self._link(brokers[0]).ask(Metadata(()), told)

    def _meet(self, brokers: list[int]) -> None:
        found: dict[int, Broker | None] = {}

        def met(broker: int, link: OwnLink) -> None:
            before = self.brokers.get(broker)
            versions = link.versions if link.is_open else before and before.versions
            port = FRONT_PORTS + broker
            found[broker] = Broker(broker, "hidden", 10 + broker, FRONT_HOST, port, versions) if versions else None
            if len(found) == len(brokers):
                self.brokers = {number: one for number, one in sorted(found.items()) if one is not None}
                self.happen(BrokersFound(tuple(self.brokers.values()), self.front.has_authorizer))
                self._look_later()

        for broker in brokers:
            link = self._link(broker)
            link.ask(None, lambda _reply, _reason, broker=broker, link=link: met(broker, link))  # type: ignore[misc]

    def _look_later(self) -> None:
        self.after(self.front.config.upstream_refresh_ms, self.look)

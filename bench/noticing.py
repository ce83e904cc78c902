"""Time until a group notices a new member: with pushes of the native protocol, without, and over Kafka's protocol.

All members are cores of this client on sockets of one process, whose applications poll as soon as there is a reason.
"""

import random
import selectors
import socket
import time

from bench.processes import Daemon, scratch
from bench.report import Options, Sheet, Value, median
from membership.core import Membership
from membership.events import (
    Assigned,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    NodeAddress,
    Polled,
    Pushed,
    Released,
    Revoked,
    SendRequest,
    TimePassed,
)
from membership.member import MemberSettings
from muster.net.dialects import ClientDialect, open_session
from muster.net.exchange import Exchange

_SIZES = (10, 100, 1_000)
_GROUP, _TOPIC = "noticing", "flights"
_HEARTBEAT_MS = 3_000
_PATIENCE_S = 60
_WAYS = (
    ("native, with push", ClientDialect.NATIVE, True),
    ("native, without", ClientDialect.NATIVE, False),
    ("kafka", ClientDialect.KAFKA, False),
)


class Member:
    """A core and its one connection."""

    def __init__(self, crowd: "Crowd", number: int) -> None:
        settings = MemberSettings(
            group_id=_GROUP, assignors=("range",), heartbeat_interval_ms=_HEARTBEAT_MS, session_timeout_ms=45_000
        )
        self.core = Membership(settings, (_TOPIC,), random.random)
        self.generation = -1
        self._crowd = crowd
        self.socket = socket.create_connection(crowd.address[:2])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.exchange = Exchange(open_session(crowd.dialect, f"member-{number}"))

    def step(self, event: MemberEvent) -> None:
        for effect in self.core.step(event, _now_ms()):
            self._carry_out(effect)
        if self.core.needs_poll and not isinstance(event, Polled):
            self.step(Polled())

    def _carry_out(self, effect: MemberEffect) -> None:
        if isinstance(effect, SendRequest):
            self.socket.sendall(self.exchange.encode_request(effect))
        elif isinstance(effect, Revoked | LostPartitions):
            self.step(Released())
        elif isinstance(effect, Assigned):
            self.generation = effect.generation_id

    def hear(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionResetError("the daemon closed a member's connection")
        events = self.exchange.receive_data(data)
        more = self.exchange.take_data()
        if more:
            self.socket.sendall(more)
        for event in events:
            if self._crowd.hears_pushes or not isinstance(event, Pushed):
                self.step(event)


class Crowd:
    """The members, and the loop that runs them."""

    def __init__(self, address: NodeAddress, dialect: ClientDialect, *, hears_pushes: bool) -> None:
        self.address, self.dialect, self.hears_pushes = address, dialect, hears_pushes
        self.members: list[Member] = []
        self._selector = selectors.DefaultSelector()

    def add(self) -> None:
        member = Member(self, len(self.members))
        self.members.append(member)
        self._selector.register(member.socket, selectors.EVENT_READ, member)
        member.step(Polled())

    def settle(self) -> None:
        """Until all are in one generation."""
        ends = time.monotonic() + _PATIENCE_S
        while not self._is_settled():
            if time.monotonic() > ends:
                raise TimeoutError(f"{len(self.members)} members are not in one generation after {_PATIENCE_S} s")
            self._run_once()

    def rest(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._run_once()

    def close(self) -> None:
        for member in self.members:
            member.socket.close()
        self._selector.close()

    def _is_settled(self) -> bool:
        newest = self.members[-1].generation
        return newest >= 0 and all(one.generation == newest and one.core.is_steady for one in self.members)

    def _run_once(self) -> None:
        for key, _events in self._selector.select(0.002):
            key.data.hear()
        now_ms = _now_ms()
        for member in self.members:
            due_ms = member.core.next_deadline_ms
            if due_ms is not None and due_ms <= now_ms:
                member.step(TimePassed())


def measure(options: Options) -> list[Sheet]:
    """One member is added to a group that stands."""
    rows: list[tuple[Value, ...]] = []
    for size in _SIZES[:2] if options.quick else _SIZES:
        for way, dialect, hears_pushes in _WAYS:
            took = _add_members(size, dialect, options.rounds, hears_pushes=hears_pushes)
            rows.append((way, size, median(took) * 1e3, max(took) * 1e3))
    return [
        Sheet(
            "Noticing: one member is added to a group that stands",
            ("", "members", "until all have their share, ms", "longest, ms"),
            rows,
            (f"Heartbeats every {_HEARTBEAT_MS} ms. All members in one process, whose work is part of the figures.",),
        )
    ]


def _add_members(size: int, dialect: ClientDialect, rounds: int, *, hears_pushes: bool) -> list[float]:
    took = []
    with scratch(in_memory=True) as folder, Daemon(folder / "data", http=False) as daemon:
        daemon.create_topic(_TOPIC, size)
        host, port = daemon.addresses[dialect.value]
        crowd = Crowd(NodeAddress(host, port), dialect, hears_pushes=hears_pushes)
        try:
            for _ in range(size):
                crowd.add()
            crowd.settle()
            for _ in range(rounds):
                crowd.rest(0.5 + random.random())
                began = time.perf_counter()
                crowd.add()
                crowd.settle()
                took.append(time.perf_counter() - began)
        finally:
            crowd.close()
    return took


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

"""The network between a node and the brokers: connections are slow, break, or lose bytes."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from tests.simulation.network import Link
from tests.simulation.wires import Dialect

if TYPE_CHECKING:
    from tests.simulation.beside.world import BesideWorld

OPEN, AWAY, SILENT = "open", "away", "silent"


class Dialler(Protocol):
    """Owner of a connection to a broker."""

    link: Link | None
    dialect: Dialect

    def connected(self, link: Link) -> None: ...

    def failed(self, reason: str) -> None: ...

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


class Between:
    """`modes`: by broker, how connections to it behave. Every broker is the same process."""

    def __init__(self, world: "BesideWorld", random: Random, brokers: tuple[int, ...]) -> None:
        self.brokers = brokers
        self._modes = dict.fromkeys(brokers, OPEN)
        self._world, self._random = world, random
        self._links: list[tuple[int, Link]] = []

    def is_open(self, broker: int) -> bool:
        """Return whether the broker can be connected to now."""
        return self._modes.get(broker) == OPEN and self._world.broker.node is not None

    def dial(self, who: Dialler, broker: int, timeout_ms: int) -> None:
        """Exactly one of `connected` and `failed` is called, later."""
        world = self._world
        if self._modes.get(broker) == SILENT:
            world.after(timeout_ms, lambda: who.failed("no connection in time"))
        elif not self.is_open(broker):
            world.after(self._random.choice((1, 20)), lambda: who.failed("refused"))
        else:
            world.after(self._random.choice((0, 1, 3)), lambda: self._connect(who, broker))

    def _connect(self, who: Dialler, broker: int) -> None:
        link = None
        if self.is_open(broker):
            link = self._world.connect(self._world.broker, who, who.received, who.lost)
        if link is None:
            who.failed("refused")
            return
        who.link = link
        self._links.append((broker, link))
        who.connected(link)

    # --- what goes wrong ---

    def links(self, brokers: tuple[int, ...] | None = None) -> list[Link]:
        """Return the live connections."""
        self._links = [(broker, link) for broker, link in self._links if link.open]
        return [link for broker, link in self._links if brokers is None or broker in brokers]

    def cut(self, links: list[Link]) -> None:
        for link in links:
            self._world.seen.add("upstream connections cut")
            link.cut(self._world, self._random)

    def silence(self, links: list[Link]) -> None:
        """Silence the connections: neither side is notified; only the brokers' system notices in the end."""
        for link in links:
            self._world.seen.add("upstream connections half open")
            link.cut_off(self._world, self._random.choice((5_000, 40_000)))

    def trouble(self, mode: str, brokers: tuple[int, ...], for_ms: int) -> None:
        """Make these brokers unreachable, in the way that `mode` says."""
        for broker in brokers:
            self._modes[broker] = mode
        self._world.seen.add(f"brokers {mode}", len(brokers))
        (self.cut if mode == AWAY else self.silence)(self.links(brokers))
        self._world.after(for_ms, lambda: self.heal(brokers))

    def heal(self, brokers: tuple[int, ...] | None = None) -> None:
        """Let new connections succeed again; half-open ones stay so."""
        self._modes.update(dict.fromkeys(brokers or self.brokers, OPEN))

    def delay(self, by_ms: int) -> None:
        for link in self.links():
            self._world.seen.add("upstream delays")
            link.to_daemon.hold(by_ms)
            link.to_client.hold(by_ms)

    def break_off(self, random: Random, link: Link) -> None:
        """Cut the next answer in its middle, and close the connection."""
        after: Callable[[int, Callable[[], None]], None] = self._world.after

        def broken(data: bytes) -> None:
            self._world.seen.add("upstream answers broken off")
            link.to_client.send(data[: random.randrange(len(data))])
            link.on_reply = swallow
            after(link.to_client.arrives_in_ms + 1, lambda: self.cut([link]))

        def swallow(_data: bytes) -> None:
            link.on_reply = swallow

        link.on_reply = broken

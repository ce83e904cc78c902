"""What the edges drive, in a thread or in an event loop: cores, each with connections of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from membership.events import Effect, MemberEvent, NodeAddress
from muster.net.lanes import Lane


class Core(Protocol):
    """What is driven: `Membership`, `Fetcher`, `Producing`."""

    def step(self, event: MemberEvent, now_ms: int) -> list[Effect]: ...

    @property
    def next_deadline_ms(self) -> int | None: ...


@dataclass(slots=True, eq=False)
class Driven:
    """A core, and who is told its effects other than calls. Each has connections of its own: a fetch that waits does
    not hold up a heartbeat.
    """

    core: Core
    tell: Callable[[Effect], None]


class ConnectionKey(NamedTuple):
    """Whose connection it is, where to, and what for."""

    driven: Driven
    address: NodeAddress
    lane: Lane

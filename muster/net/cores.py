"""Cores, as a thread or an event loop drives them: each with connections of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from membership.events import MemberEffect, MemberEvent, NodeAddress
from muster.net.lanes import Lane


class DrivenCore(Protocol):
    """A core that is driven: `Membership`, `Fetcher`, `Producing`."""

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]: ...

    @property
    def next_deadline_ms(self) -> int | None: ...


@dataclass(slots=True, eq=False)
class Driven:
    """A core, and who is told its effects other than calls. Each has connections of its own: a fetch that waits does
    not hold up a heartbeat.
    """

    core: DrivenCore
    tell: Callable[[MemberEffect], None]


class ConnectionKey(NamedTuple):
    """The core that a connection belongs to, its node, and its lane."""

    driven: Driven
    address: NodeAddress
    lane: Lane

"""Cores that a thread or an event loop drives, each with connections of its own."""

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
    """A core, and the receiver of its effects other than requests. Each core has connections of its own, so that a
    waiting fetch does not delay a heartbeat.
    """

    core: DrivenCore
    on_effect: Callable[[MemberEffect], None]


class ConnectionKey(NamedTuple):
    """The core that a connection belongs to, its node, and its lane."""

    driven: Driven
    address: NodeAddress
    lane: Lane

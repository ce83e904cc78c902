"""The whole consumer, with the simulated world in place of its thread: waiting calls advance the world."""

from types import SimpleNamespace
from typing import Any

import pytest

from membership.events import MemberEffect, MemberEvent
from muster.balanced import BalancedConfig, ClientBalancedConsumer
from muster.core.balancing.events import OperationEnded
from muster.net.cores import Driven
from muster.net.refusals import Refusals
from tests.client.balanced.world import GROUP, SimMember, World
from tests.client.consumer_rig import Changed


class _SimDriver(SimMember):
    """In the place of `muster.net.thread.ThreadDriver`."""

    def __init__(self, world: World, who: str) -> None:
        super().__init__(world, who)
        self.changed = Changed(world)  # type: ignore[arg-type]
        self.refusals = Refusals()
        self.driven: Driven | None = None
        world.players.append(self)

    def add(self, driven: Driven) -> None:
        self.driven = driven
        self.core = driven.core  # type: ignore[assignment]

    def feed(self, *event: Any) -> None:
        """Feed an event; the core may stand before it, as a background thread's driver has it."""
        super().feed(event[-1])
        self.changed.notify_all()

    def stop(self) -> None:
        if self in self.world.players:
            self.world.players.remove(self)

    def _carry_out(self, effect: MemberEffect) -> None:
        before = len(self.notes)
        if not isinstance(effect, OperationEnded):
            super()._carry_out(effect)
        assert self.driven is not None
        if isinstance(effect, OperationEnded) or len(self.notes) > before:
            self.driven.on_effect(effect)


class SimDrivers:
    """Makes consumers; `of` returns the simulated member behind one."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._made: dict[int, _SimDriver] = {}
        self._last: _SimDriver | None = None
        clock = SimpleNamespace(
            monotonic_ns=lambda: world.now_ms * 1_000_000, time_ns=lambda: (world.now_ms + 1_000_000) * 1_000_000
        )
        patch.setattr("muster.blocking.balanced.ThreadDriver", self._make)
        patch.setattr("muster.blocking.balanced.time", clock)

    def _make(self, _where: object, who: str) -> _SimDriver:
        self._last = _SimDriver(self._world, who)
        return self._last

    def consumer(self, config: BalancedConfig | None = None, **settings: Any) -> ClientBalancedConsumer:
        consumer = ClientBalancedConsumer("node:9", GROUP, config, **settings)
        assert self._last is not None
        self._made[id(consumer)] = self._last
        return consumer

    def of(self, consumer: ClientBalancedConsumer) -> SimMember:
        return self._made[id(consumer)]


__all__ = ["MemberEvent", "SimDrivers"]

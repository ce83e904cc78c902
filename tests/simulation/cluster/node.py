"""A node as the cluster's log needs it: shards of numbers by key, which only grow, a membership in the nodes' group,
and a clock that drifts. Requests go through the world, which loses, delays and repeats them."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import (
    AskProducerId,
    KeysToRepair,
    LogReplayed,
    ReadLog,
    ShardEffect,
    ShardHandedOver,
    ShardLost,
    ShardOwned,
    StateDropped,
    WriteBatch,
    WritesDurable,
)
from coordinator.cluster_log.events import (
    FollowingWanted,
    OwnershipGiven,
    OwnershipLost,
    OwnershipRevoked,
    ShardEvent,
)
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns
from tests.simulation.errors import Broken

HEARTBEAT_MS = 1_000
_LOOKS_EVERY_MS = 50
_WAKES_WITHIN_MS = 5_000
"""Time after a freeze within which operations that waited for brokers fail."""
MakeShard = Callable[[int, ClusterLogSettings, Lease, ReadTurns, BootMoment], ClusterShard]
Answer = Callable[[int | None], None]
"""Takes the value, or None where the node does not serve the key."""


class Surroundings(Protocol):
    now_ms: int

    def after(self, delay_ms: int, happen: Callable[[], None]) -> None: ...
    def request(self, node: "SimNode", effect: ShardEffect, decided_ms: int) -> None: ...
    def send_heartbeat(self, node: "SimNode", member: str, *, joins: bool) -> None: ...
    def send_released(self, node: "SimNode", member: str, revocation: int) -> None: ...
    def owned(self, node: "SimNode", shard: int) -> None: ...
    def written(self, node: "SimNode", shard: int, key: str, value: int) -> None: ...
    def mark(self, what: str) -> None: ...


@dataclass(slots=True)
class Held:
    """A reply that waits for a position."""

    position: int
    answer: Answer
    key: str
    value: int
    is_write: bool


@dataclass(slots=True)
class ShardState:
    core: ClusterShard
    tag: int = -1
    """Claim of the last take-over."""
    numbers: dict[str, int] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    held: deque[Held] = field(default_factory=deque)


class SimNode:
    """One process, from its start to its death."""

    def __init__(
        self,
        name: str,
        world: Surroundings,
        random: Random,
        shards: int,
        settings: ClusterLogSettings,
        make: MakeShard,
    ) -> None:
        self.name = name
        self.is_alive = True
        self.is_leaving = False
        self.frozen_until_ms = 0
        self.freezes_with_effects_ms = 0
        """Time for which it will freeze when it next has requests to send."""
        self._world = world
        self._rate = 1 + random.choice((-0.02, -0.005, 0, 0.005, 0.02))
        self._boot_ms = random.randrange(10**9)
        self._started_ms = world.now_ms
        self._waiting: deque[Callable[[], None]] = deque()
        self.member = ""
        self._joins = 0
        self._heard = 0  # number of the newest heartbeat answered
        self._heard_boot_ms = self._boot_ms
        self._silence_ms = settings.unheard_sessions * settings.session_ms + settings.session_ms // 3
        self._given: set[int] = set()
        self._unreleased: dict[int, int] = {}
        """Revocations of shards that the node is handing over."""
        self._stop_ms = settings.session_ms + 4 * _LOOKS_EVERY_MS
        """Time within which a planned stop ends, whatever does not answer."""
        self.shards = self._make_shards(shards, settings, make)
        if random.random() < 0.5:
            for shard in range(shards):
                self._happen(shard, FollowingWanted(True))
        world.after(random.randrange(HEARTBEAT_MS), self._heartbeat)
        world.after(random.randrange(100), self._tick)

    @staticmethod
    def number_in(key: bytes, value: bytes | None) -> dict[str, int]:
        """Return the number in a record."""
        return {} if value is None else {key.decode(): int(value)}

    def _make_shards(
        self,
        shards: int,
        settings: ClusterLogSettings,
        make: MakeShard,
    ) -> Sequence[Any]:
        self._lease = Lease(settings)
        turns = ReadTurns()
        return [ShardState(make(index, settings, self._lease, turns, self.clock)) for index in range(shards)]

    @property
    def clock(self) -> BootMoment:
        boot_ms = self._boot_ms + int((self._world.now_ms - self._started_ms) * self._rate)
        return BootMoment(boot_ms, 1_700_000_000_000 + self._world.now_ms)

    @property
    def is_frozen(self) -> bool:
        return self._world.now_ms < self.frozen_until_ms

    def freeze(self, for_ms: int) -> None:
        self.frozen_until_ms = max(self.frozen_until_ms, self._world.now_ms + for_ms)
        self._world.after(for_ms, self.wake)

    def wake(self) -> None:
        """Carry out what arrived during the freeze, in order."""
        while self._waiting and not self.is_frozen:
            self.when_awake(self._waiting.popleft())

    def when_awake(self, happen: Callable[[], None]) -> None:
        """Act now, or at the end of a freeze; never if the process has died."""
        if self.is_frozen:
            self._waiting.append(happen)
        elif self.is_alive:
            happen()

    # --- time ---

    def _tick(self) -> None:
        def tick() -> None:
            self._look()
            self._must_have_let_go()
            self._world.after(_LOOKS_EVERY_MS, self._tick)

        self.when_awake(tick)

    def _must_have_let_go(self) -> None:
        """Raise `Broken` if clients wait for a node that has had no answer of the nodes' group for three sessions."""
        silent_ms = self.clock.boot_ms - self._heard_boot_ms
        if silent_ms >= self._silence_ms and self._is_awake_for_long:
            self._world.mark("looks at nodes that were unheard for long")
            served = [state.core.index for state in self.shards if state.core.claim is not None]
            if served or self._awaited():
                raise Broken(f"{self.name} heard nothing for {silent_ms} ms, and serves {served}")

    @property
    def _is_awake_for_long(self) -> bool:
        return self._world.now_ms >= self.frozen_until_ms + _WAKES_WITHIN_MS

    def _awaited(self) -> int:
        """Return how many replies clients wait for."""
        return sum(len(state.held) for state in self.shards)

    def _look(self) -> None:
        for state in self.shards:
            self._take_effects(state)

    # --- the nodes' group ---

    def _heartbeat(self) -> None:
        def send() -> None:
            self._world.after(int(HEARTBEAT_MS / self._rate), self._heartbeat)
            if self.is_leaving:
                return
            if joins := not self.member:
                self._joins += 1
                self.member = f"{self.name}-{self._joins}"
            self._world.send_heartbeat(self, self.member, joins=joins or self._heard == 0)

        self.when_awake(send)

    def heartbeat_answered(
        self, member: str, number: int, sent_boot_ms: int, answer: tuple[set[int], dict[int, int]] | None
    ) -> None:
        if member != self.member or number < self._heard or self.is_leaving:
            return
        if answer is None:
            self._world.mark("members that heard they were evicted")
            self.member, self._heard = "", 0
            self._given.clear()
            self._unreleased.clear()
            self._end_lease()
            for shard in range(len(self.shards)):
                self._happen(shard, OwnershipLost())
            return
        self._heard = number
        self._heard_boot_ms = max(self._heard_boot_ms, sent_boot_ms)
        self._renew_lease(sent_boot_ms)
        owned, revoked = answer
        for shard in owned - self._given:
            self._given.add(shard)
            self._happen(shard, OwnershipGiven())
        for shard, revocation in revoked.items():
            if shard in self._given:
                self._given.discard(shard)
                self._unreleased[shard] = revocation
                self._happen(shard, OwnershipRevoked())
            elif shard not in self._unreleased:
                self._world.send_released(self, member, revocation)

    def _renew_lease(self, sent_boot_ms: int) -> None:
        self._lease.heartbeat_succeeded(sent_boot_ms, sent_boot_ms)

    def _end_lease(self) -> None:
        self._lease.end()

    def stop(self) -> None:
        """Stop as planned: hand everything over, leave, end."""
        self.is_leaving = True
        self._stops_by_ms = self.clock.boot_ms + self._stop_ms
        for shard in range(len(self.shards)):
            self._happen(shard, OwnershipRevoked())
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        def look() -> None:
            if any(state.core.claim is not None for state in self.shards):
                if self.clock.boot_ms >= self._stops_by_ms and self._is_awake_for_long:
                    raise Broken(f"{self.name} has not handed its shards over {self._stop_ms} ms after it was stopped")
                self._world.after(_LOOKS_EVERY_MS, self._end_when_idle)
                return
            self._world.send_released(self, self.member, -1)
            self.is_alive = False

        self.when_awake(look)

    # --- clients ---

    def write(self, shard: int, key: str, value: int, answer: Answer) -> None:
        state = self.shards[shard]
        if value <= state.numbers.get(key, 0):
            # A late request, or one sent again. What is there already may still be on its way to the log.
            self.read(shard, key, answer)
            return
        position = state.core.append([(key.encode(), b"%d" % value)], self.clock)
        if position is None:
            self._take_effects(state)
            answer(None)
            return
        state.numbers[key], state.positions[key] = value, position
        state.held.append(Held(position, answer, key, value, is_write=True))
        self._take_effects(state)

    def read(self, shard: int, key: str, answer: Answer) -> None:
        state = self.shards[shard]
        position = state.core.read_position(self.clock)
        if position is None:
            answer(None)
        elif (position := max(position, state.positions.get(key, 0))) == 0:
            self._world.mark("reads within the lease")
            answer(state.numbers.get(key, 0))
        else:
            state.held.append(Held(position, answer, key, state.numbers.get(key, 0), is_write=False))
        self._take_effects(state)

    # --- the shards ---

    def _happen(self, shard: int, event: ShardEvent) -> None:
        state: ShardState = self.shards[shard]
        state.core.happen(event, self.clock)
        self._take_effects(state)

    def answered(self, shard: int, event: ShardEvent) -> None:
        self.when_awake(lambda: self._happen(shard, event))

    def _take_effects(self, state: ShardState) -> None:
        requests = []
        for effect in state.core.take_effects(self.clock):
            if isinstance(effect, AskProducerId | WriteBatch | ReadLog):
                requests.append(effect)
            else:
                self._apply(state, effect)
        self._send(requests)

    def _send(self, requests: Sequence[ShardEffect]) -> None:
        if requests and self.freezes_with_effects_ms:
            # The process has decided, and freezes before it sends.
            self.freeze(self.freezes_with_effects_ms)
            self.freezes_with_effects_ms = 0
            self._world.mark("freezes between decision and send")
        decided_ms = self._world.now_ms
        for request in requests:
            self.when_awake(lambda request=request: self._world.request(self, request, decided_ms))  # type: ignore[misc]

    def _repair(self, state: ShardState, keys: tuple[bytes, ...]) -> None:
        self._world.mark("keys repaired")
        for key in keys:
            number = state.numbers.get(key.decode())
            state.core.append([(key, None if number is None else b"%d" % number)], self.clock)
        self._take_effects(state)

    def _release(self, state: ShardState, position: int) -> None:
        while state.held and state.held[0].position <= position:
            held = state.held.popleft()
            if held.is_write:
                self._world.written(self, state.core.index, held.key, held.value)
            held.answer(held.value)
        state.positions = {key: at for key, at in state.positions.items() if at > position}

    def _apply(self, state: ShardState, effect: ShardEffect) -> None:
        shard = state.core.index
        match effect:
            case LogReplayed(records=records):
                for key, value in records:
                    if value is None:
                        state.numbers.pop(key.decode(), None)
                    else:
                        state.numbers[key.decode()] = int(value)
            case StateDropped():
                state.numbers.clear()
            case ShardOwned(tag=tag):
                state.tag = tag
                self._world.owned(self, shard)
            case KeysToRepair(keys=keys):
                self._repair(state, keys)
            case WritesDurable(position=position):
                self._release(state, position)
            case ShardLost(reason=reason):
                self._world.mark(f"lost: {_without_numbers(reason)}")
                self._drop(state)
            case ShardHandedOver():
                self._drop(state)
                self._handed_over(shard)

    def _handed_over(self, shard: int) -> None:
        revocation = self._unreleased.pop(shard, None)
        if revocation is not None and not self.is_leaving:
            self._world.send_released(self, self.member, revocation)

    def _drop(self, state: ShardState) -> None:
        held, state.held = state.held, deque()
        state.positions.clear()
        for one in held:
            one.answer(None)


def _without_numbers(text: str) -> str:
    return " ".join(word for word in text.split() if not word.isdigit())

"""Worlds of nodes whose shards are in the cluster's log, made from seeds.

Checked are, besides what the core asserts:

* one writer a shard in the order of the log: no batch is taken behind a claim that its writer did not write, unless
  that claim never stands: one of another producer id that came late fences nobody, and its claimer finds that out;
* what was acknowledged is in every later replay, and in the log at the end;
* no read is older than what its client, or anybody, was told before it asked: generations never go back;
* a take-over ends: when nothing fails any more, each shard is served by one node, and takes writes.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import AskProducerId, ReadLog, ShardEffect, WriteBatch
from coordinator.cluster_log.entries import EntryKind, LogEntry, entries_of
from coordinator.cluster_log.events import BatchAnswered, LogRead, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.cluster_log.tail import ShardTail
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd
from protocol.errors import ErrorCode
from tests.simulation.cluster.coordinators import NodesGroup, ProducerIds
from tests.simulation.cluster.node import SimNode
from tests.simulation.cluster.partition import Batch, Partition
from tests.simulation.errors import Broken

SHARDS, KEYS = 2, 3
MEMORY_MS, ID_MEMORY_MS, LAG_MS = 60_000, 240_000, 60_000
"""Time for which brokers remember producers (a day, and a week, in Kafka), and in which the cleaner removes no
record."""
SETTINGS = ClusterLogSettings(keep_alive_ms=15_000, renew_ms=100_000, follow_ms=700)
TIMEOUT_MS = 2_000
FAULTS_MS, QUIET_MS = 150_000, 40_000
_CLIENT_TIMEOUT_MS = 3_000
INFORMED = -1.0
"""Loyalty of a client that asks the nodes' group who owns the shard, each time."""

FAULTS = (
    *("kill", "stop", "start_another", "freeze", "freeze_between", "freeze_all", "freeze_in_turn", "cut"),
    *("cut_from_group", "move_leader", "slow_down", "lose_group", "be_idle", "fall_silent", "forget"),
)
RARE = {"freeze_all": 0.2, "freeze_in_turn": 0.2, "fall_silent": 0.2, "forget": 0.2}
"""Chance that a seed has them, for those that leave little room for others."""
Core = type[ClusterShard]


class ClusterWorld:
    """One seed. `core` is the shard's class: tests give one with a rule taken out, and the names of faults (`FAULTS`)
    by which it should be found; without names, the seed draws them."""

    make_node: type[SimNode] = SimNode

    def __init__(self, seed: int, core: Core = ClusterShard, faults: Sequence[str] = ()) -> None:
        self.seed = seed
        self.now_ms = 0
        self.counts: Counter[str] = Counter()
        self._core = core
        self._random = random = Random(f"cluster {seed}")
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._partitions = [Partition(random, MEMORY_MS, LAG_MS) for _ in range(SHARDS)]
        self._ids = ProducerIds(random.choice((1, 2, 4, 32_767)), ID_MEMORY_MS)
        self._group = NodesGroup(SHARDS, SETTINGS.session_ms)
        self._group_away_until_ms = 0
        self._heartbeats = 0
        self._nodes: list[SimNode] = []
        self._names = count(1)
        self._acknowledged: list[dict[str, list[tuple[int, int]]]] = [{} for _ in range(SHARDS)]
        """By shard and key, in the order of acknowledgements: the claim and the value, ever larger ones only."""
        self._shown: dict[str, int] = {}
        self._late: list[set[int]] = [set() for _ in range(SHARDS)]
        """By shard, the offsets of stale records that were taken because the leader had forgotten their producer."""
        self._strays: set[tuple[int, int]] = set()
        """Shards and claims behind which an owner wrote whom they did not fence."""
        self._cuts: list[tuple[SimNode, str, int]] = []
        self._is_quiet = False
        self._idle_until_ms = 0
        writers = random.choice((INFORMED, 0.9))
        self._pause_ms = random.choice((30, 200, 1_500))
        self._loss = random.choice((0, 0, 0.01, 0.05))
        self._delay_ms = random.choice((0, 0, 500, 5_000))
        for _ in range(random.choice((2, 3, 3, 4))):
            self._start_node()
        self.after(0, self._replicate)
        self.after(1_000, self._clean)
        drawn = [name for name in FAULTS if random.random() < RARE.get(name, 0.5)]
        self._faults: list[Callable[[], None]] = [getattr(self, f"_{name}") for name in faults or drawn]
        if self._faults:
            self.after(random.randrange(8_000), self._fail)
        for shard in range(SHARDS):
            for key in range(KEYS):
                self.after(random.randrange(500), Client(self, f"{shard}/{key}", shard, random, writers).write)
                self.after(random.randrange(500), Client(self, f"{shard}/{key}", shard, random, 0.99).read)

    # --- time ---

    def after(self, delay_ms: int, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), happen))

    def mark(self, what: str) -> None:
        self.counts[what] += 1

    def run(self) -> Counter[str]:
        """Run faults, then a quiet, or until the protocol's limits are met; raises `Broken`."""
        try:
            self._run_until(FAULTS_MS)
            self._calm()
            self._run_until(FAULTS_MS + QUIET_MS)
            self._must_have_settled()
        except LimitMet:
            self.mark("records cleaned away under a late batch that nobody repaired")
        except (Broken, AssertionError) as broken:
            raise Broken(f"seed {self.seed}, {self.now_ms} ms: {broken}") from broken
        return self.counts

    def _run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, happen = heapq.heappop(self._events)
            happen()
        self.now_ms = end_ms

    # --- what brokers do by themselves ---

    def _replicate(self) -> None:
        for one in self._partitions:
            one.replicate(self.now_ms)
        self.after(self._random.choice((1, 5, 5, 40)), self._replicate)

    def _clean(self) -> None:
        for one in self._partitions:
            self.counts["records cleaned away"] += one.clean(self.now_ms)
        self.after(5_000, self._clean)

    # --- the network ---

    def _is_cut(self, node: SimNode, way: str) -> bool:
        return any(one is node and at == way and until > self.now_ms for one, at, until in self._cuts)

    def _latency_ms(self) -> int:
        if self._delay_ms and not self._is_quiet and self._random.random() < 0.03:
            self.mark("requests delayed")
            return self._random.randrange(self._delay_ms)
        return self._random.randrange(1, 12)

    def _is_lost(self) -> bool:
        return not self._is_quiet and self._random.random() < self._loss

    def request(self, node: SimNode, effect: ShardEffect, decided_ms: int) -> None:
        """Bring a request to its broker. The node gives up after a while; the request may arrive all the same."""
        answered = False

        def answer(event: ShardEvent) -> None:
            nonlocal answered
            if not answered:
                answered = True
                node.answered(effect.shard, event)

        def reply(event: ShardEvent) -> None:
            if self._is_lost() or self._is_cut(node, "from brokers"):
                self.mark("answers lost")
            else:
                self.after(self._latency_ms(), lambda: answer(event))

        if self._is_lost() or self._is_cut(node, "to brokers"):
            self.mark("requests lost")
        else:
            self.after(self._latency_ms(), lambda: self._serve(node, effect, decided_ms, reply))
        self.after(TIMEOUT_MS + 500, lambda: answer(_no_answer(effect)))

    def _serve(self, node: SimNode, effect: ShardEffect, decided_ms: int, reply: Callable[[ShardEvent], None]) -> None:
        partition = self._partitions[effect.shard]
        if isinstance(effect, AskProducerId):
            given = self._ids.init(effect.shard, effect.producer_id, effect.producer_epoch, self.now_ms)
            reply(ProducerIdAnswered(effect.number, *given))
        elif self.now_ms < partition.away_until_ms:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert isinstance(effect, ReadLog | WriteBatch)
            reply((LogRead if isinstance(effect, ReadLog) else BatchAnswered)(effect.number, error))
        elif isinstance(effect, ReadLog):
            error, data, end = partition.fetch(effect.offset, self._random.choice((1, 3, 100)))
            reply(LogRead(effect.number, error, data, end))
        else:
            assert isinstance(effect, WriteBatch)
            self._produce(node, effect, decided_ms, reply)

    def _produce(self, node: SimNode, effect: WriteBatch, decided_ms: int, reply: Callable[[ShardEvent], None]) -> None:
        partition = self._partitions[effect.shard]
        if self.now_ms < partition.slow_until_ms and self._random.random() < 0.3:
            reply(BatchAnswered(effect.number, ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        before = partition.newest_claim
        error, base, is_taken = partition.append(effect.batch, self.now_ms)
        if is_taken and partition.forgets_at_claim and partition.newest_claim is not before:
            partition.forgets_at_claim = False
            self.after(self._random.randrange(30), partition.forget)
        if is_taken:
            self._must_be_the_writer(effect.shard, before, partition.batches[-1], decided_ms)
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH:
            self.mark("writes refused by the fence")
        elif error is ErrorCode.NONE:
            self.mark("repetitions answered")
        if error is not ErrorCode.NONE:
            reply(BatchAnswered(effect.number, error))
            return
        leader, began_ms = partition.leader, self.now_ms

        def wait() -> None:
            if partition.leader != leader:
                # As seen: a leader that was frozen answers with the offset of what is then truncated.
                reply(BatchAnswered(effect.number, ErrorCode.NOT_LEADER_OR_FOLLOWER, base))
            elif partition.committed > base:
                reply(BatchAnswered(effect.number, ErrorCode.NONE, base))
            elif self.now_ms - began_ms > TIMEOUT_MS:
                reply(BatchAnswered(effect.number, ErrorCode.REQUEST_TIMED_OUT, base))
            else:
                self.after(5, wait)

        wait()

    def _must_be_the_writer(self, shard: int, claim: LogEntry | None, batch: Batch, decided_ms: int) -> None:
        newest = -1 if claim is None else claim.offset
        stale = [one for one in batch.entries if one.kind is EntryKind.DATA and one.tag < newest]
        if not stale:
            return
        self.mark("stale records taken")
        # The guarantee has limits: a leader that forgets what it must not, a batch as old as its memory.
        if self._partitions[shard].was_forgetful or self.now_ms - decided_ms >= MEMORY_MS // 2:
            self._late[shard].update(one.offset for one in stale)
            return
        is_of_writer = claim is not None and claim.producer[0] == batch.producer[0]
        if is_of_writer or any(node.shards[shard].tag == newest for node in self._nodes):
            raise Broken(f"offset {batch.base} was written under claim {stale[0].tag}, behind claim {newest}")
        self.mark("claims that fenced nobody")
        self._strays.add((shard, newest))

    # --- the nodes' group ---

    def send_heartbeat(self, node: SimNode, member: str, *, joins: bool) -> None:
        self._heartbeats += 1
        number, sent_boot_ms = self._heartbeats, node.clock.boot_ms

        def arrive() -> None:
            if self.now_ms < self._group_away_until_ms:
                return
            answer = self._group.heartbeat(member, self.now_ms, joins=joins)
            if not self._is_lost() and not self._is_cut(node, "from the group"):
                self.after(
                    self._latency_ms(),
                    lambda: node.when_awake(lambda: node.heartbeat_answered(member, number, sent_boot_ms, answer)),
                )

        if not self._is_lost() and not self._is_cut(node, "to the group"):
            self.after(self._latency_ms(), arrive)

    def send_released(self, node: SimNode, member: str, revocation: int) -> None:
        """Notify the group; -1: the member leaves. The notice arrives sooner or later."""
        delay_ms = self._latency_ms()
        if revocation < 0:
            self.after(delay_ms, lambda: self._group.leave(member))
        else:
            self.after(delay_ms, lambda: self._group.released(member, revocation))

    # --- what is watched ---

    def owned(self, node: SimNode, shard: int) -> None:
        self.mark("shards owned")
        numbers = node.shards[shard].numbers
        if (shard, node.shards[shard].tag) in self._strays:
            raise Broken(f"{node.name} serves under claim {node.shards[shard].tag}, behind which another owner wrote")
        for key, known in self._acknowledged[shard].items():
            value = max((value for tag, value in known if tag < node.shards[shard].tag), default=0)
            if numbers.get(key, 0) < value:
                self._must_have_been_repaired(shard, key)
                raise Broken(f"{node.name} replayed {numbers.get(key, 0)} of {key}, and {value} was acknowledged")

    def _must_have_been_repaired(self, shard: int, key: str) -> None:
        """Raise `LimitMet` if the cleaner has kept a late batch's record only: no node was there to repair it
        within the cleaner's lag (docs/spec/shared-log.md#Limits)."""
        batches = self._partitions[shard].batches
        kept = [
            one for batch in batches for one in batch.entries if one.offset in batch.kept and one.key == key.encode()
        ]
        if len(kept) == 1 and kept[0].offset in self._late[shard]:
            raise LimitMet

    def written(self, node: SimNode, shard: int, key: str, value: int) -> None:
        self.mark("writes acknowledged")
        own = node.shards[shard].tag
        known = self._acknowledged[shard].setdefault(key, [])
        known[:] = [one for one in known if one[0] < own or one[1] > value]
        known.append((own, value))
        for other in self._nodes:
            claim = other.shards[shard].core.claim
            if other.is_alive and claim is not None and claim.offset > own:
                found = other.shards[shard].numbers.get(key, 0)
                if found < value:
                    raise Broken(f"{node.name} acknowledged {value} of {key}, and {other.name} owns it with {found}")

    def shown(self, key: str) -> int:
        return self._shown.get(key, 0)

    def show(self, key: str, value: int, floor: int) -> None:
        if value < floor:
            raise Broken(f"{value} of {key} was read, and {floor} had been told before")
        self._shown[key] = max(value, self.shown(key))

    # --- clients ---

    def pick_node(self, random: Random, shard: int, before: SimNode | None, loyalty: float) -> SimNode | None:
        if loyalty == INFORMED:
            return next((one for one in self._nodes if one.is_alive and self._group.owns(one.member, shard)), None)
        if before is not None and before.is_alive and random.random() < loyalty:
            return before
        alive = [one for one in self._nodes if one.is_alive]
        serving = [one for one in alive if one.shards[shard].core.claim is not None]
        # Clients come to nodes that believe they own the shard: zombies among them.
        return random.choice(serving or alive) if alive else None

    def rest(self, go_on: Callable[[], None]) -> None:
        """Let a client continue after a pause, or when a time without requests has ended."""

        def look() -> None:
            if self.now_ms < self._idle_until_ms and not self._is_quiet:
                self.after(1_000, look)
            else:
                go_on()

        self.after(self._pause_ms, look)

    # --- faults ---

    def _fail(self) -> None:
        if not self._is_quiet:
            self._random.choice(self._faults)()
            self.after(self._random.choice((500, 3_000, 9_000, 20_000)), self._fail)

    def _start_node(self) -> None:
        name = f"node{next(self._names)}"
        self._nodes.append(self.make_node(name, self, self._random, SHARDS, SETTINGS, self._core))

    def _somebody(self) -> SimNode | None:
        alive = [one for one in self._nodes if one.is_alive]
        return self._random.choice(alive) if alive else None

    def _kill(self) -> None:
        node = self._somebody()
        if node is not None:
            node.is_alive = False
            self.mark("nodes killed")
            again_ms = self._random.choice((300, 3_000, 15_000))
            self.after(again_ms, self._start_node)
            if again_ms == 300:  # with the data folder of the node, from which its successor knows the member
                self.after(again_ms, lambda: self._evict_predecessor(node))

    def _evict_predecessor(self, node: SimNode) -> None:
        self._group.leave(node.member)
        self.mark("members removed by their successor")

    def _stop(self) -> None:
        node = self._somebody()
        if node is not None and not node.is_leaving:
            node.when_awake(node.stop)
            self.mark("nodes stopped as planned")
            self.after(self._random.choice((300, 3_000)), self._start_node)

    def _start_another(self) -> None:
        if sum(one.is_alive for one in self._nodes) < 5:
            self._start_node()

    def _freeze(self) -> None:
        node = self._somebody()
        if node is not None:
            node.freeze(self._random.choice((1_000, 5_000, 8_000, 30_000, 90_000)))
            self.mark("nodes frozen")

    def _freeze_all(self) -> None:
        for node in self._nodes:
            node.freeze(self._random.randrange(20_000, 90_000))
        self.mark("all nodes frozen")

    def _freeze_in_turn(self) -> None:
        """Freeze one node after the other, so that each is gone when the next has taken over; they wake in order."""
        nodes = [one for one in self._nodes if one.is_alive]
        if any(one.is_frozen for one in nodes):
            return
        nodes.sort(key=lambda one: all(state.core.claim is None for state in one.shards))
        end_ms = self.now_ms + MEMORY_MS + 9_000 * len(nodes)
        for number, node in enumerate(nodes):
            self.after(number * 9_000, partial(self._freeze_until, node, end_ms + number * 1_000))
        self.mark("all nodes frozen, one after the other")

    def _freeze_until(self, node: SimNode, until_ms: int) -> None:
        if not self._is_quiet:
            node.freeze(until_ms - self.now_ms)

    def _freeze_between(self) -> None:
        node = self._somebody()
        if node is not None:
            node.freezes_with_effects_ms = self._random.choice((4_000, 8_000, 20_000, 50_000))

    def _cut(self) -> None:
        node = self._somebody()
        if node is not None:
            ways = ("to brokers", "from brokers", "to the group", "from the group")
            chosen = self._random.choice((ways[:1], ways[1:2], ways[2:3], ways[3:], ways[2:], ways))
            until_ms = self.now_ms + self._random.choice((2_000, 8_000, 25_000, 100_000))
            self._cuts += [(node, way, until_ms) for way in chosen]
            self.mark("one-way cuts" if len(chosen) == 1 else "cuts")

    def _move_leader(self) -> None:
        self._random.choice(self._partitions).move(self.now_ms, self._random.choice((20, 1_000, 9_000)))
        self.mark("leaders moved")

    def _slow_down(self) -> None:
        self._random.choice(self._partitions).slow_until_ms = self.now_ms + self._random.choice((500, 3_000, 12_000))
        self.mark("slow partitions")

    def _lose_group(self) -> None:
        away_ms = self._random.choice((2_000, 5_000, 12_000))
        self._group_away_until_ms = self.now_ms + away_ms
        self.after(away_ms, lambda: self._group.come_back(self.now_ms))
        self.mark("group coordinators lost")

    def _be_idle(self) -> None:
        self._idle_until_ms = self.now_ms + self._random.choice((20_000, 75_000, 90_000))
        self.mark("idle times")

    def _fall_silent(self) -> None:
        """Cut a node off from its group, and let nobody write once another may have taken over."""
        node = self._somebody()
        if node is not None:
            self._cuts.append((node, "to the group", self.now_ms + MEMORY_MS + 40_000))
            idle_until_ms = self.now_ms + MEMORY_MS + 20_000

            def be_idle() -> None:
                self._idle_until_ms = max(self._idle_until_ms, idle_until_ms)

            self.after(8_000, be_idle)
            self.mark("nodes cut off in silence")

    def _forget(self) -> None:
        partition = self._random.choice(self._partitions)
        if self._random.random() < 0.3:
            partition.forget()
        else:
            partition.forgets_at_claim = True
        self.mark("producers forgotten")

    def _cut_from_group(self) -> None:
        node = self._somebody()
        if node is not None:
            until_ms = self.now_ms + self._random.choice((15_000, 100_000))
            self._cuts.append((node, self._random.choice(("to the group", "from the group")), until_ms))
            self.mark("nodes cut off from their group")

    # --- the quiet ---

    def _calm(self) -> None:
        self._is_quiet = True
        self._cuts.clear()
        self._group_away_until_ms = 0
        for one in self._partitions:
            one.away_until_ms = one.slow_until_ms = 0
        for node in self._nodes:
            node.frozen_until_ms = min(node.frozen_until_ms, self.now_ms)
            node.freezes_with_effects_ms = 0
            node.wake()
        if not any(one.is_alive and not one.is_leaving for one in self._nodes):
            self._start_node()
        self._told_before = dict(self._shown)
        self.counts["epochs that ran out"] += self._ids.rollovers
        self.counts["ids that were forgotten"] += self._ids.forgotten
        self.counts["members evicted"] += self._group.evicted

    def _must_have_settled(self) -> None:
        for shard, partition in enumerate(self._partitions):
            owners = [one.name for one in self._nodes if one.is_alive and one.shards[shard].core.is_serving]
            if len(owners) != 1:
                why = [(one.name, one.shards[shard].core.problem) for one in self._nodes if one.is_alive]
                raise Broken(f"shard {shard} is served by {owners}: {why}")
            for key in range(KEYS):
                name = f"{shard}/{key}"
                if self.shown(name) <= self._told_before.get(name, 0):
                    raise Broken(f"{name} takes no writes any more")
            self._must_be_in_the_log(shard, partition)

    def _must_be_in_the_log(self, shard: int, partition: Partition) -> None:
        tail, found = ShardTail(), dict[str, int]()
        _, data, _ = partition.fetch(0, 10**9)
        for one in tail.take(data):
            if not isinstance(one, PendingRecord | TransactionEnd):
                found |= self.make_node.number_in(*one)
        for name, known in self._acknowledged[shard].items():
            most = max(number for _, number in known)
            if found.get(name, 0) < most:
                raise Broken(f"{name} is {found.get(name)} in the log, and {most} was acknowledged")
        self.counts["records in the end"] += sum(len(entries) for _, entries in entries_of(data))


class LimitMet(Exception):
    """Raised to end a world in which something happened that the protocol does not withstand, and says so."""


class Client:
    """Writes one number after the other, or reads, one request at a time."""

    def __init__(self, world: ClusterWorld, key: str, shard: int, random: Random, loyalty: float) -> None:
        self._world, self._key, self._shard, self._random = world, key, shard, random
        self._loyalty = loyalty
        self._next = 0
        self._asked = 0
        self._node: SimNode | None = None

    def write(self) -> None:
        self._next += 1
        self._send(is_write=True)

    def read(self) -> None:
        self._send(is_write=False)

    def _send(self, *, is_write: bool) -> None:
        world, floor = self._world, self._world.shown(self._key)
        node = self._node = world.pick_node(self._random, self._shard, self._node, self._loyalty)
        self._asked += 1
        asked, value = self._asked, self._next

        def done(found: int | None) -> None:
            if asked != self._asked:
                return
            self._asked += 1
            if found is None or (is_write and found < value):
                self._node = None
                world.rest(lambda: self._send(is_write=is_write))
                return
            world.show(self._key, found, floor)
            world.rest(self.write if is_write else self.read)

        def serve() -> None:
            if node is None:
                return
            answer = lambda found: world.after(1, lambda: done(found))  # noqa: E731
            if is_write:
                node.write(self._shard, self._key, value, answer)
            else:
                node.read(self._shard, self._key, answer)

        if node is not None:
            world.after(1, lambda: node.when_awake(serve))
        world.after(_CLIENT_TIMEOUT_MS, lambda: done(None))


def _no_answer(effect: ShardEffect) -> ShardEvent:
    if isinstance(effect, AskProducerId):
        return ProducerIdAnswered(effect.number, None)
    assert isinstance(effect, ReadLog | WriteBatch)
    return LogRead(effect.number, None) if isinstance(effect, ReadLog) else BatchAnswered(effect.number, None)

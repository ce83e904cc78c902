"""`World(seed)`: the daemon, its disk, its network and its members, all from one seed and on one virtual clock.

The simulation is real: bytes travel, split anywhere, through the real sessions; nothing enters the node but `step`;
the disk forgets what was not synced; members are our own client core. One seed is one trace.
"""

import contextlib
import hashlib
import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.config import Config
from coordinator.effects import Ask, Close, Effect, Flush, Pause, Replied, Resume, Send
from coordinator.events import Answered, Asked, Event, Flushed, Lost, Opened, Received, Woke
from coordinator.groups.classic.state import Group, GroupState
from coordinator.moment import Moment
from coordinator.node import Node
from muster.member import MemberSettings
from partition_log.store import LogStore, StoreLimits
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.simulation.checkers import Broken, Checkers
from tests.simulation.disk import Crash, SimDisk
from tests.simulation.faults import Faults, Seen
from tests.simulation.ids import SimIds
from tests.simulation.ledger import Ledger
from tests.simulation.members import Ghost, SimMember
from tests.simulation.network import Link, Pipe
from tests.simulation.replay import compare_with_replay
from tests.simulation.wires import draw_dialect

WALL_MS = 1_700_000_000_000
REPLAY_EVERY_STEPS = 50
QUIET_MS = 60_000
SESSION_MS, REBALANCE_MS = 6_000, 8_000
TOPICS = {"alpha": 4, "beta": 3}


class World:
    """Everything from one seed. `run` goes through the faults and the quiet after them, checking as it goes."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self.faults = faults or Faults()
        self.seen = Seen()
        self.now_ms = 0
        self.steps = 0
        self.checkers = Checkers()
        self._ledger = Ledger(seed, self.checkers, self.seen)
        self.members: list[SimMember] = []
        self._random = Random(f"world-{seed}")
        self._disk = SimDisk(seed)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._links: dict[int, Link] = {}
        self._next_link = 0
        self._names = 0
        self._trace = hashlib.blake2b(digest_size=16)
        self._node: Node | None = None
        self._life = 0
        self._wake_ms: int | None = None
        self._flush: Flush | None = None
        self._rebalances = 0
        self._crash_in_flush = False
        self.config = Config(
            group_initial_rebalance_delay_ms=self._random.choice((0, 500, 3_000)),
            group_max_size=self._random.choice((3, 1_000, 1_000)),
            offsets_topic_num_partitions=5,
            kafka=None,
        )

    # --- the clock ---

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ms + max(delay_ms, 0), self._order, action))

    def run(self) -> Seen:
        """Faults, then quiet; then everything must be settled. Raises Broken, naming the seed."""
        watched = Group.become

        def become(group: Group, state: GroupState, wall_ms: int) -> None:
            self._rebalances += state is GroupState.PREPARING
            watched(group, state, wall_ms)

        Group.become = become  # type: ignore[method-assign,assignment]
        try:
            self._boot()
            self._populate()
            self._advance_to(self.faults.until_ms + QUIET_MS)
            self._must_be_settled()
        except Exception as error:
            raise Broken(f"seed {self.seed}, {self.now_ms} ms, step {self.steps}: {error}") from error
        finally:
            Group.become = watched  # type: ignore[method-assign]
        return self.seen

    def trace(self) -> str:
        """A digest of every byte that travelled and when."""
        return self._trace.hexdigest()

    def _advance_to(self, until_ms: int) -> None:
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._queue)
            self.now_ms = at_ms
            action()

    # --- the daemon ---

    def _boot(self) -> None:
        limits = StoreLimits(wal_segment_bytes=1 << 18, checkpoint_bytes=1 << 17, max_batch_bytes=1 << 16)
        store = LogStore(self._disk, "data", limits, cluster_id="sim", node_id=1)
        store.open()
        self._life += 1
        self._wake_ms, self._flush, self._rebalances = None, None, 0
        node = self._node = Node(self.config, store, SimIds(self._random), {"native": ("sim", 1)}, self._moment())
        while not node.is_loaded:
            self._step(Woke())
        self.checkers.after_recovery(node)

    def _moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    def _step(self, event: Event) -> None:
        node = self._node
        assert node is not None
        self.steps += 1
        self._note(event)
        for effect in node.step(event, self._moment()):
            self._carry_out(effect)
        self.checkers.after_step(node)
        if self.steps % REPLAY_EVERY_STEPS == 0:
            compare_with_replay(node)
        self._arm()

    def _note(self, event: Event) -> None:
        self._trace.update(f"{self.now_ms} {type(event).__name__} ".encode())
        if isinstance(event, Received):
            self._trace.update(event.data)

    def _arm(self) -> None:
        assert self._node is not None
        deadline_ms = self._node.next_deadline_ms
        if deadline_ms is None or (self._wake_ms is not None and self._wake_ms <= deadline_ms):
            return
        self._wake_ms, life = deadline_ms, self._life
        self.after(deadline_ms - self.now_ms, lambda: self._wake(life, deadline_ms))

    def _wake(self, life: int, deadline_ms: int) -> None:
        if life == self._life and self._node is not None:
            if self._wake_ms == deadline_ms:
                self._wake_ms = None
            self._step(Woke())

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._trace.update(effect.data)
                link = self._links.get(effect.connection)
                if link is not None and link.open:
                    link.to_client.send(effect.data)
            case Close():
                link = self._links.get(effect.connection)
                if link is not None:
                    link.close_by_daemon(self)
            case Flush():
                self._flush = effect
                took_ms = self._flush_ms()
                self.after(took_ms, self._in_this_life(lambda: self._flushed(effect)))
                if self._crash_in_flush:
                    self._crash_in_flush = False
                    self.after(took_ms // 2, self._in_this_life(self._crash))
            case Ask():
                self.after(self._random.randrange(1, 200), self._in_this_life(lambda: self._asked(effect)))
            case Replied():
                self._ledger.heard(effect)
            case Pause() | Resume():
                pass

    def _flush_ms(self) -> int:
        return (
            self._random.randrange(200, 1_500)
            if self._chance(self.faults.slow_disk)
            else self._random.choice((1, 2, 3))
        )

    def _in_this_life(self, action: Callable[[], None]) -> Callable[[], None]:
        life = self._life

        def unless_dead() -> None:
            if life == self._life and self._node is not None:
                action()

        return unless_dead

    def _flushed(self, effect: Flush) -> None:
        self._flush = None
        effect.job.run(self._disk)
        self._step(Flushed(effect.job.up_to))

    def _asked(self, effect: Ask) -> None:
        effect.job.run(self._disk)
        self.seen.add("checkpoints")
        self._step(Answered(effect.call_id, effect.job))

    def _crash(self) -> None:
        node = self._node
        if node is None:
            return
        self.checkers.notes_match(node, self._rebalances)
        compare_with_replay(node)
        self.seen.add("crashes")
        self._ledger.crashed()
        if node.core.store.position > node.core.store.flushed:
            self.seen.add("crashes with unsynced loss")
        if self._flush is not None and self._chance(self.faults.torn):
            self._tear(self._flush)
        self._node = None
        self._life += 1
        torn = self._disk.counts["torn"]
        self._disk.crash()
        self.seen.add("torn writes", self._disk.counts["torn"] - torn)
        for link in self._links.values():
            link.cut(self, self._random)
        self._links.clear()
        self.after(self._random.choice((0, 100, 3_000)), self._boot)

    def _tear(self, flush: Flush) -> None:
        """The machine dies while the flush is being written: its write may have begun, its sync has not happened."""
        self._disk.crash_before = self._disk.operations + 2
        with contextlib.suppress(Crash):
            flush.job.run(self._disk)

    # --- the network ---

    def _open_link(
        self, member: SimMember | Ghost, received: Callable[[bytes], None], lost: Callable[[], None]
    ) -> Link | None:
        if self._node is None:
            return None
        self._next_link += 1
        number, life = self._next_link, self._life

        def to_daemon(data: bytes) -> None:
            if life == self._life and self._node is not None:
                self._step(Received(number, data))

        def lost_by_daemon() -> None:
            self._links.pop(number, None)
            if life == self._life and self._node is not None:
                self._step(Lost(number))

        def lost_by_client() -> None:
            if member.link is link:
                lost()

        link = Link(
            number,
            Pipe(self, self._random, to_daemon),
            Pipe(self, self._random, lambda data: received(data) if member.link is link else None),
            lost_by_daemon,
            lost_by_client,
        )
        self._links[number] = link
        self._step(Opened(number, member.dialect.name, "10.0.0.1"))
        return link

    # --- the people ---

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _populate(self) -> None:
        topics = tuple(CreatableTopic(name, count) for name, count in TOPICS.items())
        self._step(Asked(1, CreateTopics(topics)))
        for _ in range(self._random.randrange(2, 6)):
            self._join()
        self.after(1_000, self._second)

    def _join(self, like: SimMember | None = None) -> None:
        if like is None:
            self._names += 1
            group_id = self._random.choice(("orders", "orders", "delays"))
            instance = f"instance-{self._names}" if self._chance(0.4) else None
            topics: tuple[str, ...] = self._random.choice((("alpha",), ("alpha", "beta"), ("beta",)))
            settings = MemberSettings(
                group_id=group_id,
                group_instance_id=instance,
                assignors=self._random.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range"))),
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=1_500,
                max_poll_interval_ms=REBALANCE_MS,
                request_timeout_ms=4_000,
            )
            name = f"m{self._names}"
            dialect = draw_dialect(self._random, is_static=instance is not None)
        else:
            settings, topics, name, dialect = like.settings, like.topics, like.name, like.dialect
        self.seen.add(f"{dialect.name} members")
        member = SimMember(
            name, settings, topics, self, self._random, self._open_link, self.checkers, self.seen, dialect
        )
        self.members.append(member)
        member.start()

    def _second(self) -> None:
        """Once a second, what goes wrong."""
        if self.now_ms >= self.faults.until_ms:
            self._end_of_faults()
            return
        self.after(1_000, self._second)
        if self._chance(self.faults.crash):
            if self._chance(0.5):
                self._crash()
            else:
                self._crash_in_flush = True
        alive = [member for member in self.members if member.running]
        if len(alive) < 7 and self._chance(self.faults.join):
            self._join()
        for member in alive:
            self._trouble(member)
        if self._node is not None:
            self._step(self._ledger.next(self._node))

    def _trouble(self, member: SimMember) -> None:
        faults = self.faults
        if member.link is not None and self._chance(faults.cut):
            self.seen.add("cut connections")
            member.link.cut(self, self._random)
        if self._chance(faults.stall):
            self.seen.add("stalls")
            member.stalled_until_ms = self.now_ms + self._random.randrange(1_000, 15_000)
        if member.settings.group_instance_id is not None and self._chance(faults.restart):
            member.kill()
            self.after(self._random.choice((0, 100, 2_000)), lambda: self._join(like=member))
        elif self._chance(faults.kill):
            self.seen.add("kills")
            member.kill()
            self.after(self._random.randrange(5_000, 20_000), lambda: self._haunt(member))
        elif self._chance(faults.leave):
            member.leave()

    def _haunt(self, dead: SimMember) -> None:
        ghost = Ghost(dead, self.checkers, self.seen)
        ghost.link = self._open_link(ghost, ghost.received, lambda: None)
        ghost.haunt()

    def _end_of_faults(self) -> None:
        self.faults.slow_disk = 0
        for member in self.members:
            member.stalled_until_ms = min(member.stalled_until_ms, self.now_ms)
        if not any(member.running for member in self.members):
            self._join()

    def _must_be_settled(self) -> None:
        """Faults have stopped long ago: every group is Stable or Empty, and every member that runs is in one."""
        node = self._node
        assert node is not None
        for _shard, group in node.core.directory.values():
            if group.state not in (GroupState.EMPTY, GroupState.STABLE):
                raise Broken(f"{group.group_id} is still {group.state.title}")
        for member in self.members:
            if member.running:
                self._must_be_in(node, member)
        self.checkers.notes_match(node, self._rebalances)
        self._count_notes(node)

    def _must_be_in(self, node: Node, member: SimMember) -> None:
        _shard, group = node.core.find(member.settings.group_id)
        member_id = member.membership.member_id
        if group is None or member_id not in group.members:
            raise Broken(f"{member.name} runs and is no member of {member.settings.group_id}")
        if not member.is_settled:
            raise Broken(f"{member.name} does not know where to read on")
        since_ms = member.waiting_since_ms
        if since_ms is not None and since_ms < self.now_ms - QUIET_MS // 2:
            raise Broken(f"{member.name} has waited for an answer since {since_ms} ms")

    def _count_notes(self, node: Node) -> None:
        for notes in node.core.journal.notes():
            self.seen.add("rebalances", notes.kind == "rebalance")
            self.seen.add("evictions", notes.cause in ("session expired", "member did not rejoin in time"))
            self.seen.add("static replacements", notes.cause == "static member replaced")


def run_one(seed: int) -> tuple[Seen, str, Any]:
    """A whole world; what it saw, its trace, and itself."""
    world = World(seed)
    return world.run(), world.trace(), world

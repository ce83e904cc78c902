"""The daemon of a world: the node, the disk below it, and what may befall them. Carries out what the node asks for, as
`coordinator.server` does, and whatever job an `Ask` brings, with crashes and failures between its disk operations."""

import contextlib
import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from coordinator.config import Config
from coordinator.effects import Ask, Close, Effect, Flush, Replied, Send
from coordinator.events import Answered, Asked, Event, Flushed, Received, Stopping, Woke
from coordinator.moment import Moment
from coordinator.node import Node
from partition_log.errors import LogDamaged
from partition_log.jobs import FlushJob
from partition_log.log import PartitionLog
from partition_log.store import Appended, AppendError, LogStore, StoreLimits
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import CorruptBatch
from tests.simulation.bounds import compare_sizes
from tests.simulation.checkers import Checkers
from tests.simulation.disk import Crash, SimDisk
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.ids import SimIds
from tests.simulation.ledger import Ledger
from tests.simulation.network import Clock, Link
from tests.simulation.replay import compare_with_replay

WALL_MS = 1_700_000_000_000
REPLAY_EVERY_STEPS = 50
TOPICS = {"alpha": 4, "beta": 3}
FOLDER, CLUSTER = "data", "sim"
_AGAIN_MS = 1_000


@dataclass(slots=True)
class UnderWay:
    """A job, and what the node hears when it is done."""

    number: int
    job: Any
    event: Callable[[], Event]
    has_run: bool = False


class Daemon:
    """Up or down. What is asked of it while it is down is nobody's: `node` is None then."""

    def __init__(self, seed: int, clock: Clock, config: Config, checkers: Checkers, seen: Seen, ledger: Ledger) -> None:
        self.config, self.limits = config, draw_limits(Random(f"limits-{seed}"))
        self.disk = SimDisk(seed)
        self.disk.forgets_on_failed_sync = True
        self.node: Node | None = None
        self.links: dict[int, Link] = {}
        self.steps = 0
        self.begun = 0  # rebalances, since the last start
        self.wall_offset_ms = 0
        self.slow_until_ms = self.paused_until_ms = -1
        self.has_weather = False
        self.on_up: Callable[[], None] = lambda: None
        self._clock, self._checkers, self._seen, self._ledger = clock, checkers, seen, ledger
        self._random = Random(f"daemon-{seed}")
        self._trace = hashlib.blake2b(digest_size=16)
        self._life = 0
        self._booted_ms = self._monotonic_ms = 0
        self._wake_ms: int | None = None
        self._jobs: dict[int, UnderWay] = {}
        self._next_job = 0
        self._waiting: list[Event] = []  # while it stands still
        self._is_behind = False
        self._was_full = False
        self._noted: dict[str, int] = {}  # the newest note counted, by group
        self.power_in = 0  # operations of the disk until the machine stops; 0: it does not
        self.fail_in = 0
        self._sound: SimDisk | None = None  # what was there before a bit flipped
        self._replay_at = REPLAY_EVERY_STEPS

    # --- what is asked of it ---

    def trace(self) -> str:
        return self._trace.hexdigest()

    def step(self, event: Event) -> None:
        """Let the event happen to the node, and carry out what it asks for; or later, if it stands still."""
        node = self.node
        if node is None:
            return
        if self._waiting or self._clock.now_ms < self.paused_until_ms:
            self._waiting.append(event)
            if len(self._waiting) == 1:
                self._clock.after(self.paused_until_ms - self._clock.now_ms, self.in_this_life(self._go_on))
            return
        self._step(node, event)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        node, self._is_behind = self.node, True
        for event in waiting:
            if node is not None and self.node is node:
                self._step(node, event)
        self._is_behind = False

    def _step(self, node: Node, event: Event) -> None:
        self.steps += 1
        self._note(event)
        for effect in node.step(event, self.moment()):
            self._carry_out(effect)
        if self.node is not node:
            return
        if node.core.store.disk_full is not self._was_full:
            self._was_full = not self._was_full
            self._seen.add("disks found full" if self._was_full else "disks that healed")
        self._checkers.after_step(node)
        if self.steps >= self._replay_at:
            records = compare_with_replay(node)
            # As often as it costs no more than the rest: every 50 steps at first, later as often as the log doubles.
            self._replay_at = self.steps + max(REPLAY_EVERY_STEPS, records if self.steps > 2_000 else 0)
            if not self._is_behind:
                compare_sizes(node, self.links)
        self._arm(node)

    def _note(self, event: Event) -> None:
        self._trace.update(f"{self._clock.now_ms} {type(event).__name__} ".encode())
        if type(event) is Received:
            self._trace.update(event.data)

    def moment(self) -> Moment:
        now_ms = self._clock.now_ms
        return Moment(now_ms - self._booted_ms + self._monotonic_ms, WALL_MS + now_ms + self.wall_offset_ms)

    def _arm(self, node: Node) -> None:
        deadline_ms = node.next_deadline_ms
        if deadline_ms is None:
            return
        at_ms = max(deadline_ms - self._monotonic_ms + self._booted_ms, self._clock.now_ms)
        if self._wake_ms is not None and self._wake_ms <= at_ms:
            return
        self._wake_ms, life = at_ms, self._life
        self._clock.after(at_ms - self._clock.now_ms, lambda: self._wake(life, at_ms))

    def _wake(self, life: int, at_ms: int) -> None:
        if life == self._life and self._wake_ms == at_ms:
            self._wake_ms = None
            self.step(Woke())

    def in_this_life(self, action: Callable[[], None]) -> Callable[[], None]:
        """The action, unless the daemon has died meanwhile."""
        life = self._life

        def unless_dead() -> None:
            if life == self._life:
                action()

        return unless_dead

    # --- effects and jobs ---

    def _carry_out(self, effect: Effect) -> None:
        kind = type(effect)
        if kind is Send:
            self._trace.update(effect.data)  # type: ignore[union-attr]
            link = self.links.get(effect.connection)  # type: ignore[union-attr]
            if link is not None and link.open:
                link.reply(effect.data)  # type: ignore[union-attr]
        elif isinstance(effect, Flush):
            self._begin(effect.job, lambda: Flushed(effect.job.up_to), self._flush_ms())
        elif isinstance(effect, Ask):
            took_ms = int(self._random.random() * 200) if self.has_weather else 1
            self._begin(effect.job, lambda: Answered(effect.call_id, effect.job), took_ms)
        elif isinstance(effect, Replied):
            self._ledger.heard(effect)
        elif isinstance(effect, Close):
            link = self.links.get(effect.connection)
            if link is not None:
                link.close_by_daemon(self._clock)

    def _flush_ms(self) -> int:
        if self._clock.now_ms < self.slow_until_ms:
            self._seen.add("slow syncs")
            return self._random.randrange(200, 1_500)
        return 1 + int(self._random.random() * 3) if self.has_weather else 1

    def _begin(self, job: Any, event: Callable[[], Event], took_ms: int) -> None:
        """The job runs at some time while it is under way, and is heard of when that is over."""
        self._next_job += 1
        under_way = self._jobs[self._next_job] = UnderWay(self._next_job, job, event)
        ran_ms = int(self._random.random() * took_ms)

        def run() -> None:
            if under_way.number in self._jobs and not under_way.has_run:
                under_way.has_run = True
                if self._run(job):
                    self._clock.after(took_ms - ran_ms, self.in_this_life(done))

        def done() -> None:
            if self._jobs.pop(under_way.number, None) is not None:
                self.step(event())

        self._clock.after(ran_ms, self.in_this_life(run))

    def _run(self, job: Any) -> bool:
        """Whether the daemon has survived it."""
        disk, name = self.disk, type(job).__name__
        short = disk.short_writes
        try:
            self._on_disk(lambda: job.run(disk))
        except Crash:
            self._seen.add(f"power failures inside a {name}")
            self.power_failure()
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # a job says itself that there was no room
                raise
            self._seen.add("stops because the disk failed")
            self._seen.add(f"failures inside a {name}")
            self.kill()
            return False
        self._seen.add(f"{name}s")
        self._seen.add("short writes", disk.short_writes - short)
        return True

    def _on_disk(self, work: Callable[[], Any]) -> Any:
        """What is to go wrong, goes wrong in it, if it gets so far."""
        disk, before = self.disk, self.disk.operations
        disk.crash_before = before + self.power_in if self.power_in else None
        disk.fail_at = before + self.fail_in if self.fail_in else None
        try:
            return work()
        finally:
            used = disk.operations - before
            self.power_in, self.fail_in = max(self.power_in - used, 0), max(self.fail_in - used, 0)
            disk.crash_before = disk.fail_at = None

    # --- going down ---

    def power_failure(self, back_after_ms: int = 100) -> None:
        """The machine stops: what was not synced is lost, kept or torn."""
        if self.node is None:
            return
        self._down("power failures")
        disk, torn = self.disk, self.disk.counts["torn"]
        disk.crash()
        self._seen.add("torn writes", disk.counts["torn"] - torn)
        self._clock.after(back_after_ms, self.boot)

    def kill(self, back_after_ms: int = 100) -> None:
        """The process ends, and nothing else."""
        if self.node is None:
            return
        self._down("daemons killed")
        self.disk.kill()
        self._clock.after(back_after_ms, self.boot)

    def _down(self, how: str) -> None:
        node = self.node
        assert node is not None
        self._checkers.notes_match(node, self.begun)
        self.count_notes()
        if node.core.store.position > node.core.store.flushed:
            self._seen.add("deaths with something unsynced")
        compare_with_replay(node)
        self._seen.add(how)
        self._ledger.crashed()
        self.node = None
        self._life += 1
        self._jobs.clear()
        self._waiting.clear()
        self.paused_until_ms = -1
        self.power_in = self.fail_in = 0
        for link in self.links.values():
            link.cut(self._clock, self._random)
        self.links.clear()

    def count_notes(self) -> None:
        """Why groups moved, as the journal has it; each note once, whatever lives it is read in."""
        node = self.node
        assert node is not None
        self._seen.add("rebalances", self.begun)
        for note in node.core.journal.notes():
            if note.number > self._noted.get(note.group_id, -1):
                self._noted[note.group_id] = note.number
                self._seen.add(f"notes: {note.cause}")
                self._seen.add("evictions", note.cause in ("session expired", "member did not rejoin in time"))

    def write_half(self) -> None:
        """The flush that is under way gets as far as its write, and no further."""
        for under_way in self._jobs.values():
            if isinstance(under_way.job, FlushJob) and not under_way.has_run:
                self.disk.crash_before = self.disk.operations + 2
                with contextlib.suppress(Crash):
                    under_way.job.run(self.disk)
                self.disk.crash_before = None

    def end_pause(self) -> None:
        """It goes on, if it stood still."""
        self.paused_until_ms = -1
        self._go_on()

    def fill(self) -> None:
        """Nothing grows any more, and nothing new can be made."""
        self.disk.is_full = True

    def make_room(self) -> None:
        self.disk.is_full = False

    def stop(self) -> None:
        """In good order: who waits is answered, everything reaches the disk, logs are whole. Then it starts again."""
        node = self.node
        if node is None or not node.is_loaded:
            return
        self.end_pause()
        self.step(Stopping())
        while self.node is node and (self._jobs or node.core.outbox):
            if not self._jobs:
                self.step(Woke())
            else:
                self._finish(self._jobs.pop(next(iter(self._jobs))))
        if self.node is not node:
            return  # it has died of it
        try:
            is_clean = self._on_disk(node.core.store.close)
        except Crash:
            self._seen.add("power failures inside a clean stop")
            self.power_failure()
            return
        except OSError:
            self.kill()
            return
        self._seen.add("clean stops" if is_clean else "stops on a full disk")
        self._down("stops")
        self.disk.kill()
        self._clock.after(100, self.boot)

    def _finish(self, under_way: UnderWay) -> None:
        if under_way.has_run or self._run(under_way.job):
            self.step(under_way.event())

    # --- coming up ---

    def boot(self) -> None:
        """Start; again and again, if the disk does not let it."""
        if self.node is not None:
            return
        try:
            node = self._on_disk(self._start)
        except Crash:
            self._seen.add("power failures inside a start")
            self.disk.crash()
            self._retry()
        except (LogDamaged, CorruptBatch) as damage:
            self._restore(str(damage))
        except OSError as error:
            self._seen.add("starts without room" if error.errno == errno.ENOSPC else "starts that the disk failed")
            self.disk.kill()
            self._retry()
        else:
            self._serve(node)

    def _retry(self) -> None:
        self.power_in = self.fail_in = 0
        self._clock.after(_AGAIN_MS, self.boot)

    def _start(self) -> Node:
        store = LogStore(self.disk, FOLDER, self.limits, cluster_id=CLUSTER, node_id=1)
        report = store.open()
        if store.identity.cluster_id != CLUSTER or store.identity.node_id != 1:
            raise Broken(f"this is {store.identity}: nobody noticed")
        self._seen.add("torn tails cut", report.torn is not None)
        self._seen.add("frames replayed at a start", report.frames)
        self._life += 1
        self._wake_ms, self.begun, self._was_full = None, 0, store.disk_full
        # A clock of its own for each life: what is kept of an older one is of no use.
        self._booted_ms, self._monotonic_ms = self._clock.now_ms, self._random.randrange(10**9)
        self._watch_appends(store)
        return Node(self.config, store, SimIds(self._random), {"native": (CLUSTER, 1)}, self.moment())

    def _watch_appends(self, store: LogStore) -> None:
        append, seen = store.append, self._seen

        def watched(log: PartitionLog, batch: bytes, **how: bool) -> Appended | AppendError:
            appended = append(log, batch, **how)
            if isinstance(appended, AppendError):
                seen.add(f"appends refused: {appended.name}")
            return appended

        store.append = watched  # type: ignore[method-assign]

    def _serve(self, node: Node) -> None:
        self.node = node
        while not node.is_loaded:
            self.step(Woke())
        failures = [shard.failure for shard in node.core.shards if shard.failure]
        if failures:
            self._restore(failures[0])
            return
        if self._sound is not None:
            self._seen.add("flipped bits that did no harm")
            self._sound = None
        self._checkers.after_recovery(node)
        if any(node.core.topics.partition_count(name) is None for name in TOPICS):
            topics = tuple(CreatableTopic(name, count) for name, count in TOPICS.items())
            self.step(Asked(1, CreateTopics(topics)))
        self.on_up()

    def flip(self, random: Random) -> None:
        """A bit of a file is another one, and nobody knows. To be done while the daemon is down."""
        files = [path for path in self.disk.files() if len(self.disk.file(path).data) and "node.toml" not in path]
        if self.node is not None or self._sound is not None or not files:
            return
        self._sound = self.disk.clone()
        path = random.choice(files)
        position = random.randrange(len(self.disk.file(path).data))
        byte = self.disk.file(path).data[position] ^ 1 << random.randrange(8)
        self.disk.damage(path, position, bytes((byte,)))
        self._seen.add("bits flipped")

    def _restore(self, damage: str) -> None:
        """What the sentence says: stop, and restore the folder from a copy."""
        if self._sound is None:
            raise Broken(f"nothing was damaged, and it says: {damage}")
        self._seen.add("flipped bits that were found")
        if self.node is not None:
            self._life += 1
            self.node = None
            self._jobs.clear()
        self.disk, self._sound = self._sound, None
        self._retry()


def draw_limits(random: Random) -> StoreLimits:
    """Small, so that everything happens often; segments may differ from those of the start before."""
    return StoreLimits(
        wal_segment_bytes=random.choice((1 << 17, 1 << 18)),
        checkpoint_bytes=random.choice((1 << 14, 1 << 16, 1 << 17)),
        max_batch_bytes=1 << 16,
        spill_bytes=random.choice((1 << 11, 1 << 14, 1 << 16)),
        open_files=random.choice((4, 16, 256)),
    )


def draw_config(random: Random) -> Config:
    """What a restart may change."""
    return Config(
        group_initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
        group_max_size=random.choice((3, 1_000, 1_000)),
        group_min_session_timeout_ms=random.choice((1_000, 6_000)),
        journal_notes_per_group=random.choice((20, 200)),
        offsets_topic_num_partitions=5,
        offsets_topic_segment_bytes=random.choice((1 << 14, 1 << 16, 1 << 20)),
        kafka=None,
    )

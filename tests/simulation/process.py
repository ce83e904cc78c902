"""The daemon of a world: the node, its disk, and their faults. Carries out the node's effects, as
`coordinator.io.server` does, and each job of a `RunJob`, with crashes and failures between its disk operations."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from coordinator.active_clock import ActiveClock
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.core.budget import BYTES_A_STEP, READS_A_STEP
from coordinator.io.disk_jobs import DiskJobs
from coordinator.node.effects import CheckPassword, Close, Effect, Flush, Return, RunJob, Send
from coordinator.node.events import Event, Lost, PasswordChecked, Received, Woke
from coordinator.node.node import AnyNode
from partition_log.disk.disk import Disk, is_disk_full
from partition_log.errors import SyncFailed
from tests.simulation.bounds import compare_sizes
from tests.simulation.checkers import Checkers
from tests.simulation.configs import draw_limits
from tests.simulation.disk import Crash, SimDisk
from tests.simulation.faults import Seen
from tests.simulation.ledger import Ledger
from tests.simulation.loop_time import LoopTime
from tests.simulation.network import Clock, Link
from tests.simulation.replay import compare_with_replay

WALL_MS = 1_700_000_000_000
REPLAY_EVERY_STEPS = 50
LOOK_AGAIN_MS = 100


@dataclass(slots=True)
class UnderWay:
    """A job, and the event when it is done."""

    number: int
    job: Any
    done: Callable[[], None]
    has_run: bool = False


class Beside:
    """Runs jobs as a thread would: at some time while `took_ms` go by."""

    def __init__(self, process: "Process", took_ms: Callable[[], int]) -> None:
        self._process = process
        self._took_ms = took_ms

    def run(self, job: Any, disk: Disk, done: Callable[[], None]) -> None:
        self._process.begin(job, done, self._took_ms())


class Process(ABC):
    """A process that is up or down. While it is down `node` is None, and requests are dropped."""

    def __init__(self, seed: int, clock: Clock, config: Config, checkers: Checkers, seen: Seen, ledger: Ledger) -> None:
        self.config, self.limits = config, draw_limits(Random(f"limits-{seed}"))
        self.loop_time = LoopTime()
        self.disk = SimDisk(seed)
        self.node: AnyNode | None = None
        self.links: dict[int, Link] = {}
        self.steps = 0
        self.begun = 0  # rebalances, since the last start
        self.wall_offset_ms = 0
        self.paused_until_ms = -1
        self.has_weather = False
        self._is_serving = False  # time of loading and stopping is not counted
        self.on_up: Callable[[], None] = lambda: None
        self._clock, self._checkers, self._seen, self._ledger = clock, checkers, seen, ledger
        self._random = Random(f"daemon-{seed}")
        self._trace = hashlib.blake2b(digest_size=16)
        self._life = 0
        self._booted_ms = self._monotonic_ms = 0
        self._active = ActiveClock(0, self._stalled)
        self._wake_ms: int | None = None
        self._jobs: dict[int, UnderWay] = {}
        self._next_job = 0
        self._waiting: list[Event] = []  # while it is paused
        self._unstepped: list[Event] = []  # what clients sent, until all of this turn of the loop is read
        self._unstepped_bytes = 0
        self._is_behind = False
        self._was_full = False
        self._noted: dict[str, int] = {}  # the newest note counted, by group
        self.power_in = 0  # disk operations until the machine stops; 0: it does not
        self.has_failed = False  # an operation, in the last work on the disk
        self.power_in_swap = 0  # the same, of a job that replaces segments by compacted ones
        self.fail_in = 0
        self._sound: SimDisk | None = None  # the disk before a bit flipped
        self._flipped = ("", 0, 0)  # the file, the position, and the byte there now
        self._replay_every = self._replay_at = REPLAY_EVERY_STEPS

    @property
    def disk(self) -> SimDisk:
        return self._disk

    @disk.setter
    def disk(self, disk: SimDisk) -> None:
        self._disk = disk
        disk.on_operation = lambda name: self.loop_time.waits_for(name, self._clock.now_ms)
        self._jobs_of_node = DiskJobs(disk, Beside(self, self._flush_ms), Beside(self, self._work_ms), self.step)

    @abstractmethod
    def power_failure(self, back_after_ms: int = 100) -> None:
        """The machine stops: what was not synced is lost, kept or torn."""

    @abstractmethod
    def kill(self, back_after_ms: int = 100) -> None:
        """End the process, and nothing else."""

    def pause(self, for_ms: int) -> None:
        """Stop the process for so long, or as long as an earlier pause lasts if that ends later."""
        self.paused_until_ms = max(self.paused_until_ms, self._clock.now_ms + for_ms)

    def replay_every(self, steps: int) -> None:
        """Replay the log every so many steps, in place of `REPLAY_EVERY_STEPS`."""
        self._replay_every = self._replay_at = steps

    # --- its inputs ---

    @property
    def stalled_ms(self) -> int:
        """Length of all stalls of this life that its clock leaves out."""
        return self._active.lost_ms

    def trace(self) -> str:
        return self._trace.hexdigest()

    def step(self, event: Event) -> None:
        """Give the event to the node, and carry out its effects; later, if the process is paused."""
        self._step_unstepped()
        self._step_or_wait([event])

    def arrived(self, number: int, data: bytes) -> None:
        """Read a client's bytes. All that is read in one turn of the loop is stepped together."""
        if not self._unstepped:
            self._clock.after(0, self._step_unstepped)
        self._unstepped.append(Received(number, data))
        self._unstepped_bytes += len(data)
        if len(self._unstepped) >= READS_A_STEP or self._unstepped_bytes >= BYTES_A_STEP:
            self._step_unstepped()

    def _step_unstepped(self) -> None:
        if self._unstepped:
            events, self._unstepped, self._unstepped_bytes = self._unstepped, [], 0
            self._seen.add("reads stepped together", len(events) > 1)
            self._step_or_wait(events)

    def _step_or_wait(self, events: list[Event]) -> None:
        node = self.node
        if node is None:
            return
        if self._waiting or self._clock.now_ms < self.paused_until_ms:
            if not self._waiting:
                self._go_on_later()
            self._waiting += events
            return
        self._step(node, events)

    def gone(self, number: int) -> None:
        """A client's connection is lost."""
        was_behind, self._is_behind = self._is_behind, True  # the node hears of it after what was read
        self._step_unstepped()
        self._is_behind = was_behind
        self._step_or_wait([Lost(number)])

    def _go_on_later(self) -> None:
        self._clock.after(self.paused_until_ms - self._clock.now_ms, self.in_this_life(self._go_on))

    def _go_on(self) -> None:
        if self._clock.now_ms < self.paused_until_ms:
            self._go_on_later()  # the pause has become longer
            return
        waiting, self._waiting = self._waiting, []
        node, self._is_behind = self.node, True
        for first in range(0, len(waiting), READS_A_STEP):
            if node is not None and self.node is node:
                self._step(node, waiting[first : first + READS_A_STEP])
        self._is_behind = False

    def _step(self, node: AnyNode, events: list[Event]) -> None:
        self.steps += 1
        for event in events:
            self._note(event)
        with self.loop_time.of_a_step():
            effects = node.step_many(events, self.moment(node.next_deadline_ms))
            self._checkers.heartbeats.stepped(self._clock.now_ms)
            for effect in effects:
                self._carry_out(effect)
        if self.node is not node:
            return
        if self.loop_time.lost_ms and self._is_serving:
            self._seen.add("steps that waited for the disk")
            self.pause(self.loop_time.lost_ms)
        if node.core.store.disk_full is not self._was_full:
            self._was_full = not self._was_full
            self._seen.add("disks found full" if self._was_full else "disks that healed")
        self._checkers.after_step(node)
        if self.steps >= self._replay_at:
            records = compare_with_replay(node)
            # Every so many steps at first, later each time the log has doubled: it costs no more than the rest.
            self._replay_at = self.steps + max(self._replay_every, records if self.steps > 2_000 else 0)
            if not self._is_behind:
                compare_sizes(node, self.links)
        self._arm(node)

    def _note(self, event: Event) -> None:
        self._trace.update(f"{self._clock.now_ms} {type(event).__name__} ".encode())
        if type(event) is Received:
            self._trace.update(event.data)

    def moment(self, deadline_ms: int | None = None) -> Moment:
        """Return the present moment, for a node that asked to be woken at `deadline_ms`."""
        now_ms = self._clock.now_ms
        active_ms = self._active.read(now_ms - self._booted_ms + self._monotonic_ms, deadline_ms)
        return Moment(active_ms, WALL_MS + now_ms + self.wall_offset_ms)

    def _stalled(self, stall_ms: int) -> None:
        self._seen.add("stalls left out")
        self._seen.add("milliseconds of stalls left out", stall_ms)

    def _arm(self, node: AnyNode) -> None:
        deadline_ms = node.next_deadline_ms
        if deadline_ms is None:
            return
        deadline_ms += self._active.lost_ms
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
        """Return the action, which does nothing if the daemon has died meanwhile."""
        life = self._life

        def unless_dead() -> None:
            if life == self._life:
                action()

        return unless_dead

    # --- effects and jobs ---

    def _carry_out(self, effect: Effect) -> None:
        kind = type(effect)
        if kind is Send:
            self._trace.update(effect.data)  # type: ignore[attr-defined]
            link = self.links.get(effect.connection)  # type: ignore[attr-defined]
            if link is not None and link.open:
                link.reply(effect.data)  # type: ignore[attr-defined]
        elif isinstance(effect, Flush):
            self._jobs_of_node.flush(effect)
        elif isinstance(effect, RunJob):
            self._jobs_of_node.run(effect)
        elif isinstance(effect, CheckPassword):
            checked = PasswordChecked(effect.check_id, effect.job)
            self.begin(effect.job, lambda: self.step(checked), self._work_ms())
        elif isinstance(effect, Return):
            self._ledger.heard(effect)
        elif isinstance(effect, Close):
            link = self.links.get(effect.connection)
            if link is not None:
                link.close_by_daemon(self._clock)

    def _flush_ms(self) -> int:
        if self._clock.now_ms < self.loop_time.slow_until_ms:
            self._seen.add("slow syncs")
            return self._random.randrange(200, 1_500)
        return 1 + int(self._random.random() * 3) if self.has_weather else 1

    def _work_ms(self) -> int:
        return int(self._random.random() * 200) if self.has_weather else 1

    def begin(self, job: Any, event: Callable[[], None], took_ms: int) -> None:
        """Run the job at some time within `took_ms`, and give its event to the node at the end of that time."""
        self._next_job += 1
        under_way = self._jobs[self._next_job] = UnderWay(self._next_job, job, event)
        ran_ms = int(self._random.random() * took_ms)

        def run() -> None:
            if self._clock.now_ms < self.loop_time.still_until_ms:
                self._seen.add("jobs that waited for a file system that stood still")
                self._clock.after(LOOK_AGAIN_MS, self.in_this_life(run))
            elif under_way.number in self._jobs and not under_way.has_run:
                under_way.has_run = True
                if self._run(job):
                    self._clock.after(took_ms - ran_ms, self.in_this_life(done))

        def done() -> None:
            if self._jobs.pop(under_way.number, None) is not None:
                event()

        self._clock.after(ran_ms, self.in_this_life(run))

    def _run(self, job: Any) -> bool:
        """Run the job, and return true if the daemon survived it."""
        disk, name = self.disk, type(job).__name__
        if getattr(job, "swap", None) is not None:
            name = "swap of segments"
            self.power_in, self.power_in_swap = self.power_in_swap or self.power_in, 0
        short = disk.short_writes
        try:
            self._on_disk(lambda: job.run(disk))
        except Crash:
            self._seen.add(f"power failures inside a {name}")
            self.power_failure()
            return False
        except OSError as error:
            if is_disk_full(error):  # a job says itself that there was no room
                raise
            self._seen.add("stops because the disk failed")
            self._seen.add("stops because a sync failed", isinstance(error, SyncFailed))
            self._seen.add(f"failures inside a {name}")
            self.kill()
            return False
        self._seen.add(f"{name}s")
        self._seen.add("short writes", disk.short_writes - short)
        return True

    def _on_disk(self, work: Callable[[], Any]) -> Any:
        """Do the work on the disk, where scheduled faults happen."""
        disk, before = self.disk, self.disk.operations
        disk.crash_before = before + self.power_in if self.power_in else None
        disk.fail_at = before + self.fail_in if self.fail_in else None
        try:
            return work()
        finally:
            used = disk.operations - before
            self.has_failed = 0 < self.fail_in <= used
            self.power_in, self.fail_in = max(self.power_in - used, 0), max(self.fail_in - used, 0)
            disk.crash_before = disk.fail_at = None

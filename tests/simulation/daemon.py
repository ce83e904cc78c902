"""Faults of the daemon as a whole: it stops in many ways, and starts from its disk."""

import contextlib
from random import Random

from coordinator.active_clock import ActiveClock
from coordinator.node.events import Call, Stopping, Woke
from coordinator.node.node import AnyNode, Node
from coordinator.runtime.shard_log import ShardLog
from partition_log.disk.disk import is_disk_full
from partition_log.errors import LogDamaged, SyncFailed
from partition_log.store.jobs import FlushJob
from partition_log.store.log_store import Appended, AppendError, LogStore
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import CorruptBatch
from tests.simulation.disk import Crash, SimDisk
from tests.simulation.errors import Broken
from tests.simulation.ids import SimIds
from tests.simulation.process import LOOK_AGAIN_MS, Process, UnderWay
from tests.simulation.replay import compare_with_replay

TOPICS = {"alpha": 4, "beta": 3}
FOLDER, CLUSTER = "data", "sim"
_AGAIN_MS = 1_000


class Daemon(Process):
    """A process that starts again whenever it has ended."""

    # --- going down ---

    def power_failure(self, back_after_ms: int = 100) -> None:
        """The machine stops: what was not synced is lost, kept or torn."""
        if self.node is None:
            return
        self._down("power failures")
        self.power_in = self.fail_in = 0
        self.loop_time.still_until_ms = -1
        disk, torn = self.disk, self.disk.counts["torn"]
        disk.crash()
        self._seen.add("torn writes", disk.counts["torn"] - torn)
        self._clock.after(back_after_ms, self.boot)

    def kill(self, back_after_ms: int = 100) -> None:
        """End the process, and nothing else."""
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
        self._is_serving = False
        self._life += 1
        self._jobs.clear()
        self._waiting.clear()
        self._unstepped, self._unstepped_bytes = [], 0
        self.paused_until_ms = -1
        for link in self.links.values():
            link.cut(self._clock, self._random)
        self.links.clear()

    def count_notes(self) -> None:
        """Count the reasons of rebalances in the journal; each note once, over all restarts."""
        node = self.node
        assert node is not None
        self._seen.add("rebalances", self.begun)
        for name, count in node.core.counters.items():
            self._seen.add(f"counted: {name}", count)
        for note in node.core.journal.notes():
            if note.number > self._noted.get(note.group_id, -1):
                self._noted[note.group_id] = note.number
                self._seen.add(f"notes: {note.cause}")
                self._seen.add("evictions", note.cause in ("session expired", "member did not rejoin in time"))

    def write_half(self) -> None:
        """Carry out the write of the flush in progress, and not its sync."""
        for under_way in self._jobs.values():
            if isinstance(under_way.job, FlushJob) and not under_way.has_run:
                self.disk.crash_before = self.disk.operations + 2
                with contextlib.suppress(Crash):
                    under_way.job.run(self.disk)
                self.disk.crash_before = None

    def end_pause(self) -> None:
        """Resume the process, if it was paused."""
        self.paused_until_ms = -1
        self._go_on()

    def lose_write(self, after: int, code: int) -> None:
        """Lose a write of a log's file, between the write and the sync; the cached pages are dropped as soon as they
        can be."""
        self.disk.lose_write(code, after, but="/wal/")

    def lose_sync(self, after: int, code: int) -> None:
        """Lose the data of a later sync of a log's file."""
        self.disk.lose_sync(code, after, but="/wal/")

    def fill(self) -> None:
        """Fill the disk: no file can grow, and none can be created."""
        self.disk.is_full = True

    def make_room(self) -> None:
        self.disk.is_full = False

    def stop(self) -> None:
        """Stop cleanly: parked requests are answered, everything reaches the disk, logs are whole. Then it starts
        again."""
        node = self.node
        if node is None or not node.is_loaded or self._clock.now_ms < self.loop_time.still_until_ms:
            return
        self._is_serving = False
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
        except OSError as error:
            self._seen.add("stops because a sync failed", isinstance(error, SyncFailed))
            self.kill()
            return
        self._seen.add("clean stops" if is_clean else "stops on a full disk")
        self._down("stops")
        self.disk.kill()
        self._clock.after(100, self.boot)

    def _finish(self, under_way: UnderWay) -> None:
        if under_way.has_run or self._run(under_way.job):
            under_way.done()

    # --- coming up ---

    def boot(self) -> None:
        """Start; again and again, if the disk does not let it."""
        if self.node is not None:
            return
        if self._clock.now_ms < self.loop_time.still_until_ms:
            self._clock.after(LOOK_AGAIN_MS, self.boot)
            return
        try:
            node = self._on_disk(self._start)
        except Crash:
            self._seen.add("power failures inside a start")
            self.disk.crash()
            self._retry()
        except (LogDamaged, CorruptBatch) as damage:
            if self.has_failed:  # what cannot be read is told as damage, too
                self._seen.add("starts that the disk failed")
                self.disk.kill()
                self._retry()
            else:
                self._restore(str(damage))
        except OSError as error:
            self._seen.add("starts without room" if is_disk_full(error) else "starts that the disk failed")
            self.disk.kill()
            self._retry()
        else:
            self._serve(node)

    def _retry(self) -> None:
        self.power_in = self.fail_in = 0
        self._clock.after(_AGAIN_MS, self.boot)

    def _start(self) -> AnyNode:
        store = LogStore(self.disk, FOLDER, self.limits, cluster_id=CLUSTER, node_id=1)
        report = store.open()
        if store.identity.cluster_id != CLUSTER or store.identity.node_id != 1:
            raise Broken(f"this is {store.identity}: nobody noticed")
        self._seen.add("torn tails cut", report.torn is not None)
        if self._sound is not None and report.frames < self._frames_of(self._sound):
            # In the last block, a flip looks like a torn write, or like no block at all: nobody can know better.
            raise LogDamaged(self._flipped[0], self._flipped[1], None, "its tail was cut", "")
        self._seen.add("frames replayed at a start", report.frames)
        self._life += 1
        self._wake_ms, self.begun, self._was_full = None, 0, store.disk_full
        # A clock of its own for each life: what is kept of an older one is of no use.
        self._booted_ms, self._monotonic_ms = self._clock.now_ms, self._random.randrange(10**9)
        self._active = ActiveClock(self._monotonic_ms, self._stalled)
        node = self._make_node(store, SimIds(self._random))
        for shard in node.core.shards:
            self._watch_appends(shard.log)
        self._checkers.heartbeats.watch(node, lambda: self._clock.now_ms)
        return node

    def _make_node(self, store: LogStore, ids: SimIds) -> AnyNode:
        return Node(self.config, store, ids, {"native": (CLUSTER, 1)}, self.moment())

    def _frames_of(self, sound: SimDisk) -> int:
        """Count the frames that a start finds in the write-ahead log of a sound disk."""
        disk = sound.clone()
        while True:
            try:
                return LogStore(disk, FOLDER, self.limits, cluster_id=CLUSTER, node_id=1).open().frames
            except SyncFailed:  # an older failure: a disk tells it once for each file
                disk.kill()

    def _watch_appends(self, log: ShardLog) -> None:
        append, seen = log.append, self._seen

        def watched(batch: bytes, **how: bool) -> Appended | AppendError:
            appended = append(batch, **how)
            if isinstance(appended, AppendError):
                seen.add(f"appends refused: {appended.name}")
            return appended

        log.append = watched  # type: ignore[method-assign]

    def _serve(self, node: AnyNode) -> None:
        self.node = node
        while not node.is_loaded:
            self.step(Woke())
        failures = [shard.failure for shard in node.core.shards if shard.failure]
        if failures:
            self._restore(failures[0])
            return
        self._set_right()
        self._checkers.after_recovery(node)
        self._make_topics(node)
        self._is_serving = True
        self.on_up()

    def _make_topics(self, node: AnyNode) -> None:
        if any(node.core.topics.partition_count(name) is None for name in TOPICS):
            topics = tuple(CreatableTopic(name, count) for name, count in TOPICS.items())
            self.step(Call(1, CreateTopics(topics)))

    def flip(self, random: Random) -> None:
        """Flip a bit of a file, undetected. Only while the daemon is down."""
        files = [path for path in self.disk.files() if len(self.disk.file(path).data) and "node.toml" not in path]
        if self.node is not None or self._sound is not None or not files:
            return
        self._sound = self.disk.clone()
        path = random.choice(files)
        position = random.randrange(len(self.disk.file(path).data))
        byte = self.disk.file(path).data[position] ^ 1 << random.randrange(8)
        self.disk.damage(path, position, bytes((byte,)))
        self._flipped = path, position, byte
        self._seen.add("bits flipped")

    def _set_right(self) -> None:
        """Repair the flipped bit, which the start has not found. Where it is still there, it was not read (a start
        skips what is below a snapshot): found at a later start, the copy from before would be too old to restore."""
        sound, self._sound = self._sound, None
        if sound is None:
            return
        path, position, byte = self._flipped
        if path not in self.disk.files():
            self._seen.add("flipped bits that did no harm")
            return
        near = slice(max(position - 64, 0), position + 64)
        was, now = sound.file(path).data, self.disk.file(path).data
        if now[near] != was[near] and now[position : position + 1] == bytes((byte,)):
            self.disk.damage(path, position, bytes(was[position : position + 1]))
            self._seen.add("flipped bits that nobody read")
        else:
            self._seen.add("flipped bits that did no harm")

    def _restore(self, damage: str) -> None:
        """Do as the error message says: stop, and restore the folder from a copy."""
        if self._sound is None:
            raise Broken(f"nothing was damaged, and it says: {damage}")
        self._seen.add("flipped bits that were found")
        if self.node is not None:
            self._life += 1
            self.node = None
            self._jobs.clear()
        self._sound.is_full = self.disk.is_full  # it may have been filled, or emptied, since the copy was made
        self.disk, self._sound = self._sound, None
        self._retry()

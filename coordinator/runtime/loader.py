"""Loading of a shard: its snapshot if there is one, then the log from there on. It runs in slices of a few milliseconds
each, so that other shards' groups are served in between.

Nothing here reads a clock: a slice is bounded by the amount it reads, and durations come from the `Moment`s passed with
the slices.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import msgspec

from coordinator.clock import Moment
from coordinator.records.codec import decode, decode_marker
from coordinator.records.records import LogCorrupt
from coordinator.runtime.kinds.group_kinds import loaded
from coordinator.runtime.offset_replay import CommonCommits
from coordinator.runtime.shard import NO_PRODUCER, Shard, ShardState
from coordinator.runtime.snapshot import SnapshotUnknown, restore
from partition_log.errors import LogDamaged
from partition_log.log.state_snapshots import SnapshotDamaged, StateSnapshot
from protocol.messages.node import LoadProgress
from protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, decode_records, record_bytes, record_slices

_WORK_A_SLICE = 2_500
"""Work of a slice: one to three milliseconds, where a common commit is 1."""
_BATCH, _RECORD, _PIECE, _GROUP, _MEMBER = 2, 3, 20, 3, 3
_BYTES_A_UNIT = 500  # of bytes read, whatever they contain
_RECORDS_A_PART = 500


class LoadNote(msgspec.Struct, frozen=True):
    """A message to the operator about a load: a snapshot was present and could not be used."""

    shard: int
    text: str


class Loading:
    """Load of one shard. `bytes_total` may grow if the snapshot turns out to be unusable."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.note: LoadNote | None = None
        self.used_snapshot = False
        self.bytes_done = 0
        self._snapshot = self._find_snapshot()
        snapshot = self._snapshot
        self.bytes_total = (
            shard.log.size_bytes if snapshot is None else snapshot.size + shard.log.bytes_from(snapshot.end)
        )
        self._moment: Moment
        self._room = 0
        self._slices = self._run()

    def continue_load(self, moment: Moment) -> bool:
        """Run one slice; return true if there is more. At the end the shard is ACTIVE, or FAILED because its log did
        not parse."""
        self._moment, self._room = moment, _WORK_A_SLICE
        return next(self._slices, self) is None

    def close(self) -> None:
        """Abandon the load: the shard does not serve."""
        self._slices.close()

    def _find_snapshot(self) -> StateSnapshot | None:
        log = self.shard.log
        try:
            snapshot = log.newest_state_snapshot()
        except OSError as error:
            self._ignore(str(error))
            return None
        if snapshot is not None and not log.start_offset <= snapshot.end <= log.next_offset:
            self._ignore(f"{snapshot.path} is not of this log, which is {log.start_offset} to {log.next_offset}")
            return None
        return snapshot

    def _ignore(self, why: str) -> None:
        self.note = LoadNote(self.shard.index, f"snapshot ignored, the whole log is read: {why}")

    def _run(self) -> Generator[None, None, None]:
        shard = self.shard
        try:
            start = yield from self._restore()
            yield from self._replay(shard.log.start_offset if start is None else start)
        except (LogCorrupt, LogDamaged, CorruptBatch) as error:
            shard.state, shard.failure = ShardState.FAILED, str(error)
            if isinstance(error, LogDamaged):
                shard.log.note_damage(error)
            shard.drop_state()
            return
        shard.is_replaying = False
        yield from self._settle()
        shard.state = ShardState.ACTIVE
        self.bytes_done = self.bytes_total

    def _restore(self) -> Generator[None, None, int | None]:
        """Restore the snapshot. Return the offset from which on the log is to be read; None: from its start."""
        snapshot = self._snapshot
        if snapshot is None:
            return None
        try:
            for size in restore(self.shard, snapshot.end, snapshot.pieces):
                self.bytes_done += size
                if self._spent(_PIECE + size // 40):
                    yield
        except (SnapshotDamaged, SnapshotUnknown, OSError) as error:
            self._ignore(f"{snapshot.path}: {error}" if isinstance(error, SnapshotUnknown) else str(error))
            self.shard.drop_state()
            self.bytes_total = self.bytes_done + self.shard.log.size_bytes
            return None
        self.used_snapshot, self.shard.snapshot_end = True, snapshot.end
        return snapshot.end

    def _spent(self, work: int) -> bool:
        """Charge the work; return true if the slice is used up."""
        self._room -= work
        return self._room <= 0

    # --- the log ---

    def _replay(self, start: int) -> Iterator[None]:
        shard, log = self.shard, self.shard.log
        common = CommonCommits(shard)
        for header, data in log.batches_from(start):
            size = len(data)
            self.bytes_done += size
            payload = record_bytes(header, data) if header.compression else bytes(data[HEADER_BYTES:])
            is_plain = header.producer_id < 0 and not header.is_control
            if header.record_count <= _RECORDS_A_PART:
                parts: Iterable[tuple[bytes, BatchHeader]] = ((payload, header),)
            else:
                parts = record_slices(payload, header, _RECORDS_A_PART)
            for part, part_header in parts:
                try:
                    work = self._apply_part(common, part, part_header, is_plain=is_plain)
                except LogCorrupt as error:
                    raise LogCorrupt(f"{log.name}: batch at offset {header.base_offset}: {error}") from None
                if self._spent(work):
                    yield
            if self._spent(_BATCH + size // _BYTES_A_UNIT):
                yield

    def _apply_part(self, common: CommonCommits, part: bytes, header: BatchHeader, *, is_plain: bool) -> int:
        """Apply the records; return the work done."""
        shard, count = self.shard, header.record_count
        shard.loaded_records += count
        number, at = common.apply(part, 0, count) if is_plain and not shard.offsets.pending else (0, 0)
        if number == count and at == len(part):
            return count
        common.clear()
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
        for entry in decode_records(part, header)[number:]:
            if header.is_control:
                marker = decode_marker(header, entry.key, entry.value)
                if marker is not None:
                    shard.apply_marker(marker)
                continue
            record = decode(entry.key, entry.value)
            if record is not None:
                shard.apply(record, producer_id=producer_id)
        return count * _RECORD

    # --- what follows ---

    def _settle(self) -> Iterator[None]:
        for work in settle(self.shard, lambda: self._moment):
            if self._spent(work):
                yield


def settle(shard: Shard, now: Callable[[], Moment]) -> Iterator[int]:
    """Remove groups that have no state left, and start a full session for the members of all others. Yields the work of
    each group; `now` returns the moment of the present slice."""
    for group in list(shard.groups.values()):
        classic = group.classic
        is_said = classic.stored is not None or len(group.recorded_kinds) > 1
        if not is_said and not shard.offsets.holds(group.group_id) and not classic.owners:
            # The group does not exist: all its records are deleted, though compaction may have kept some tombstones.
            shard.remove(group.group_id)
        else:
            for event in loaded(group):
                shard.process(group, event, now())
        yield _GROUP + _MEMBER * group.member_count


class Loadings:
    """Loads of all shards of a node, one after the other."""

    def __init__(self, shards: Sequence[Shard], started: Moment) -> None:
        self._all = [Loading(shard) for shard in shards]
        self.left = list(reversed(self._all))
        """Loads that have not ended, the next one last."""
        self._started = self._now = started

    def continue_load(self, moment: Moment) -> None:
        """Run one slice."""
        self._now = moment
        if not self.left[-1].continue_load(moment):
            self.left.pop()

    def stop(self) -> None:
        """Abandon all loads."""
        for loading in self.left:
            loading.close()
        self.left.clear()

    @property
    def notes(self) -> list[LoadNote]:
        """Messages of the shards whose load has begun."""
        return [loading.note for loading in self._all if loading.note is not None]

    def progress(self, now: Moment | None = None) -> LoadProgress:
        """Progress as of `now`, or of the last slice; once all is loaded, the final figures."""
        done, total = sum(one.bytes_done for one in self._all), sum(one.bytes_total for one in self._all)
        at = now if now is not None and self.left else self._now
        elapsed_ms = max(at.monotonic_ms - self._started.monotonic_ms, 0)
        rate = done * 1_000 // elapsed_ms if elapsed_ms else 0
        left = max(total - done, 0)
        left_ms = 0 if not self.left else left * 1_000 // rate if rate else -1
        return LoadProgress(
            is_loading=bool(self.left),
            records=sum(one.shard.loaded_records for one in self._all),
            bytes_done=done,
            bytes_total=total,
            bytes_per_second=rate,
            elapsed_ms=elapsed_ms,
            left_ms=left_ms,
            from_snapshots=sum(one.used_snapshot for one in self._all),
        )


def load(shard: Shard, moment: Moment) -> Iterator[None]:
    """Load the shard's log, a slice for each `next`."""
    loading = Loading(shard)
    while loading.continue_load(moment):
        yield

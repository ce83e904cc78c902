"""Plans micro-batches, and the group's commits after them, without I/O (docs/spec/spark-member.md#3).

A Spark offset is a *plan*: the ranges of one batch, not a position. The group's committed offset is the authority, and
Spark's checkpoint is the replay log of one batch. Between the two lies the *tail*: records that are processed and in
Spark's commit log, but not committed to the group yet, because the commit was refused or not sent.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct

from muster import TopicPartition
from pyspark_muster.bounds import EARLIEST, LATEST
from pyspark_muster.errors import DataLoss

Start = Literal["earliest", "latest"] | Mapping[TopicPartition, int]
"""Start of reading if the group has no offset; offsets may be `EARLIEST` and `LATEST`."""
Key = TypeVar("Key")


class Plan(Struct, frozen=True):
    """Ranges of one batch, `[from, to)` by partition. `seq` makes any two plans of a query differ. `restarts`: the
    query is yet to begin at `startingOffsets` whatever the group has committed, in this process or a later one."""

    seq: int
    ranges: dict[TopicPartition, tuple[int, int]]
    member_id: str = ""
    generation_id: int = -1
    restarts: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the plan as Spark logs it, with the planning member, for people who read the checkpoint."""
        offset: dict[str, Any] = {
            "seq": self.seq,
            "ranges": {str(partition): list(bounds) for partition, bounds in sorted(self.ranges.items())},
        }
        if self.member_id:
            offset |= {"member": self.member_id, "generation": self.generation_id}
        return offset | {"restart": True} if self.restarts else offset

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "Plan":
        """Parse a plan. Raises ValueError for anything else, such as the checkpoint of another source."""
        try:
            ranges = {_partition(name): (int(start), int(end)) for name, (start, end) in offset["ranges"].items()}
            member_id, generation_id = str(offset.get("member", "")), int(offset.get("generation", -1))
            return cls(int(offset["seq"]), ranges, member_id, generation_id, bool(offset.get("restart", False)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the checkpoint holds an offset that this source did not write: {offset!r}") from error


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


class Log(Struct, frozen=True):
    """Offsets in a partition's log: `[begin, end)`. `end` is the high watermark, up to which members that read
    uncommitted records may have read; `stable` is the last stable offset, if reading ends there."""

    begin: int
    end: int
    stable: int | None = None


class Tail(Struct, frozen=True):
    """Processed records that are not committed to the group. `bases`: offsets that the group may have if no other
    member has committed. `end`: the next offset to read."""

    bases: tuple[int, ...]
    end: int


class Planner:
    """The partitions that this member owns, its position in each, and the commits that are due.

    A position moves only when a call of Spark shows that a batch is in its commit log (`settle`), so a plan that Spark
    drops has no effect. An assigned partition starts at the group's offset, or after this member's own tail.
    """

    __slots__ = ("_fail_on_data_loss", "_logs", "_planned", "_positions", "_restarts", "_start", "_tails", "_unpinned")

    def __init__(self, start: Start = "earliest", *, fail_on_data_loss: bool = True) -> None:
        self._start = start
        self._fail_on_data_loss = fail_on_data_loss
        self._restarts = False
        self._positions: dict[TopicPartition, int] = {}
        self._logs: dict[TopicPartition, Log] = {}  # of owned partitions, as they were when assigned
        self._tails: dict[TopicPartition, Tail] = {}
        self._unpinned: dict[TopicPartition, int] = {}  # start offsets still to be committed
        self._planned: Plan | None = None

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset to plan, for every partition owned."""
        return self._positions

    @property
    def planned(self) -> Plan | None:
        """Plan that was returned to Spark and is not yet known to be processed."""
        return self._planned

    @property
    def reached(self) -> dict[TopicPartition, int]:
        """Next offset to plan once the pending plan is processed."""
        ends = {partition: end for partition, (_, end) in self._planned.ranges.items()} if self._planned else {}
        return {**self._positions, **ends}

    @property
    def has_open_batch(self) -> bool:
        """True while Spark may be reading a batch. Rebalances wait meanwhile, since records of moved partitions would
        be read twice."""
        return self._planned is not None

    @property
    def restarts(self) -> bool:
        """True while the group's offsets do not count."""
        return self._restarts

    def restart(self) -> None:
        """Begin at `start` in partitions assigned before the next plan, whatever the group has committed. The caller
        plans once it has all of them."""
        self._restarts = True

    # ------------------------------------------------------------------------------------------ the group's assignments

    def assigned(
        self,
        committed: Mapping[TopicPartition, int | None],
        logs: Mapping[TopicPartition, Log],
        later: Container[TopicPartition] = (),
    ) -> None:
        """Add these partitions. If this member may have committed the group's offset, no other member has moved it, and
        reading continues after the tail. Otherwise it continues at the group's offset. `later`: partitions that were
        not there when the group began, to which "latest" does not apply. Raises `DataLoss`.
        """
        for partition, offset in committed.items():
            self._logs[partition] = logs[partition]
            tail = self._tails.get(partition)
            if tail is not None and offset in tail.bases:
                self._positions[partition] = tail.end
                continue
            self._tails.pop(partition, None)
            if offset is None or self._restarts:
                is_later = self._start == "latest" and partition in later
                first = logs[partition].begin if is_later else self._first(partition, logs[partition])
                self._positions[partition] = self._unpinned[partition] = first
            else:
                self._positions[partition] = offset
                self._compare(partition, logs[partition], "the group committed")

    def _first(self, partition: TopicPartition, log: Log) -> int:
        """Return the offset at which reading begins. Offsets by partition may omit some partitions, for instance later
        ones."""
        offset = LATEST if self._start == "latest" else EARLIEST
        if not isinstance(self._start, str):
            offset = self._start.get(partition, EARLIEST)
        if offset in (EARLIEST, LATEST):
            return log.begin if offset == EARLIEST else log.end if log.stable is None else log.stable
        self._check(partition, offset, log, "startingOffsets has")
        return min(max(offset, log.begin), log.end)

    def compare(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Compare positions with logs that may have been made again since: reading continues at the begin of a log that
        ends before the position, and the group's offset goes back to it. Raises `DataLoss`.
        """
        for partition, log in logs.items():
            if partition in self._positions:
                self._compare(partition, log, "this query has read up to")

    def _compare(self, partition: TopicPartition, log: Log, who: str) -> None:
        position = self._positions[partition]
        if not self._check(partition, position, log, who):
            self._unpinned.pop(partition, None)
            before = self._tails.get(partition)
            bases = (*before.bases, position) if before else (position,)
            self._tails[partition] = Tail(bases, log.begin)  # so that the group's offset lies in the log again
            self._positions[partition] = log.begin

    def _check(self, partition: TopicPartition, offset: int, log: Log, who: str) -> bool:
        """Return true if the offset lies in the log. Raises `DataLoss` if not and data may not be lost."""
        if log.begin <= offset <= log.end:
            return True
        if self._fail_on_data_loss:
            why = "Was its topic made again? " if offset > log.end else ""
            raise DataLoss(
                f"{who} {offset} of {partition}, and its log holds {log.begin} to {log.end}: records are lost. {why}"
                "Reset the offset, or set failOnDataLoss to false to go on with what is there."
            )
        return False

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that were revoked or lost. Their tails are kept, since a partition may return."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._logs.pop(partition, None)
            self._unpinned.pop(partition, None)

    def deleted(self, topic: str) -> None:
        """Drop the partitions of a deleted topic, with their tails."""
        gone = [partition for partition in self._positions if partition.topic == topic]
        self.revoked(gone)
        for partition in [partition for partition in self._tails if partition.topic == topic]:
            del self._tails[partition]

    # ------------------------------------------------------------------------------------------------- finished batches

    def settle(self, logged: Plan) -> None:
        """Advance past a plan that is in Spark's commit log. Only plans of this process count, since it is unknown
        which ranges of an older plan were left to other members at its replay.
        """
        planned, self._planned = self._planned, None
        if planned is not None and planned.seq == logged.seq:
            self._advance(planned)

    def finished(self, seq: int) -> bool:
        """Advance past the plan with this number if it is the pending one; return whether it was."""
        planned = self._planned
        if planned is None or planned.seq != seq:
            return False
        self._planned = None
        self._advance(planned)
        return True

    def _advance(self, planned: Plan) -> None:
        for partition, (start, end) in planned.ranges.items():
            if self._positions.get(partition) != start:
                continue  # a replayed range that begins after the group's offset: reading continues at that offset
            before = self._tails.get(partition)
            self._tails[partition] = Tail(before.bases if before else (start,), end)
            self._positions[partition] = end

    def replay(self, logged: Plan) -> Plan:
        """Return the part of an unfinished plan that must be read again. A range is kept if this member owns its
        partition and the group's offset is not beyond its start; other ranges are read by their owners. A range beyond
        the end of its log is dropped, since the topic was made again: reading begins as without the plan. Raises
        `DataLoss`.
        """
        kept: dict[TopicPartition, tuple[int, int]] = {}
        for partition, (start, end) in logged.ranges.items():
            log = self._logs.get(partition)
            if log is None or (end > log.end and not self._check(partition, end, log, "an unfinished batch ends at")):
                continue
            if partition in self._unpinned:  # the group's offset has expired, but the plan has it
                self._positions[partition] = self._unpinned[partition] = start
            if self._positions.get(partition, end) <= start:
                kept[partition] = (start, end)
        self._planned = Plan(logged.seq, kept)
        return self._planned

    # ---------------------------------------------------------------------------------------------------------- commits

    def due(self) -> dict[TopicPartition, int]:
        """Return the offsets to commit now, only of owned partitions, since coordinators check the member, but not the
        partitions' owner."""
        ends = {partition: tail.end for partition, tail in self._tails.items() if partition in self._positions}
        return self._unpinned | ends

    def trying(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store the offsets of a commit before it is sent, so that they are known as this member's even if the reply is
        lost."""
        for partition, offset in offsets.items():
            tail = self._tails.get(partition)
            if tail is not None and offset not in tail.bases:
                self._tails[partition] = Tail((*tail.bases, offset), tail.end)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets that the group has accepted."""
        for partition, offset in offsets.items():
            self._unpinned.pop(partition, None)
            tail = self._tails.get(partition)
            if tail is not None and tail.end == offset:
                del self._tails[partition]

    # --------------------------------------------------------------------------------------------------------- planning

    def plan(
        self, seq: int, ends: Mapping[TopicPartition, int], limit: int | None = None, *, at_least: int = 1
    ) -> Plan | None:
        """Plan the next batch, of at most `limit` records; None if fewer than `at_least` are unread. `ends`: offsets up
        to which the logs can be read; partitions without one are omitted. A position beyond the last stable offset,
        which a member that reads uncommitted records has committed, waits until that has passed it. After a restart the
        first plan may be empty: once it is logged, the restart is not repeated.
        """
        if self._restarts:
            if self._unpinned:
                return None  # if this process ended now, the group's former offsets would count
            self._restarts, at_least = False, 0
        waiting = {
            partition: ends[partition] - position
            for partition, position in sorted(self._positions.items())
            if partition not in self._unpinned and ends.get(partition, -1) > position
        }
        if sum(waiting.values()) < at_least:
            return None
        ranges = {
            partition: (self._positions[partition], self._positions[partition] + records)
            for partition, records in share(waiting, limit).items()
        }
        if not ranges and at_least:
            return None
        self._planned = Plan(seq, ranges)
        return self._planned


def share(waiting: Mapping[Key, int], limit: int | None) -> dict[Key, int]:
    """Divide `limit` records among keys: a key with few waiting records gets all of them before others get more. The
    shares add up to `limit` if that many are waiting.
    """
    if limit is None or sum(waiting.values()) <= limit:
        return {key: records for key, records in waiting.items() if records > 0}
    shares: dict[Key, int] = {}
    smallest_first = sorted((key for key in waiting if waiting[key] > 0), key=lambda key: waiting[key])
    for keys_left, key in zip(range(len(smallest_first), 0, -1), smallest_first, strict=True):
        shares[key] = min(waiting[key], -(-limit // keys_left))
        limit -= shares[key]
    return {key: shares[key] for key in waiting if shares.get(key)}

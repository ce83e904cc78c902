"""What a micro-batch reads, and what the group is told afterwards: decided here, without I/O
(docs/spec/spark-member.md#3).

A Spark offset is a *plan*: the ranges of one batch, not a position. The group's committed offset is the authority, and
Spark's checkpoint is the replay log of one batch. Between the two lies the *tail*: records that are processed and in
Spark's commit log, but of which the group has not been told yet, because it refused the commit or was not asked.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct

from muster import TopicPartition

Start = Literal["earliest", "latest"]
Key = TypeVar("Key")


class DataLoss(Exception):
    """The group's offset lies outside of the log: records it never saw were deleted, or the topic was made anew."""


class Plan(Struct, frozen=True):
    """The ranges of one batch, `[from, to)` by partition. `seq` makes any two plans of a query differ."""

    seq: int
    ranges: dict[TopicPartition, tuple[int, int]]
    member_id: str = ""
    generation_id: int = -1

    def to_json(self) -> dict[str, Any]:
        """As Spark logs it. Who planned it stands there for whoever reads the checkpoint; nothing depends on it."""
        offset: dict[str, Any] = {
            "seq": self.seq,
            "ranges": {str(partition): list(bounds) for partition, bounds in sorted(self.ranges.items())},
        }
        if self.member_id:
            offset |= {"member": self.member_id, "generation": self.generation_id}
        return offset

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "Plan":
        """Raises ValueError for what is no plan, such as the checkpoint of another source."""
        try:
            ranges = {_partition(name): (int(start), int(end)) for name, (start, end) in offset["ranges"].items()}
            return cls(int(offset["seq"]), ranges, str(offset.get("member", "")), int(offset.get("generation", -1)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the checkpoint holds an offset that this source did not write: {offset!r}") from error


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


INITIAL = Plan(0, {})


class Log(Struct, frozen=True):
    """What a partition's log holds: `[begin, end)`."""

    begin: int
    end: int


class Tail(Struct, frozen=True):
    """`bases`: what the group's offset may be as long as nobody else has moved it. `end`: where we go on."""

    bases: tuple[int, ...]
    end: int


class Planner:
    """The partitions this member owns, where it stands in each, and what it still owes the group.

    A position moves only when Spark proves that a batch is in its commit log (`settle`), so a plan that Spark drops
    costs nothing. One that begins anew starts at the group's offset, except behind its own tail.
    """

    __slots__ = ("_fail_on_data_loss", "_planned", "_positions", "_start", "_tails", "_unpinned")

    def __init__(self, start: Start = "earliest", *, fail_on_data_loss: bool = True) -> None:
        self._start = start
        self._fail_on_data_loss = fail_on_data_loss
        self._positions: dict[TopicPartition, int] = {}
        self._tails: dict[TopicPartition, Tail] = {}
        self._unpinned: dict[TopicPartition, int] = {}  # the group has no offset of these: it is told before we read
        self._planned: Plan | None = None

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to plan, of every partition owned."""
        return self._positions

    @property
    def planned(self) -> Plan | None:
        """The plan that is out: handed to Spark, not known to be processed."""
        return self._planned

    # ------------------------------------------------------------------------------------------- what the group does

    def assigned(self, committed: Mapping[TopicPartition, int | None], logs: Mapping[TopicPartition, Log]) -> None:
        """These partitions are ours now. A tail is believed if the group's offset is still one we know: nobody moved
        it, so going on behind the tail loses nothing. Otherwise the group wins. Raises `DataLoss`.
        """
        for partition, offset in committed.items():
            tail = self._tails.get(partition)
            if tail is not None and offset in tail.bases:
                self._positions[partition] = tail.end
                continue
            self._tails.pop(partition, None)
            if offset is None:
                first = logs[partition].begin if self._start == "earliest" else logs[partition].end
                self._positions[partition] = self._unpinned[partition] = first
            else:
                self._positions[partition] = self._within(partition, offset, logs[partition])

    def _within(self, partition: TopicPartition, offset: int, log: Log) -> int:
        if log.begin <= offset <= log.end:
            return offset
        if self._fail_on_data_loss:
            raise DataLoss(
                f"the group committed {offset} of {partition}, and its log holds {log.begin} to {log.end}: records are "
                "lost. Reset the group's offset, or set failOnDataLoss to false to go on with what is there."
            )
        return min(max(offset, log.begin), log.end)

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Ours no more, given up or lost. Their tails stay: they tell what happened, should the partition return."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._unpinned.pop(partition, None)

    # --------------------------------------------------------------------------------------------- what Spark proves

    def settle(self, logged: Plan) -> None:
        """Spark has `logged` in its commit log. Only a plan of this process counts: of an older one nobody knows which
        of its ranges a replay had left to others.
        """
        planned, self._planned = self._planned, None
        if planned is None or planned.seq != logged.seq:
            return
        for partition, (start, end) in planned.ranges.items():
            if self._positions.get(partition) != start:
                continue  # a replayed range beyond the group's offset: the group wins, and we read it again
            before = self._tails.get(partition)
            self._tails[partition] = Tail(before.bases if before else (start,), end)
            self._positions[partition] = end

    def replay(self, logged: Plan) -> Plan:
        """What to read of a plan that Spark has logged and not finished. A range is kept if its partition is ours and
        the group is not past its start; whoever owns the others has read them or will.
        """
        kept: dict[TopicPartition, tuple[int, int]] = {}
        for partition, (start, end) in logged.ranges.items():
            if partition in self._unpinned:  # the group forgot its offset, the log of the batch did not
                self._positions[partition] = self._unpinned[partition] = start
            if self._positions.get(partition, end) <= start:
                kept[partition] = (start, end)
        self._planned = Plan(logged.seq, kept)
        return self._planned

    # ------------------------------------------------------------------------------------------- what the group gets

    def due(self) -> dict[TopicPartition, int]:
        """What to commit now: only of what is ours, because coordinators check the member and not the partition."""
        ends = {partition: tail.end for partition, tail in self._tails.items() if partition in self._positions}
        return self._unpinned | ends

    def trying(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit is about to be sent. Should its answer get lost, these offsets are known as our own."""
        for partition, offset in offsets.items():
            tail = self._tails.get(partition)
            if tail is not None and offset not in tail.bases:
                self._tails[partition] = Tail((*tail.bases, offset), tail.end)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has accepted these."""
        for partition, offset in offsets.items():
            self._unpinned.pop(partition, None)
            tail = self._tails.get(partition)
            if tail is not None and tail.end == offset:
                del self._tails[partition]

    # ---------------------------------------------------------------------------------------------- what Spark reads

    def plan(self, seq: int, ends: Mapping[TopicPartition, int], limit: int | None = None) -> Plan | None:
        """The next batch, of at most `limit` records; None if there is nothing to read. `ends` are where the logs end;
        a partition without one is left alone.
        """
        waiting = {
            partition: ends[partition] - position
            for partition, position in sorted(self._positions.items())
            if partition not in self._unpinned and ends.get(partition, -1) > position
        }
        ranges = {
            partition: (self._positions[partition], self._positions[partition] + records)
            for partition, records in share(waiting, limit).items()
        }
        if not ranges:
            return None
        self._planned = Plan(seq, ranges)
        return self._planned


def share(waiting: Mapping[Key, int], limit: int | None) -> dict[Key, int]:
    """How many of the waiting records each key gets. Nobody gets more than is waiting, together they get `limit` if
    that many are waiting, and who has little gets all of it before who has much gets more.
    """
    if limit is None or sum(waiting.values()) <= limit:
        return {key: records for key, records in waiting.items() if records > 0}
    shares: dict[Key, int] = {}
    smallest_first = sorted((key for key in waiting if waiting[key] > 0), key=lambda key: waiting[key])
    for keys_left, key in zip(range(len(smallest_first), 0, -1), smallest_first, strict=True):
        shares[key] = min(waiting[key], -(-limit // keys_left))
        limit -= shares[key]
    return {key: shares[key] for key in waiting if shares.get(key)}

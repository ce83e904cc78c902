"""A rolling restart under load: members go over from the classic to the consumer protocol one by one, and back.

A producer writes all the while. Whoever is stopped commits what it has read; one that is killed cannot.
"""

from collections.abc import Callable, Mapping, Sequence

from interop.load import Load
from interop.ours.mixed import check_read
from interop.processes import Failed, Member, Program, Record
from interop.scenarios import PARTITIONS, Actors, Scenario

CLASSIC, CONSUMER = "classic", "consumer"
Joins = Mapping[str, Callable[[Program], Member]]
"""Start a member of this program, by protocol."""
_PER_SECOND = 60
_PAUSE_S = 40.0
"""Shorter than a session by default: no record may wait longer for a reader."""
PartitionOffset = tuple[int, int]
"""Partition and offset."""


class Rolling:
    """One group with a member for each of the programs."""

    def __init__(
        self, scenario: Scenario, actors: Actors, joins: Joins, programs: Sequence[Program], *, kills: bool
    ) -> None:
        """`kills`: members that go over are killed, and not stopped."""
        self._scenario = scenario
        self._actors = actors
        self._joins = joins
        self._programs = programs
        self._kills = kills
        self._here: list[Member] = []

    def play(self) -> str:
        """Return what was seen. Raises Failed."""
        judge, topic = self._scenario.judge, self._scenario.topic
        judge.create(topic, PARTITIONS)
        load = Load(judge.bootstrap, topic, _PER_SECOND)
        try:
            self._here = [self._joins[CLASSIC](program) for program in self._programs]
            self._settle("all are classic", CLASSIC)
            for protocol in (CONSUMER, CLASSIC):
                self._go_over(protocol)
        finally:
            load.stop()
        return self._checked(load)

    def _go_over(self, protocol: str) -> None:
        """One by one. The group is classic again when its last member is."""
        for at, program in enumerate(self._programs):
            self._end(self._here[at])
            self._here[at] = self._joins[protocol](program)
            is_classic = protocol == CLASSIC and at == len(self._programs) - 1
            self._settle(f"{at + 1} went over to {protocol}", CLASSIC if is_classic else CONSUMER)

    def _end(self, member: Member) -> None:
        if self._kills:
            member.kill()
        else:
            member.stop()

    def _settle(self, what: str, group_type: str) -> None:
        try:
            self._scenario.judge.until_type(self._scenario.group, group_type, _PAUSE_S)
        except Failed as failure:
            raise Failed(f"{what}: {failure}; {self._actors.crowd.state()}") from None
        self._actors.settle(what, *self._here)

    def _checked(self, load: Load) -> str:
        """Everything is read, who comes next goes on where commits are, and no record waited long.

        Some are read again: a member that was killed could not commit, and a classic one of an older generation may not
        when the group is classic again.
        """
        judge, topic, members = self._scenario.judge, self._scenario.topic, self._actors.crowd.members
        if load.refused:
            raise Failed(f"{len(load.refused)} records were refused, e.g. {load.refused[0]}")
        read = [member.records for member in members]
        self._actors.crowd.wait(lambda: load.acknowledged.keys() <= first_seen(read).keys(), "all is read", _PAUSE_S)
        for member in self._here:
            member.stop()
        rest = self._left()
        written = judge.everything(topic, PARTITIONS)
        check_read(written, read, [])
        waited = longest_wait(load.acknowledged, first_seen(read))
        if waited > _PAUSE_S:
            raise Failed(f"a record waited {waited:.0f} s for its reader")
        how = "killed and started" if self._kills else "stopped and started"
        again = sum(map(len, read)) - len(written)
        return (
            f"{len(self._programs)} members went over one by one and back, {how} anew; {len(written):,} records, each "
            f"read, {again} of them again, the slowest after {waited:.1f} s; {rest} were not committed at the end"
        )

    def _left(self) -> int:
        """Let a last member read what is not committed, exactly; return how much that was."""
        judge, topic, group = self._scenario.judge, self._scenario.topic, self._scenario.group
        written = len(judge.everything(topic, PARTITIONS))
        rest = written - judge.committed_total(group, topic, PARTITIONS)
        if rest:
            last = self._actors.member("--limit", str(rest))
            last.join(self._actors.settle_s)
        committed = judge.committed_total(group, topic, PARTITIONS)
        if committed != written:
            raise Failed(f"{written} records were written, but the commits add up to {committed}")
        return rest


def first_seen(read: Sequence[Sequence[Record]]) -> dict[PartitionOffset, float]:
    """Return when each record was read first, by any of the members that read these."""
    seen: dict[PartitionOffset, float] = {}
    for records in read:
        for record in records:
            position = record.partition, record.offset
            seen[position] = min(record.seen_at, seen.get(position, record.seen_at))
    return seen


def longest_wait(acknowledged: Mapping[PartitionOffset, float], seen: Mapping[PartitionOffset, float]) -> float:
    """Return the longest time in seconds from an acknowledgement until somebody read the record."""
    return max((seen[position] - at for position, at in acknowledged.items()), default=0.0)

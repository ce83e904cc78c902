"""Groups of our consumer and others' consumers: who leads, who comes, goes and is killed, and who has read what."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from interop.judge import Judge
from interop.processes import Failed, Member, Program, Record, crowd
from interop.scenarios import COOPERATIVE, Actors, Keeping, Scenario

ASSIGNORS: Mapping[str, tuple[str, ...]] = {
    "java": ("range", "roundrobin", "sticky", COOPERATIVE),
    "confluent-kafka": ("range", "roundrobin", COOPERATIVE),
}
"""By the others' folder: those that they and we have. librdkafka has no eager `sticky`."""

PARTITIONS = 12
"""Enough that a member which nobody understands does not keep its own by luck."""
STICKY = ("sticky", COOPERATIVE)
_BEFORE = 20
"""Records a partition that are there when the first member comes."""


def common(others: Sequence[str]) -> list[str]:
    """The assignors that a group of all of these can agree on."""
    return [name for name in ASSIGNORS[others[0]] if all(name in ASSIGNORS[other] for other in others)]


def play(scenario: Scenario, ours: Sequence[Program], others: Sequence[Program], assignor: str) -> str:
    """Programs of either side take turns. Raises Failed for a partition without one owner, a record nobody read, or
    one that was read twice though everybody commits what they have read before they let a partition go.
    """
    sides = itertools.cycle(ours), itertools.cycle(others)
    with crowd(scenario.logs) as members:
        return _Story(scenario, Actors(scenario, members, PARTITIONS), sides, assignor).play()


class _Story:
    """Members in the order in which they came: the first leads, for as long as it is there
    (docs/spec/group-protocol.md#2.1)."""

    def __init__(
        self, scenario: Scenario, actors: Actors, sides: tuple[Iterator[Program], Iterator[Program]], assignor: str
    ) -> None:
        self._scenario = scenario
        self._actors = actors
        self._ours, self._others = sides
        self._assignor = assignor
        self._watch = Keeping(assignor)
        self._here: list[Member] = []
        self._killed: list[Member] = []
        self._owned: dict[str, frozenset[int]] = {}
        self._stages = 0

    def play(self) -> str:
        judge, topic = self._scenario.judge, self._scenario.topic
        judge.create(topic, PARTITIONS)
        judge.produce(topic, [(number % PARTITIONS, str(number)) for number in range(_BEFORE * PARTITIONS)])
        self._joins(next(self._ours), "ours alone")
        self._joins(next(self._others), "ours leads one of theirs")
        self._joins(next(self._others), "ours leads two of theirs")
        self._leaves(-1, "one of theirs has left")
        self._joins(next(self._others), "another of theirs has come")
        self._is_killed(-1, "one of theirs was killed")
        self._leaves(0, "ours, which led, has left")
        self._joins(next(self._ours), "theirs leads one of ours")
        self._joins(next(self._ours), "theirs leads two of ours")
        self._is_killed(-1, "one of ours was killed")
        self._is_killed(0, "theirs, which led, was killed")
        self._leaves(0, None)
        read = self._check_records(judge)
        stayed = f"{self._watch.kept} times a partition stayed where it was"
        return f"{self._stages} stages, {read} records, each read; {stayed}"

    def _joins(self, program: Program, what: str) -> None:
        self._here.append(self._actors.member("--commit", assignor=self._assignor, program=program))
        self._settle(what)

    def _leaves(self, number: int, what: str | None) -> None:
        self._here.pop(number).stop()
        self._settle(what)

    def _is_killed(self, number: int, what: str) -> None:
        member = self._here.pop(number)
        member.kill()
        self._killed.append(member)
        self._settle(what)

    def _settle(self, what: str | None) -> None:
        """Each partition has one owner, who is given its next record."""
        if what is not None:
            self._actors.settle(what, *self._here)
            self._watch.check(self._here)
            before, self._owned = self._owned, {member.name: member.owned for member in self._here}
            if self._assignor in STICKY:
                check_kept(what, before, self._owned)
            self._actors.feed(*self._here)
            self._stages += 1

    def _check_records(self, judge: Judge) -> int:
        written = judge.everything(self._scenario.topic, PARTITIONS)
        everybody = self._actors.crowd.members
        survivors = [member.records for member in everybody if member not in self._killed]
        check_read(written, [member.records for member in everybody], survivors)
        return len(written)


def check_kept(what: str, before: Mapping[str, frozenset[int]], now: Mapping[str, frozenset[int]]) -> None:
    """Raises Failed where a partition moved that need not have: who leads must have understood what each says that it
    had (docs/spec/group-protocol.md#6.5, #6.6).
    """
    for name, owned in now.items():
        had = before.get(name, frozenset())
        if len(had & owned) < min(len(had), len(owned)):
            raise Failed(f"{what}: {name} had {sorted(had)} and was given {sorted(owned)}, though it could keep more")


def check_read(
    written: Sequence[tuple[int, str]], all_read: Sequence[Sequence[Record]], survivors: Sequence[Sequence[Record]]
) -> None:
    """Raises Failed for what nobody read, and for what two of the `survivors` read: only of one that was killed may
    records be read again.
    """
    seen = {(record.partition, record.value) for records in all_read for record in records}
    unread = [one for one in written if one not in seen]
    if unread:
        raise Failed(f"{len(unread)} of {len(written)} records were read by nobody, e.g. {unread[:3]}")
    times = Counter((record.partition, record.offset) for records in survivors for record in records)
    twice = sorted(place for place, count in times.items() if count > 1)
    if twice:
        raise Failed(f"{len(twice)} records were read twice, e.g. {twice[:3]} (partition, offset)")

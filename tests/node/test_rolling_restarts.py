"""A day of deploys of a thousand groups: the doctor, which looks every ten seconds, raises nothing."""

from collections.abc import Iterator
from random import Random

import pytest

from diagnosis.problem import GroupProblem
from tests.enumerations import worlds_of
from tests.node.operated import BEAT_MS, DiagnosisRig, SimMember
from tests.node.test_problem_watch import Rounds

GROUPS, MEMBERS, PARTITIONS = worlds_of(1_000), 3, 4
DEPLOYS, AT_ONCE = 3, 250
"""Deploys of all groups, and groups that are restarted at the same time."""
STEP_MS, LOOK_MS, QUIET_MS = 1_000, 10_000, 660_000
"""Time between two deploys is longer than that of any rule but expiry; of the hours between, only this is simulated."""
REST_BEAT_MS = 15_000
"""Interval of heartbeats in groups at rest, for speed; in a deploy they come as often as those of Kafka's clients."""


class Fleet:
    """A group of three members, restarted one after the other as its deployment does it."""

    def __init__(self, rig: DiagnosisRig, number: int, chance: Random) -> None:
        self._rig, self._chance, self._group = rig, chance, f"g{number:03}"
        self._is_static = number % 2 == 0
        self._slow_ms = (0, 700, 4_000)[number % 3]
        """Time for which an application finishes its records before it joins again."""
        self._members = [self._started(index) for index in range(MEMBERS)]

    def _started(self, index: int) -> SimMember:
        instance = f"i{index}" if self._is_static else None
        host = f"10.0.0.{index + 1}"
        return self._rig.member(self._group, f"app-{index}", host, instance_id=instance, slow_ms=self._slow_ms)

    def _beat_every(self, ms: int) -> None:
        for member in self._members:
            member.beat_ms = ms

    def restart(self) -> Iterator[int]:
        """Restart the members; yield how long to wait before going on."""
        self._beat_every(BEAT_MS)
        yield REST_BEAT_MS
        for index in range(MEMBERS):
            self._members[index].close()
            yield self._chance.randrange(1_000, 15_000)  # the new process starts
            self._members[index] = self._started(index)
            yield 20_000  # the deployment waits until it is ready
        self._beat_every(REST_BEAT_MS)

    def commit(self, offset: int) -> None:
        for partition in range(PARTITIONS):
            self._members[0].commit(offset, partition)


@pytest.mark.long
async def test_a_day_of_deploys_of_a_thousand_groups_raises_nothing() -> None:
    rig = DiagnosisRig(PARTITIONS)
    rounds = Rounds(rig)
    fleets = [Fleet(rig, number, Random(number)) for number in range(GROUPS)]
    found: list[GroupProblem] = []

    async def pass_time(ms: int) -> None:
        for _ in range(ms // STEP_MS):
            rig.run(STEP_MS, STEP_MS)
            if rig.now_ms % LOOK_MS == 0:
                found.extend(await rounds.look())

    await pass_time(60_000)
    for deploy in range(1, DEPLOYS + 1):
        waiting = [(fleet, fleet.restart()) for fleet in fleets]
        under_way: list[tuple[int, Fleet, Iterator[int]]] = []
        while waiting or under_way:
            while waiting and len(under_way) < AT_ONCE:
                under_way.append((0, *waiting.pop()))
            going = []
            for due_ms, fleet, steps in under_way:
                if due_ms > rig.now_ms:
                    going.append((due_ms, fleet, steps))
                elif (wait_ms := next(steps, None)) is not None:
                    going.append((rig.now_ms + wait_ms, fleet, steps))
            under_way = going
            await pass_time(STEP_MS)
        for partition in range(PARTITIONS):
            rig.produce(partition)
        for fleet in fleets:
            fleet.commit(deploy)
        await pass_time(QUIET_MS)
        assert found == []
    assert rounds.told == []
    rebalances = {one.generation > DEPLOYS * MEMBERS for one in rig.members if one.instance_id is None}
    assert rebalances == {True}, "their groups rebalanced with each restart"
    assert sum(one.generation > 0 for one in rig.members) == GROUPS * MEMBERS

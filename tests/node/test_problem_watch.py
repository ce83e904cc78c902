"""The doctor's rounds: they find what a look at every group finds, and cost what changed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator.http.queries import Queries
from coordinator.http.watch import ProblemWatch, examine
from diagnosis.growth import NEW_MS
from diagnosis.loops import MOST_REFUSED
from diagnosis.problem import GroupProblem, Kind
from protocol.messages import Message
from protocol.messages.groups import DescribeGroups
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.node.node_rig import WALL_MS
from tests.node.operated import DiagnosisRig


class Rounds:
    """Rounds of a watch over a node: groups it looked at, and what was told of problems."""

    def __init__(self, rig: DiagnosisRig, groups_a_round: int = 1_000) -> None:
        self.rig = rig
        self.looked_at: list[str] = []
        self.told: list[tuple[str, bool]] = []
        queries = Queries(self._recording(rig.ask_doctor))
        self.watch = ProblemWatch(queries, _no_rest, asyncio.Lock(), self._tell, groups_a_round)

    async def look(self) -> list[GroupProblem]:
        self.looked_at.clear()
        return await self.watch.look()

    def _recording(self, ask: Callable[[Message], Awaitable[Message]]) -> Callable[[Message], Awaitable[Message]]:
        async def asked(message: Message) -> Message:
            if isinstance(message, DescribeGroups):
                self.looked_at += message.groups
            return await ask(message)

        return asked

    def _tell(self, problem: GroupProblem, is_open: bool) -> None:
        self.told.append((problem.kind.value, is_open))


async def _no_rest() -> None:
    pass


def quiet_groups(rig: DiagnosisRig, count: int) -> None:
    """Groups of no members, which have an offset each."""
    rig.connect_from(9, "10.0.0.99", 50_000)
    for number in range(count):
        topics = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
        rig.ask(9, OffsetCommit(f"quiet-{number:03}", topics))
        rig.wake_until_idle()


def members(rig: DiagnosisRig) -> None:
    for number in range(3):
        rig.member("g", f"app-{number}", f"10.0.0.{number + 1}")
    rig.run(8_000)


async def test_a_round_looks_at_what_changed_alone() -> None:
    rig = DiagnosisRig()
    quiet_groups(rig, 40)
    members(rig)
    rounds = Rounds(rig)
    assert await rounds.look() == []
    assert len(rounds.looked_at) == 41

    rig.run(2_000)
    assert await rounds.look() == []
    assert rounds.looked_at == []

    rig.members[1].kill()
    rig.run(1_500)
    (found,) = await rounds.look()
    assert (found.kind, found.client_id, rounds.looked_at) == (Kind.SILENT_MEMBER, "app-1", ["g"])
    rig.run(90_000)
    assert await rounds.look() == await rig.problems() == []
    assert rounds.told == [("silent_member", True), ("silent_member", False)]
    rig.run(3_700_000, 2_000)
    await rounds.look()
    assert len(rounds.looked_at) == 41, "offsets may have fallen out of their log"


async def test_a_round_is_bounded_and_what_waits_comes_next() -> None:
    rig = DiagnosisRig()
    quiet_groups(rig, 25)
    rounds = Rounds(rig, groups_a_round=10)
    seen: set[str] = set()
    for waiting in (15, 5, 0):
        await rounds.look()
        assert rounds.watch.waiting == waiting
        seen |= set(rounds.looked_at)
    assert len(seen) == 25


async def test_a_member_that_stops_reading_is_found_without_a_change() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    await rounds.look()
    rig.produce(0)
    rig.members[0].commit(1, 0)
    rig.run(120_000, 3_000)
    rig.produce(0)
    found: list[GroupProblem] = []
    minutes = 0
    while not found:
        assert minutes < 10, "the next look, which sees the record, comes within 5 min"
        rig.run(60_000, 3_000)
        found = await rounds.look()
        minutes += 1
    assert minutes >= 5
    assert [one.kind for one in found] == [Kind.CONSUMPTION_STOPPED]
    assert found == await rig.problems()


@pytest.mark.parametrize("repeats", [False, True])
async def test_records_with_old_timestamps_wait_since_a_look_saw_them(repeats: bool) -> None:
    """A reader had nothing to read for longer than records may wait; then old ones are written for it."""
    rig = DiagnosisRig(partitions=1)
    reader = rig.member("g", "app", "10.0.0.1")
    rounds, seen = Rounds(rig), Queries(rig.ask_doctor)
    rig.run(8_000)

    async def pass_time(ms: int) -> list[Kind]:
        """Look each 10 s; return the problems at the end, which a page shows too."""
        for _ in range(ms // 10_000):
            rig.run(10_000, 1_000)
            if repeats and rig.now_ms % 60_000 == 8_000:
                reader.commit(read, 0)
            await rounds.look()
        kinds = [one.kind for one in await rounds.look()]
        shown = await examine(seen, _no_rest, ("g",), rounds.watch.remembered)
        assert [one.kind for one in shown] == kinds
        return kinds

    rig.produce(0)
    for read in range(1, 4):
        reader.commit(read, 0)
        assert await pass_time(600_000) == []
        rig.produce(0, age_ms=3_600_000)
        assert await pass_time(50_000) == []
    kind = Kind.CONSUMPTION_STALLED if repeats else Kind.CONSUMPTION_STOPPED
    rig.produce(0, age_ms=3_600_000)
    assert await pass_time(600_000) == [kind]
    rig.produce(0)
    assert await pass_time(600_000) == [kind], "it stays one problem"
    assert rounds.told == [(kind.value, True)]
    read = 6
    reader.commit(read, 0)
    assert await pass_time(60_000) == []


async def test_a_deleted_group_and_a_refused_member_are_noticed() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    await rounds.look()
    rig.member("g", "odd", "10.0.0.9", assignor="sticky")
    rig.run(1_000)
    assert [one.kind for one in await rounds.look()] == [Kind.JOIN_REFUSED]
    rig.run(300_000)
    assert await rounds.look() == []


async def test_a_client_refused_by_any_number_of_groups_is_a_few_problems_that_stay_and_hides_no_other() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    for number in range(2 * MOST_REFUSED):
        rig.member(f"made-up-{number:03}", "evil", "10.0.0.66", session_ms=1)
    rig.member("fresh", "odd", "10.0.0.9", session_ms=1)
    rig.run(1_000)
    first = await rounds.look()
    assert len(first) == MOST_REFUSED == len(rounds.told)
    assert ("fresh", "odd") in {(one.group_id, one.client_id) for one in first}
    assert [one.sentence for one in first][-1].endswith("; not listed: 21 more refused joins")

    for number in range(2 * MOST_REFUSED):
        rig.member(f"again-{number:03}", "evil", "10.0.0.66", session_ms=1)
    rig.run(1_000)
    again = await rounds.look()
    assert [one.group_id for one in again] == [one.group_id for one in first]
    assert [one.sentence for one in again][-1].endswith("; not listed: 61 more refused joins")
    assert len(rounds.told) == MOST_REFUSED, "the same problems are open"


async def test_a_client_refused_under_any_number_of_names_is_a_few_problems() -> None:
    rig = DiagnosisRig()
    members(rig)
    for number in range(2 * MOST_REFUSED):
        rig.member("g", f"evil-{number:03}", "10.0.0.66", assignor="sticky")
    rig.member("g", "odd", "10.0.0.9", assignor="sticky")
    rig.run(1_000)
    found = await Rounds(rig).look()
    assert len(found) == MOST_REFUSED
    assert "odd" in {one.client_id for one in found}


async def test_partitions_that_are_new_have_the_time_in_which_clients_notice_them() -> None:
    rig = DiagnosisRig(partitions=2)
    member = rig.member("g", "app", "10.0.0.1", topics=("orders", "later"))
    rounds, seen = Rounds(rig), Queries(rig.ask_doctor)
    await rounds.look()
    rig.run(80_000)
    assert await rounds.look() == []
    rig.ask_inside(CreatePartitions((GrowingTopic("orders", 4),)), call=12)
    assert await examine(seen, _no_rest, ("g",), rounds.watch.remembered) == [], "a page is asked before the next round"
    rig.make_topic("later", 1)
    added_ms = WALL_MS + rig.now_ms
    for _ in range(11):
        assert await rounds.look() == []
        rig.run(30_000, 3_000)
    member.close()
    rig.member("g", "again", "10.0.0.1", topics=("orders", "later"))
    rig.run(27_000, 3_000)
    assert await rounds.look() == []
    assert await examine(seen, _no_rest, ("g",), rounds.watch.remembered) == []

    rig.run(60_000, 3_000)
    (found,) = await rounds.look()
    assert found.sentence == "no member has later-0, orders-2, orders-3, though members subscribe to it"
    assert added_ms + NEW_MS - 30_000 < found.since_ms < added_ms + NEW_MS, "Stable, which is later"


async def test_new_partitions_that_nobody_noticed_are_found_without_a_change() -> None:
    rig = DiagnosisRig(partitions=2)
    rig.member("g", "app", "10.0.0.1")
    rounds = Rounds(rig)
    rig.run(300_000, 3_000)
    await rounds.look()
    rig.ask_inside(CreatePartitions((GrowingTopic("orders", 3),)), call=12)
    rig.run(9_000)
    await rounds.look()
    added_ms = WALL_MS + rig.now_ms
    rig.run(NEW_MS - 60_000, 3_000)
    assert await rounds.look() == []
    rig.ask_inside(CreatePartitions((GrowingTopic("orders", 4),)), call=13)
    await rounds.look()
    again_ms = WALL_MS + rig.now_ms
    rig.run(NEW_MS - 3_000, 3_000)
    assert await rounds.look() == []
    rig.run(3_000, 3_000)
    (found,) = await rounds.look()
    assert (found.kind, found.partitions, found.since_ms) == (Kind.UNOWNED_PARTITIONS, 2, again_ms)
    assert added_ms < again_ms


async def test_rewinds_and_fights_change_no_state_and_are_found() -> None:
    rig = DiagnosisRig()
    members(rig)
    rig.member("g", "first", "10.0.0.7", instance_id="box")
    rig.run(8_000)
    rounds = Rounds(rig)
    await rounds.look()
    rig.members[0].commit(9, 0)
    rig.members[0].commit(3, 0)
    rig.member("g", "second", "10.0.0.8", instance_id="box")
    rig.run(4_000)
    found = await rounds.look()
    assert {one.kind for one in found} == {Kind.CONSUMPTION_REWOUND, Kind.INSTANCE_FOUGHT_OVER}
    assert [one.sentence for one in found] == [one.sentence for one in await rig.problems()]


async def test_a_problem_is_looked_at_once_a_second_however_many_ask() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    await rounds.look()
    rig.members[1].kill()
    rig.run(1_500)
    (found,) = await rounds.look()
    assert rounds.looked_at == ["g"]
    assert await rounds.look() == [found]
    assert rounds.looked_at == []
    rig.run(1_000)
    assert [one.kind for one in await rounds.look()] == [found.kind]
    assert rounds.looked_at == ["g"]


async def test_a_member_that_is_silent_on_an_open_connection_is_found_by_a_round() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    await rounds.look()
    rig.members.pop(0)  # its process stands still
    kinds: list[Kind] = []
    for second in range(40):
        rig.run(1_000)
        kinds = [one.kind for one in await rounds.look()]
        assert kinds == [one.kind for one in await rig.problems()], second
        if kinds:
            break
    assert kinds == [Kind.SILENT_MEMBER]


async def test_a_list_makes_no_round_while_events_are_followed() -> None:
    rig = DiagnosisRig()
    members(rig)
    rounds = Rounds(rig)
    queries = Queries(rig.ask_doctor)

    async def listed(*group_ids: str) -> list[Kind]:
        rounds.looked_at.clear()
        now_ms = (await queries.node()).wall_ms
        return [one.kind for one in await rounds.watch.listed_for(queries, set(group_ids), now_ms)]

    await rounds.look()
    rig.members[1].kill()
    rig.run(1_500)
    assert await listed("g") == [Kind.SILENT_MEMBER], "nobody follows: the list makes a round"
    assert await listed() == []

    rig.members[0].kill()
    rig.run(1_500)
    await rounds.watch.look(await queries.suspects(rounds.watch.since_ms))  # as for followers
    rig.members[0].kill()
    rig.run(500)
    assert await listed("g") == [Kind.SILENT_MEMBER] * 2
    assert rounds.looked_at == []
    rig.run(500)
    assert await listed("g") == [Kind.SILENT_MEMBER] * 3
    assert rounds.looked_at == ["g"]

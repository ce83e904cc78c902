"""The doctor's rounds: they find what a look at every group finds, and cost what changed."""

import asyncio
from collections.abc import Awaitable, Callable

from coordinator.http.queries import Queries
from coordinator.http.watch import ProblemWatch
from diagnosis.problem import GroupProblem, Kind
from protocol.messages import Message
from protocol.messages.groups import DescribeGroups
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.operated import Clinic


class Rounds:
    """Rounds of a watch over a clinic: groups it looked at, and what was told of problems."""

    def __init__(self, clinic: Clinic, groups_a_round: int = 1_000) -> None:
        self.clinic = clinic
        self.looked_at: list[str] = []
        self.told: list[tuple[str, bool]] = []
        queries = Queries(self._recording(clinic.ask_doctor))
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


def quiet_groups(clinic: Clinic, count: int) -> None:
    """Groups of no members, which have an offset each."""
    clinic.connect_from(9, "10.0.0.99", 50_000)
    for number in range(count):
        topics = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
        clinic.ask(9, OffsetCommit(f"quiet-{number:03}", topics))
        clinic.wake_until_idle()


def members(clinic: Clinic) -> None:
    for number in range(3):
        clinic.member("g", f"app-{number}", f"10.0.0.{number + 1}")
    clinic.run(8_000)


async def test_a_round_looks_at_what_changed_alone() -> None:
    clinic = Clinic()
    quiet_groups(clinic, 40)
    members(clinic)
    rounds = Rounds(clinic)
    assert await rounds.look() == []
    assert len(rounds.looked_at) == 41

    clinic.run(2_000)
    assert await rounds.look() == []
    assert rounds.looked_at == []

    clinic.members[1].kill()
    clinic.run(1_500)
    (found,) = await rounds.look()
    assert (found.kind, found.client_id, rounds.looked_at) == (Kind.SILENT_MEMBER, "app-1", ["g"])
    clinic.run(90_000)
    assert await rounds.look() == await clinic.problems() == []
    assert rounds.told == [("silent_member", True), ("silent_member", False)]
    clinic.run(3_700_000, 2_000)
    await rounds.look()
    assert len(rounds.looked_at) == 41, "offsets may have fallen out of their log"


async def test_a_round_is_bounded_and_what_waits_comes_next() -> None:
    clinic = Clinic()
    quiet_groups(clinic, 25)
    rounds = Rounds(clinic, groups_a_round=10)
    seen: set[str] = set()
    for waiting in (15, 5, 0):
        await rounds.look()
        assert rounds.watch.waiting == waiting
        seen |= set(rounds.looked_at)
    assert len(seen) == 25


async def test_a_member_that_stops_reading_is_found_without_a_change() -> None:
    clinic = Clinic()
    members(clinic)
    rounds = Rounds(clinic)
    await rounds.look()
    clinic.produce(0)
    clinic.members[0].commit(1, 0)
    clinic.run(120_000, 3_000)
    clinic.produce(0)
    found: list[GroupProblem] = []
    minutes = 0
    while not found:
        assert minutes < 7
        clinic.run(60_000, 3_000)
        found = await rounds.look()
        minutes += 1
    assert minutes >= 5
    assert [one.kind for one in found] == [Kind.CONSUMPTION_STOPPED]
    assert found == await clinic.problems()


async def test_a_deleted_group_and_a_refused_member_are_noticed() -> None:
    clinic = Clinic()
    members(clinic)
    rounds = Rounds(clinic)
    await rounds.look()
    clinic.member("g", "odd", "10.0.0.9", assignor="sticky")
    clinic.run(1_000)
    assert [one.kind for one in await rounds.look()] == [Kind.JOIN_REFUSED]
    clinic.run(300_000)
    assert await rounds.look() == []


async def test_rewinds_and_fights_change_no_state_and_are_found() -> None:
    clinic = Clinic()
    members(clinic)
    clinic.member("g", "first", "10.0.0.7", instance_id="box")
    clinic.run(8_000)
    rounds = Rounds(clinic)
    await rounds.look()
    clinic.members[0].commit(9, 0)
    clinic.members[0].commit(3, 0)
    clinic.member("g", "second", "10.0.0.8", instance_id="box")
    clinic.run(4_000)
    found = await rounds.look()
    assert {one.kind for one in found} == {Kind.CONSUMPTION_REWOUND, Kind.INSTANCE_FOUGHT_OVER}
    assert [one.sentence for one in found] == [one.sentence for one in await clinic.problems()]


async def test_a_problem_is_looked_at_once_a_second_however_many_ask() -> None:
    clinic = Clinic()
    members(clinic)
    rounds = Rounds(clinic)
    await rounds.look()
    clinic.members[1].kill()
    clinic.run(1_500)
    (found,) = await rounds.look()
    assert rounds.looked_at == ["g"]
    assert await rounds.look() == [found]
    assert rounds.looked_at == []
    clinic.run(1_000)
    assert [one.kind for one in await rounds.look()] == [found.kind]
    assert rounds.looked_at == ["g"]


async def test_a_member_that_is_silent_on_an_open_connection_is_found_by_a_round() -> None:
    clinic = Clinic()
    members(clinic)
    rounds = Rounds(clinic)
    await rounds.look()
    clinic.members.pop(0)  # its process stands still
    kinds: list[Kind] = []
    for second in range(40):
        clinic.run(1_000)
        kinds = [one.kind for one in await rounds.look()]
        assert kinds == [one.kind for one in await clinic.problems()], second
        if kinds:
            break
    assert kinds == [Kind.SILENT_MEMBER]


async def test_a_list_makes_no_round_while_events_are_followed() -> None:
    clinic = Clinic()
    members(clinic)
    rounds = Rounds(clinic)
    queries = Queries(clinic.ask_doctor)

    async def listed(*group_ids: str) -> list[Kind]:
        rounds.looked_at.clear()
        now_ms = (await queries.node()).wall_ms
        return [one.kind for one in await rounds.watch.listed_for(queries, set(group_ids), now_ms)]

    await rounds.look()
    clinic.members[1].kill()
    clinic.run(1_500)
    assert await listed("g") == [Kind.SILENT_MEMBER], "nobody follows: the list makes a round"
    assert await listed() == []

    clinic.members[0].kill()
    clinic.run(1_500)
    await rounds.watch.look(await queries.suspects(rounds.watch.since_ms))  # as for followers
    clinic.members[0].kill()
    clinic.run(500)
    assert await listed("g") == [Kind.SILENT_MEMBER] * 2
    assert rounds.looked_at == []
    clinic.run(500)
    assert await listed("g") == [Kind.SILENT_MEMBER] * 3
    assert rounds.looked_at == ["g"]

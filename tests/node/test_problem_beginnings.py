"""Since when a problem is, what it costs and who has it: from what servers report, and from the look before."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from coordinator.http.queries import Queries
from coordinator.http.watch import ProblemWatch, examine
from diagnosis.consumption import unowned
from diagnosis.problem import Evidence, GroupProblem, Kind, Progress, continued
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup, DescribedMember, DescribeGroups, ListedNote
from protocol.messages.offsets import ListOffsets, ListOffsetsReply
from tests.node.node_rig import WALL_MS
from tests.node.operated import DiagnosisRig
from tests.node.test_doctor import only, three

EARLIEST = -2


def reading(**settings: int) -> DiagnosisRig:
    """A Stable group of three members, with a partition each."""
    rig = DiagnosisRig(partitions=3, **settings)
    three(rig)
    return rig


def wall_ms(rig: DiagnosisRig) -> int:
    return WALL_MS + rig.now_ms


async def test_a_reader_with_a_backlog_is_stalled_since_the_first_commit_of_its_offset() -> None:
    rig = reading()
    for _ in range(4):
        rig.produce(0)
    rig.members[0].commit(1, 0)
    rig.run(60_000, step_ms=3_000)
    rig.members[0].commit(2, 0)
    reached_ms = wall_ms(rig)
    for _ in range(3):
        rig.run(150_000, step_ms=3_000)
        rig.members[0].commit(2, 0)

    assert only(await rig.problems(), Kind.CONSUMPTION_STALLED).since_ms == reached_ms


async def test_a_reader_that_had_nothing_to_read_is_stalled_since_the_record_was_written() -> None:
    rig = reading()
    rig.produce(0)
    for _ in range(3):
        rig.members[0].commit(1, 0)
        rig.run(300_000, step_ms=3_000)
    rig.produce(0)
    written_ms = wall_ms(rig)
    for _ in range(3):
        rig.run(120_000, step_ms=3_000)
        rig.members[0].commit(1, 0)

    assert only(await rig.problems(), Kind.CONSUMPTION_STALLED).since_ms == written_ms


async def test_a_reader_is_stopped_since_the_record_or_its_last_commit_whichever_is_later() -> None:
    rig = reading()
    rig.produce(0)
    rig.members[0].commit(1, 0)
    rig.run(600_000, step_ms=3_000)
    rig.produce(0)
    written_ms = wall_ms(rig)
    rig.run(306_000, step_ms=3_000)
    assert only(await rig.problems(), Kind.CONSUMPTION_STOPPED).since_ms == written_ms

    for _ in range(2):
        rig.produce(0)
    rig.members[0].commit(2, 0)
    committed_ms = wall_ms(rig)
    rig.run(306_000, step_ms=3_000)
    assert only(await rig.problems(), Kind.CONSUMPTION_STOPPED).since_ms == committed_ms


async def test_a_group_that_never_committed_is_stopped_since_it_could_have_read() -> None:
    rig = DiagnosisRig(partitions=3)
    rig.produce(0)
    rig.run(60_000, step_ms=3_000)
    three(rig)
    (group,) = await Queries(rig.ask_doctor).describe(("g",))
    rig.run(306_000, step_ms=3_000)
    rig.produce(1)
    written_ms = wall_ms(rig)
    rig.run(306_000, step_ms=3_000)

    found = [one for one in await rig.problems() if one.kind is Kind.CONSUMPTION_STOPPED]

    assert [one.since_ms for one in found] == [group.state_since_ms, written_ms]


async def test_a_fight_costs_the_partitions_of_the_member_that_is_fought_over() -> None:
    rig = reading()
    rig.member("g", "first", "10.0.0.7", instance_id="box")
    rig.run(8_000)
    rig.member("g", "second", "10.0.0.8", instance_id="box")
    rig.run(4_000)
    rig.partitions = 4
    assert only(await rig.problems(), Kind.INSTANCE_FOUGHT_OVER).partitions == 0, "its member has none"

    rig = DiagnosisRig(partitions=4)
    rig.member("g", "first", "10.0.0.7", instance_id="box")
    rig.run(8_000)
    rig.member("g", "second", "10.0.0.8", instance_id="box")
    rig.run(4_000)
    assert only(await rig.problems(), Kind.INSTANCE_FOUGHT_OVER).partitions == 4


async def test_a_fight_does_not_cost_the_partitions_of_another_instance_that_was_replaced_since() -> None:
    rig = DiagnosisRig(partitions=4)
    rig.member("g", "first", "10.0.0.7", instance_id="box")
    restarted = rig.member("g", "rolled", "10.0.0.5", instance_id="other")
    rig.run(8_000)
    rig.member("g", "second", "10.0.0.8", instance_id="box")
    rig.run(1_000)
    restarted.close()
    rig.member("g", "rolled-again", "10.0.0.6", instance_id="other")
    rig.run(3_000)
    found = only(await rig.problems(), Kind.INSTANCE_FOUGHT_OVER)
    assert found.sentence.endswith("; second at 10.0.0.8 has it now")
    assert found.partitions == 2


class Trimmed:
    """Rounds at a node whose log of partition 0 seems to begin at offset 5."""

    def __init__(self, rig: DiagnosisRig) -> None:
        self.rig = rig
        self.queries = Queries(self._trimmed(rig.ask_doctor))
        self.told: list[tuple[str, bool]] = []
        self.watch = ProblemWatch(self.queries, _no_rest, asyncio.Lock(), self._tell)

    def _tell(self, problem: GroupProblem, is_open: bool) -> None:
        self.told.append((problem.kind.value, is_open))

    def _trimmed(self, ask: Callable[[Message], Awaitable[Message]]) -> Callable[[Message], Awaitable[Message]]:
        async def asked(message: Message) -> Message:
            reply = await ask(message)
            if not isinstance(message, ListOffsets) or not isinstance(reply, ListOffsetsReply):
                return reply
            if message.topics[0].partitions[0].timestamp != EARLIEST:
                return reply
            (topic,) = reply.topics
            parts = [replace(one, offset=5 if not one.partition_index else one.offset) for one in topic.partitions]
            return ListOffsetsReply((replace(topic, partitions=tuple(parts)),))

        return asked


async def _no_rest() -> None:
    pass


async def test_offsets_out_of_range_are_seen_since_the_first_round_and_name_their_only_reader() -> None:
    rig = reading()
    rig.members[0].commit(3, 0)
    rounds = Trimmed(rig)
    first_ms = wall_ms(rig)
    (found,) = await rounds.watch.look()
    assert (found.kind, found.since_ms, found.seen_ms) == (Kind.OFFSETS_OUT_OF_RANGE, -1, first_ms)
    assert (found.client_id, found.client_host, found.client_port) == ("app-0", "10.0.0.1", 40_011)

    rig.run(9_000)
    assert [one.seen_ms for one in await rounds.watch.look()] == [first_ms]
    alone = replace(found, seen_ms=-1)
    assert rounds.watch.continued([alone]) == [found], "a page of one group knows what the rounds know"


async def test_offsets_out_of_range_stay_one_problem_while_their_owner_changes() -> None:
    rig = reading()
    rig.members[0].commit(3, 0)
    rounds = Trimmed(rig)
    (first,) = await rounds.watch.look()
    rig.members[0].close()
    owners = {first.client_id}
    for _ in range(8):
        rig.run(1_000)
        found = only(await rounds.watch.look(), Kind.OFFSETS_OUT_OF_RANGE)
        assert (found.since_ms, found.seen_ms) == (-1, first.seen_ms)
        owners.add(found.client_id)
    assert owners == {"app-0", "", "app-1"}
    assert [one for one in rounds.told if one[0] == Kind.OFFSETS_OUT_OF_RANGE] == [("offsets_out_of_range", True)]


async def test_rounds_search_the_log_of_a_group_that_stands_still_once() -> None:
    """The reader of partition 0 has read all but one record, that of partition 1 has a backlog."""
    rig = reading()
    rig.produce(0)
    rig.members[0].commit(1, 0)
    committed_ms = wall_ms(rig)
    rig.run(3_000)
    rig.produce(1)
    rig.run(3_000)
    rig.members[1].commit(0, 1)
    behind_ms = wall_ms(rig)
    rig.run(600_000, step_ms=3_000)
    rig.produce(0)
    rig.run(306_000, step_ms=3_000)
    times_ms: list[int] = []

    async def asked(message: Message) -> Message:
        if isinstance(message, ListOffsets):
            times_ms.extend(part.timestamp for topic in message.topics for part in topic.partitions)
        return await rig.ask_doctor(message)

    watch = ProblemWatch(Queries(asked), _no_rest, asyncio.Lock())
    for _ in range(3):
        found = [one for one in await watch.look() if one.kind is Kind.CONSUMPTION_STOPPED]
        assert [one.since_ms for one in found] == [committed_ms + 606_000, behind_ms]
        rig.run(3_000)
    assert (times_ms.count(committed_ms + 1), times_ms.count(behind_ms + 1)) == (1, 1)


async def test_a_search_without_an_answer_is_made_again() -> None:
    rig = reading()
    rig.produce(0)
    rig.members[0].commit(1, 0)
    committed_ms = wall_ms(rig)
    rig.run(600_000, step_ms=3_000)
    rig.produce(0)
    written_ms = wall_ms(rig)
    rig.run(306_000, step_ms=3_000)
    errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    async def asked(message: Message) -> Message:
        reply = await rig.ask_doctor(message)
        is_search = isinstance(message, ListOffsets) and message.topics[0].partitions[0].timestamp == committed_ms + 1
        if not is_search or not isinstance(reply, ListOffsetsReply) or not errors:
            return reply
        (topic,) = reply.topics
        part = replace(topic.partitions[0], error_code=errors.pop(), offset=-1, timestamp=-1)
        return ListOffsetsReply((replace(topic, partitions=(part,)),))

    watch = ProblemWatch(Queries(asked), _no_rest, asyncio.Lock())
    assert only(await watch.look(), Kind.CONSUMPTION_STOPPED).since_ms == committed_ms
    rig.run(3_000)
    assert only(await watch.look(), Kind.CONSUMPTION_STOPPED).since_ms == written_ms


async def test_a_group_that_never_committed_waits_at_the_first_record_that_retention_left() -> None:
    rig = reading()
    for _ in range(7):
        rig.produce(0)
        rig.run(3_000)
    written_ms = wall_ms(rig)
    rig.run(306_000, step_ms=3_000)
    is_trimmed = False

    async def asked(message: Message) -> Message:
        reply = await rig.ask_doctor(message)
        if not is_trimmed or not isinstance(message, ListOffsets) or not isinstance(reply, ListOffsetsReply):
            return reply
        at_ms = message.topics[0].partitions[0].timestamp
        if at_ms not in (EARLIEST, 1):
            return reply
        (topic,) = reply.topics
        first = replace(topic.partitions[0], offset=5, timestamp=written_ms if at_ms == 1 else -1)
        return ListOffsetsReply((replace(topic, partitions=(first, *topic.partitions[1:])),))

    watch = ProblemWatch(Queries(asked), _no_rest, asyncio.Lock())
    before = only(await watch.look(), Kind.CONSUMPTION_STOPPED)
    assert 0 < before.since_ms < written_ms
    is_trimmed = True
    rig.run(3_000)
    assert only(await watch.look(), Kind.CONSUMPTION_STOPPED).since_ms == written_ms


async def test_offsets_that_expire_do_so_since_the_group_is_empty_and_cost_what_is_unread() -> None:
    rig = reading()
    rig.produce(0)
    rig.members[0].commit(0, 0)
    for member in list(rig.members):
        member.close()
    (group,) = await Queries(rig.ask_doctor).describe(("g",))
    rig.run(6 * 86_400_000 + 60_000, step_ms=86_400_000 // 4)

    found = only(await rig.problems(), Kind.OFFSETS_EXPIRE)

    assert (found.since_ms, found.partitions, found.records) == (group.state_since_ms, 1, 1)


@pytest.mark.parametrize(("second_ms", "shown_ms"), [(10_003, 10_000), (9_998, 10_000), (12_000, 12_000)])
def test_a_beginning_that_is_measured_again_stays_unless_it_is_another(second_ms: int, shown_ms: int) -> None:
    first = GroupProblem(Kind.SILENT_MEMBER, "g", "silent", client_id="app", since_ms=10_000)
    again = replace(first, sentence="silent for longer", since_ms=second_ms)
    (shown,) = continued([again], [first], 20_000)
    assert (shown.sentence, shown.since_ms, shown.seen_ms) == ("silent for longer", shown_ms, -1)
    assert continued([again], [replace(first, client_id="other")], 20_000) == [again]
    assert continued([again], [replace(first, member_id="of the same client")], 20_000) == [again]


@pytest.mark.parametrize(("group_type", "since_ms"), [("consumer", 0), ("client-balanced", 30_000)])
def test_a_static_member_that_takes_anothers_place_leaves_partitions_unowned_as_long(
    group_type: str, since_ms: int
) -> None:
    member = DescribedMember("m", "box", "app", "/10.0.0.1", topics=("orders",))
    group = DescribedGroup("g", group_state="Stable", protocol_type=group_type, members=(member,), state_since_ms=0)
    note = ListedNote(1, 1, "static member replaced", "m", 30_000, kind="member")
    evidence = Evidence(group, 100_000, (note,), (Progress("orders", 0, 1, 0, 1),), counts={"orders": 1})
    assert only(list(unowned(evidence)), Kind.UNOWNED_PARTITIONS).since_ms == since_ms


def test_a_beginning_that_was_known_is_not_lost() -> None:
    first = GroupProblem(Kind.CONSUMPTION_STOPPED, "g", "stopped", client_id="app", since_ms=10_000)
    assert continued([replace(first, since_ms=-1)], [first], 20_000) == [first]


async def test_a_beginning_does_not_depend_on_when_the_look_began() -> None:
    """A look at many groups asks for the time first, and describes the last of them seconds later."""
    rig = reading()
    killed_ms = wall_ms(rig)
    rig.members[1].kill()
    rig.run(2_000)

    async def slow(message: Message) -> Message:
        if isinstance(message, DescribeGroups):
            rig.run(3_000)
        return await rig.ask_doctor(message)

    assert only(await examine(Queries(slow), _no_rest, ("g",)), Kind.SILENT_MEMBER).since_ms == killed_ms


async def test_a_page_of_one_group_has_the_beginning_that_the_rounds_measured() -> None:
    rig = reading()
    rounds = Trimmed(rig)
    rig.members[1].kill()
    rig.run(2_000)
    known = [one.since_ms for one in await rounds.watch.look()]
    measured = [replace(one, since_ms=one.since_ms + 3) for one in await rig.problems()]
    assert [one.since_ms for one in rounds.watch.continued(measured)] == known

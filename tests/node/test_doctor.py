"""Findings of the doctor in staged incidents; none on an ordinary day of rolling restarts."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config.keys import RebalanceProtocols
from coordinator.node.events import Lost
from diagnosis.loops import loops
from diagnosis.problem import Evidence, GroupProblem, Kind
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import DescribedGroup, ListedNote, Origin
from protocol.messages.node import Hello
from tests.enumerations import some
from tests.node.operated import BEAT_MS, SESSION_MS, DiagnosisRig

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def three(rig: DiagnosisRig, **more: object) -> None:
    """A Stable group of three members."""
    for number, host in enumerate(HOSTS):
        rig.member("g", f"app-{number}", host, **more)
    rig.run(8_000)


def driven() -> tuple[DiagnosisRig, Callable[[str], ConsumerGroupHeartbeat]]:
    """A node with two clients, and the heartbeat by which a member with the instance id `box` joins a server-driven
    group."""
    both = RebalanceProtocols(("classic", "consumer"))
    rig = DiagnosisRig(group_coordinator_rebalance_protocols=both, group_consumer_session_timeout_ms=SESSION_MS)
    for number, host in enumerate(HOSTS[:2]):
        rig.connect_from(number, host, 40_000 + number)
        rig.ask(number, Hello(f"app-{number}", "1.0"))

    def joining(member_id: str) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            "g",
            member_id,
            0,
            instance_id="box",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )

    return rig, joining


def only(found: list[GroupProblem], kind: Kind) -> GroupProblem:
    (one,) = [problem for problem in found if problem.kind is kind]
    return one


async def test_a_stable_group_has_no_problem() -> None:
    rig = DiagnosisRig()
    three(rig)
    assert await rig.problems() == []


async def test_a_killed_member_is_named_within_two_seconds_and_its_session() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.members[1].kill()
    rig.run(1_500)

    found = only(await rig.problems(), Kind.SILENT_MEMBER)

    assert (found.client_id, found.client_host, found.client_port) == ("app-1", "10.0.0.2", 40_012)
    assert "connection closed 1.5 s ago" in found.sentence
    assert found.partitions == 1
    assert found.command.startswith("muster groups evict g --member app-1-")


async def test_a_stopped_member_is_told_from_a_killed_one_after_half_its_session() -> None:
    rig = DiagnosisRig()
    three(rig)
    stopped = rig.members[1]
    stopped.is_hung = True
    rig.run(SESSION_MS // 2 + BEAT_MS)

    found = only(await rig.problems(), Kind.SILENT_MEMBER)

    assert (found.client_id, found.client_port) == ("app-1", stopped.port)
    assert "its connection is open, so its process is stopped or paused" in found.sentence
    assert found.command == f"muster groups evict g --member {stopped.member_id}"


async def test_a_member_that_does_not_rejoin_is_named() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.members[0].slow_ms = 60_000
    rig.members[2].close()
    rig.run(11_000)

    found = only(await rig.problems(), Kind.JOIN_HELD_UP)

    assert (found.client_id, found.client_host, found.client_port) == ("app-0", "10.0.0.1", 40_011)
    assert found.sentence.startswith("join for 11 s, at most 289 s more") or "at most 4 min more" in found.sentence
    assert found.since_ms > 0


async def test_a_server_driven_member_that_does_not_revoke_is_named() -> None:
    both = RebalanceProtocols(("classic", "consumer"))
    rig = DiagnosisRig(
        group_coordinator_rebalance_protocols=both,
        group_consumer_assignment_interval_ms=0,
        group_consumer_session_timeout_ms=SESSION_MS,
    )

    def beat(number: int, member_id: str, epoch: int, **more: Any) -> None:
        rig.ask(number, ConsumerGroupHeartbeat("g", member_id, epoch, **more))
        rig.wake_until_idle()

    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    for number, (name, host) in enumerate((("slow", "10.0.0.1"), ("new", "10.0.0.2"))):
        rig.connect_from(number, host, 40_000 + number)
        rig.ask(number, Hello(name, "1.0"))
        beat(number, name, 0, **joining)
    beat(0, "slow", 2)
    rig.run(9_000)
    assert await rig.problems() == []
    beat(0, "slow", 2)
    rig.run(3_000)

    found = only(await rig.problems(), Kind.REVOCATION_HELD_UP)

    assert (found.member_id, found.client_id, found.client_host, found.client_port) == (
        "slow",
        "slow",
        "10.0.0.1",
        40_000,
    )
    assert found.sentence == (
        "revocation for 12 s, at most 48 s more by the rebalance timeout of slow at 10.0.0.1:40000: waits for "
        "slow at 10.0.0.1:40000 (has not revoked its partitions for 12 s, last heard 3.0 s ago, "
        "evicted in 42 s if silent)"
    )
    assert (found.partitions, found.command) == (2, "muster groups describe g --verbose")


async def test_a_leader_that_does_not_sync_is_named() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.members[0].never_syncs = True
    rig.members[2].close()
    rig.run(16_000)

    found = only(await rig.problems(), Kind.SYNC_HELD_UP)

    assert (found.client_id, found.client_host) == ("app-0", "10.0.0.1")
    assert found.sentence.startswith("sync for ")


async def test_two_processes_with_one_instance_id_are_both_named() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.member("g", "first", "10.0.0.7", instance_id="box")
    rig.run(8_000)
    rig.member("g", "second", "10.0.0.8", instance_id="box")
    rig.run(4_000)

    found = only(await rig.problems(), Kind.INSTANCE_FOUGHT_OVER)

    assert (found.client_id, found.client_host) == ("first", "10.0.0.7")
    assert "second at 10.0.0.8 has it now" in found.sentence


async def test_the_commit_of_a_replaced_process_names_it_before_its_next_heartbeat() -> None:
    rig = DiagnosisRig()
    first = rig.member("g", "first", "10.0.0.7", instance_id="box")
    rig.run(8_000)
    rig.member("g", "second", "10.0.0.8", instance_id="box").join()
    first.is_hung = True  # a fatal error in librdkafka: it sends no heartbeats from then on
    first.commit(1, 1)
    rig.run(1_000)

    found = only(await rig.problems(), Kind.INSTANCE_FOUGHT_OVER)

    assert (found.client_id, found.client_host, found.client_port) == ("first", "10.0.0.7", first.port)
    assert "second at 10.0.0.8 has it now" in found.sentence


async def test_a_loop_by_max_poll_is_proven() -> None:
    rig = DiagnosisRig()
    three(rig, poll_ms=30_000)
    for _ in range(2):
        rig.members[1].commit(1, 1)
        rig.members[1].is_hung = True
        rig.run(30_000)
        rig.members[1].is_hung = False
        rig.members[1].poll_too_late()
        rig.run(12_000)

    found = only(await rig.problems(), Kind.REBALANCE_LOOP)

    assert (found.client_id, found.client_host) == ("app-1", "10.0.0.2")
    assert "max.poll.interval.ms) of 30 s" in found.sentence


async def test_a_member_of_a_server_driven_group_that_loses_its_session_again_and_again_is_named() -> None:
    rig = DiagnosisRig()
    rig.connect_from(1, "10.0.0.7", 40_001)
    rig.ask(1, Hello("app-7", "1.0"))
    full = ConsumerGroupHeartbeat(
        "g", "seven", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=()
    )
    for _ in range(3):
        rig.ask(1, full)
        rig.run(SESSION_MS + 1_000)
    rig.ask(1, full)

    found = only(await rig.problems(), Kind.REBALANCE_LOOP)

    assert (found.client_id, found.client_host) == ("app-7", "10.0.0.7")
    assert found.sentence == "app-7 at 10.0.0.7 lost its session 3 times within 92 s"


async def test_processes_of_one_host_that_end_at_once_are_no_loop_until_each_was_lost_again_and_again() -> None:
    rig = DiagnosisRig()
    rig.member("g", "steady", HOSTS[0])
    for ends in range(1, 4):
        for _ in range(3):
            rig.member("g", "app", HOSTS[1])
        rig.run(8_000)
        for member in [one for one in rig.members if one.name == "app"]:
            member.kill()
        rig.run(SESSION_MS + 3_000)
        kinds = [one.kind for one in await rig.problems()]
        assert kinds == ([Kind.REBALANCE_LOOP] if ends == 3 else []), ends

    found = only(await rig.problems(), Kind.REBALANCE_LOOP)
    assert found.sentence.startswith("app at 10.0.0.2 lost its session 3 times within ")


@pytest.mark.parametrize(("is_back", "kinds"), [(False, []), (True, [Kind.REBALANCE_LOOP])])
def test_two_processes_of_one_host_that_do_not_poll_are_no_loop_unless_one_came_back(
    is_back: bool, kinds: list[Kind]
) -> None:
    def note(number: int, cause: str, member_id: str, detail: str = "") -> ListedNote:
        origin = Origin("app", "/10.0.0.2", 40_000 + number)
        return ListedNote(number, number, cause, member_id, number * 1_000, detail, origin=origin)

    late = "1 left: consumer poll timeout has expired."
    back = [note(3, "member joined", "app-2")] if is_back else []
    notes = note(1, "member joined", "app-1"), note(2, "member left", "app-1", late), *back
    notes = *notes, note(4, "member left", "app-2", late)
    group = DescribedGroup("g", group_state="Stable", protocol_type="consumer")
    assert [one.kind for one in loops(Evidence(group, 60_000, notes))] == kinds


async def test_a_refused_assignor_is_named_with_what_the_group_has() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.member("g", "odd", "10.0.0.9", assignor="sticky")
    rig.run(1_000)

    found = only(await rig.problems(), Kind.JOIN_REFUSED)

    assert (found.client_id, found.client_host) == ("odd", "10.0.0.9")
    assert "it offers sticky as type consumer; all members of the group have range in common" in found.sentence


async def test_a_second_process_with_the_instance_id_of_a_server_driven_member_is_named_and_both_are() -> None:
    rig, joining = driven()
    rig.ask(0, joining("first"))
    rig.wake_until_idle()
    rig.ask(1, joining("second"))

    (found,) = await rig.problems()

    assert (found.kind, found.client_id, found.client_port) == (Kind.INSTANCE_FOUGHT_OVER, "app-1", 40_001)
    assert found.sentence == (
        "app-1 at 10.0.0.2:40001 may not join (UNRELEASED_INSTANCE_ID): its instance id is that of "
        "app-0 at 10.0.0.1:40000 (instance box), which is alive"
    )


async def test_a_server_driven_member_that_died_keeps_its_instance_id_for_its_session() -> None:
    rig, joining = driven()
    rig.ask(0, joining("first"))
    rig.wake_until_idle()
    rig.step(Lost(0))
    rig.ask(1, joining("second"))

    found = only(await rig.problems(), Kind.JOIN_REFUSED)

    assert "whose session is not over: connection closed" in found.sentence
    assert found.command == "muster groups evict g --member first"
    rig.run(SESSION_MS)
    assert Kind.JOIN_REFUSED not in [one.kind for one in await rig.problems()], "the id is free"


@pytest.mark.parametrize(
    ("wrong", "code", "why"),
    [
        ({"server_assignor": "best"}, "UNSUPPORTED_ASSIGNOR", "'best' is unknown; there are uniform, range"),
        ({"subscribed_topic_regex": "("}, "INVALID_REGULAR_EXPRESSION", "is not valid"),
    ],
)
async def test_a_refused_heartbeat_that_joins_is_named(wrong: dict[str, str], code: str, why: str) -> None:
    rig, joining = driven()
    rig.ask(0, joining("first"))
    rig.wake_until_idle()
    rig.ask(1, replace(joining("second"), instance_id=None, **wrong))

    found = only(await rig.problems(), Kind.JOIN_REFUSED)

    assert (found.client_id, found.client_host, found.client_port) == ("app-1", "10.0.0.2", 40_001)
    assert f"may not join ({code})" in found.sentence
    assert why in found.sentence


async def test_a_session_out_of_range_is_named_though_there_is_no_group() -> None:
    rig = DiagnosisRig()
    rig.member("fresh", "odd", "10.0.0.9", session_ms=10)
    rig.run(1_000)

    found = only(await rig.problems(), Kind.JOIN_REFUSED)

    assert (found.group_id, found.client_id) == ("fresh", "odd")
    assert "10 ms is not within 6000 and 1800000 ms" in found.sentence


async def test_a_reader_that_stopped_is_told_from_one_with_nothing_to_read() -> None:
    rig = DiagnosisRig(partitions=3)
    three(rig)
    for number, member in enumerate(list(rig.members)):
        rig.produce(number)
        member.commit(1, number)
    rig.run(600_000, step_ms=3_000)
    assert await rig.problems() == [], "nothing to read: idle partitions are no problem"

    rig.produce(1)
    assert await rig.problems() == [], "the record has just come"
    rig.run(303_000, step_ms=3_000)

    found = only(await rig.problems(), Kind.CONSUMPTION_STOPPED)
    assert (found.client_id, found.partitions, found.records) == ("app-1", 1, 1)
    assert "does not read orders-1" in found.sentence
    assert found.sentence.endswith("unread: 1 record, the first for more than 5 min")


async def test_a_reader_that_commits_the_same_offset_again_and_again_is_stalled() -> None:
    rig = DiagnosisRig(partitions=3)
    three(rig)
    for _ in range(4):
        rig.produce(0)
    for offset in (1, 2, 2):
        rig.members[0].commit(offset, 0)
        rig.run(240_000, step_ms=3_000)

    found = only(await rig.problems(), Kind.CONSUMPTION_STALLED)
    assert (found.client_id, found.partitions, found.records) == ("app-0", 1, 2)
    assert "commits for orders-0 and does not get on" in found.sentence

    rig.members[0].commit(3, 0)
    assert await rig.problems() == [], "it gets on again, with records that wait"


async def test_more_members_than_partitions_are_told_after_a_while() -> None:
    rig = DiagnosisRig(partitions=2)
    three(rig)
    assert await rig.problems() == []
    rig.run(601_000, step_ms=3_000)

    found = only(await rig.problems(), Kind.IDLE_MEMBERS)
    assert found.client_id == "app-2"


async def test_partitions_that_the_leader_left_out_are_told() -> None:
    rig = DiagnosisRig(partitions=4)
    rig.partitions = 2  # its leaders know of no more
    three(rig)
    assert await rig.problems() == []
    rig.run(60_000)

    found = only(await rig.problems(), Kind.UNOWNED_PARTITIONS)
    assert found.partitions == 2
    assert found.sentence == "no member has orders-2, orders-3, though members subscribe to it"


async def test_a_problem_ends_with_its_cause() -> None:
    rig = DiagnosisRig()
    three(rig)
    rig.members[1].kill()
    rig.run(2_000)
    assert await rig.problems()
    rig.run(60_000)
    assert await rig.problems() == [], "its session is over, and the others have its partitions"


async def test_a_day_of_rolling_restarts_raises_nothing() -> None:
    """Each hour one fleet after the other is restarted, a member at a time: half of the groups have static members, and
    all members take their time to finish their records before they join again."""
    for group in some(range(9)):
        rig = DiagnosisRig()
        static = group % 2 == 0
        names = [f"app-{number}" for number in range(3)]
        for number, name in enumerate(names):
            rig.member("g", name, HOSTS[number], instance_id=f"i{number}" if static else None, slow_ms=700 * group)
        rig.run(8_000)
        for _hour in range(3):
            for number, name in enumerate(names):
                old = next(member for member in rig.members if member.name == name)
                old.close()
                rig.run(4_000 + 1_000 * group)
                assert await rig.problems() == [], (group, name, "while it is down")
                instance = f"i{number}" if static else None
                rig.member("g", name, HOSTS[number], instance_id=instance, slow_ms=700 * group)
                for _ in range(5):
                    rig.run(2_000)
                    assert await rig.problems() == [], (group, name, "while it is back")
            rig.run(1_200_000, step_ms=3_000)
            assert await rig.problems() == []

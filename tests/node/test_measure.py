"""Counts by group, and durations of requests, as a node keeps them."""

from coordinator.groups.tallies import MOST_GROUPS, GroupTallies
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup
from protocol.messages.node import GroupTally, Measure, MeasureReply
from protocol.messages.offsets import OffsetCommit
from tests.node.consumer_rig import Rig
from tests.node.operated import DiagnosisRig
from tests.node.test_audit import STRANGER, commit


def measured(rig: DiagnosisRig, limit: int = 10) -> MeasureReply:
    rig.ask_inside(Measure(limit), call=7)
    rig.wait(0)
    reply = rig.replied.pop(7)
    assert isinstance(reply, MeasureReply)
    return reply


def test_what_happens_to_a_group_is_counted() -> None:
    rig = DiagnosisRig()
    rig.member("g", "app-0", "10.0.0.1")
    rig.run(4_000)
    rig.member("g", "app-1", "10.0.0.2", instance_id="box", slow_ms=2_000)
    rig.run(10_000)
    rig.member("g", "app-2", "10.0.0.3", instance_id="box")
    rig.member("g", "odd", "10.0.0.9", assignor="sticky")
    rig.run(6_000)
    rig.connect(STRANGER)
    topics = commit({0: 1}).topics
    (reply,) = rig.ask(STRANGER, OffsetCommit("g", topics, 1, "nobody"))
    assert reply.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[attr-defined]

    (tally,) = measured(rig).groups

    assert isinstance(tally, GroupTally)
    assert (tally.group_id, tally.rebalances, tally.takeovers, tally.fenced_commits) == ("g", 2, 1, 1)
    assert tally.refusals >= 2, "a wrong assignor, and heartbeats of the member that was replaced"
    assert 1_000 <= tally.phase_ms["PreparingRebalance"] <= 6_000
    assert tally.phase_ms["Stable"] >= 1_000


def test_a_state_of_unknown_age_counts_as_no_time() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c")
    rig.beat("A", -1)
    assert "group downgraded" in rig.causes
    rig.node_rig.wait(1_000)
    rig.classic_join("c")
    tally = rig.node_rig.node.core.journal.tallies.of("g")
    assert max(tally.phase_ms) <= 1_000


def test_requests_are_timed_until_they_are_answered() -> None:
    rig = DiagnosisRig()
    rig.member("g", "app-0", "10.0.0.1", slow_ms=6_000)
    rig.run(4_000)
    rig.member("g", "app-1", "10.0.0.2")
    rig.run(12_000)

    times = {one.api: one for one in measured(rig).durations if one.what == "request"}

    joins = times[JoinGroup.__name__]
    assert sum(joins.counts) == 3
    assert joins.sum_ms >= 6_000, "the second member waited for the first"
    assert sum(times["SyncGroup"].counts) == 3
    assert "Heartbeat" not in times


def test_groups_with_the_most_rebalances_are_told_first() -> None:
    rig = DiagnosisRig()
    for group in ("quiet", "busy"):
        rig.member(group, group, "10.0.0.1")
    rig.run(4_000)
    rig.member("busy", "second", "10.0.0.2")
    rig.run(6_000)
    assert [one.group_id for one in measured(rig, limit=1).groups] == ["busy"]


def test_the_number_of_groups_counted_is_bounded() -> None:
    tallies = GroupTallies()
    for number in range(MOST_GROUPS + 2):
        tallies.of(str(number)).rebalances += 1
    assert len(tallies.groups) == MOST_GROUPS
    assert "1" not in tallies.groups

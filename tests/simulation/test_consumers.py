"""Worlds of server-driven consumer groups. Repeat one with `python -m tests.simulation.consumer_world --seeds 1
--first N`."""

from collections import Counter

import pytest

from tests.enumerations import share_of, worlds_of
from tests.simulation.consumer_world import ConsumerWorld

SEEDS, SHARES = worlds_of(48), share_of(3)
ALL_NATIVE = 0.0
"""The share of Kafka's dialect in worlds that were found when every server-driven member was a native one."""
MARKS = (
    *("consumer: assignments", "consumers killed", "consumer: commit NONE"),
    *("consumer: heartbeat UNRELEASED_INSTANCE_ID", "pushes: AssignmentChanged"),
    "consumer sessions that were over by the member's clock",
    *("consumer: revocations that took time", "consumer: another epoch FENCED_MEMBER_EPOCH"),
    *("power failures", "daemons killed", "stops"),
    *("consumer: assignments in the native dialect", "consumer: assignments in the kafka dialect"),
    *("looks at groups of both dialects and protocols", "members that changed their dialect"),
    *("kafka members upgraded", "kafka members downgraded"),
    *("classic: assignments", "fleets that changed their protocol", "groups that ended as classic ones"),
    *("notes: group upgraded", "notes: group downgraded", "classic: Heartbeat REBALANCE_IN_PROGRESS"),
    *("notes: session expired", "notes: static member replaced", "notes: regular expression resolved"),
)
"""Marks that a share of the worlds must have reached."""


@pytest.mark.parametrize("share", range(SHARES))
def test_no_partition_has_two_owners_and_every_member_converges_when_faults_have_stopped(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(ConsumerWorld(seed).run().counts)
    assert [mark for mark in MARKS if not total[mark]] == []


def test_no_lease_outlives_the_session_where_a_sync_group_comes_late() -> None:
    """In this world a SyncGroup reaches a group that is Stable by then, which begins no session, and the member falls
    silent after it."""
    assert ConsumerWorld(200_119, kafka=ALL_NATIVE).run().counts["classic: assignments"]


@pytest.mark.parametrize("seed", [80_681, 80_693], ids=["told in a lost reply", "upgraded in a rebalance"])
def test_members_revoke_what_they_must_and_own_all_there_is(seed: int) -> None:
    assert ConsumerWorld(seed, kafka=ALL_NATIVE).run().counts["consumer: assignments"]


def test_a_classic_member_outlives_a_join_group_that_comes_after_its_sync_group() -> None:
    assert ConsumerWorld(74_511, kafka=ALL_NATIVE).run().counts["classic: Heartbeat NONE"]


@pytest.mark.parametrize("seed", [73_627, 74_217])
def test_a_rebalance_is_counted_once_while_members_wait_for_their_first_target(seed: int) -> None:
    """In these worlds the members that were there before a batch have no assignment yet."""
    assert ConsumerWorld(seed, kafka=ALL_NATIVE).run().counts["notes: member joined"]


def test_a_holder_that_another_process_replaces_may_read_until_it_is_told() -> None:
    """In this world a join of a process that is gone comes late, and the coordinator gives it the place of the classic
    member that has the instance by then, as Kafka does."""
    assert ConsumerWorld(404_776).run().counts["holders replaced by another process"]


def test_one_seed_is_one_trace() -> None:
    worlds = [ConsumerWorld(seed) for seed in (3, 3, 4)]
    for world in worlds:
        world.run()
    traces = [world.trace() for world in worlds]
    assert traces[0] == traces[1] != traces[2]

"""Notes on a new target: how many partitions move, and how many stay with their member."""

from typing import Any

import pytest

from coordinator.groups.consumer import target
from coordinator.groups.consumer.state import size_of
from coordinator.records.consumer_records import TargetRecord
from tests.groups.consumer.rig import Rig


@pytest.fixture(params=["at once", "in slices"])
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A group whose targets are computed within the heartbeat, or in slices."""
    if request.param == "in slices":
        monkeypatch.setattr(target, "AT_ONCE_US", 0)
    return Rig()


def moves(rig: Rig) -> list[tuple[int, int]]:
    """Return for each target the partitions that moved, and those that did not."""
    return [(one.moved_partitions, one.kept_partitions) for one in rig.notes if one.kind == "target"]


def beat(rig: Rig, member_id: str, **fields: Any) -> None:
    rig.heartbeat(member_id, rig.group.members[member_id].current.epoch, **fields)


def test_partitions_that_a_new_member_takes_over_move(rig: Rig) -> None:
    rig.join("A", "T")
    rig.join("B", "T")
    assert moves(rig) == [(-1, -1), (2, 2)], "nobody had any before the first target"
    assert rig.notes[-1].detail == "epoch 3 by uniform: another target for 2 of 2 members, 2 of 4 partitions move"
    rig.join("C", "U")
    assert moves(rig)[2:] == [(0, 4)], "nobody had those of the other topic"


def test_partitions_of_members_that_left_move(rig: Rig) -> None:
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("B", -1)
    beat(rig, "A")
    assert moves(rig)[2:] == [(2, 2)]


def test_partitions_of_a_topic_that_nobody_reads_any_more_move_to_nobody(rig: Rig) -> None:
    rig.join("A", "T", "U")
    beat(rig, "A", subscribed_topic_names=("T",))
    assert moves(rig)[1:] == [(3, 4)]


def test_a_static_member_that_comes_back_keeps_its_partitions(rig: Rig) -> None:
    rig.join("A", "T", instance_id="i")
    rig.join("B", "T")
    rig.heartbeat("A", -2, instance_id="i")
    rig.join("A2", "T", "U", instance_id="i")
    beat(rig, "B")
    assert sum(moves(rig)[2]) == 4
    assert moves(rig)[2][1] >= 2, "its two stay, and it is given what nobody had"


def test_a_group_that_was_empty_has_no_partition_to_move(rig: Rig) -> None:
    rig.join("A", "T")
    rig.heartbeat("A", -1)
    rig.join("B", "T")
    assert moves(rig) == [(-1, -1), (-1, -1)]


def test_a_group_that_was_loaded_knows_what_its_members_had(rig: Rig) -> None:
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("B", -1)
    rig.restart()
    beat(rig, "A")
    assert moves(rig)[2:] == [(2, 2)]


def test_a_log_may_have_the_record_of_all_targets_before_those_of_members(rig: Rig) -> None:
    rig.join("A", "T")
    rig.join("B", "T")
    records = [record for batch in rig.batches for record in batch]
    rig.batches = [sorted(records, key=lambda record: not isinstance(record, TargetRecord))]
    rig.restart()
    rig.join("C", "U")
    assert moves(rig)[2:] == [(0, 4)]


def test_members_that_leave_while_it_is_computed_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "AT_ONCE_US", 0)
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.holds_work = True
    rig.join("C", "T")
    rig.work_on()
    rig.heartbeat("B", -1)
    while rig.work:
        rig.work_on()
    moved, kept = moves(rig)[2]
    assert moved + kept == 4
    assert kept == size_of(rig.group.targets["A"])


def test_a_computation_that_a_crash_ended_has_moved_what_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "AT_ONCE_US", 0)
    rig = Rig()
    rig.join("A", "T")
    rig.holds_work = True
    rig.join("B", "T")
    written = len(rig.batches)
    while len(rig.batches) < written + 2:  # the losses, and the gains
        rig.work_on()
    rig.restart()
    rig.holds_work = False
    beat(rig, "A")
    assert moves(rig)[1:] == [(0, 4)]

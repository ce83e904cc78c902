"""Offsets (docs/spec/consumer-group-protocol.md#19.8). Each test names its scenarios."""

from typing import Any

import pytest

from coordinator.groups.consumer.offsets import refuse_commit, refuse_fetch, refuse_transactional_commit
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetchGroup,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from tests.groups.consumer.rig import Rig

STALE, UNKNOWN, UNSUPPORTED, ILLEGAL = 113, 25, 35, 22


def commit(rig: Rig, member_id: str, epoch: int, *partitions: int, **fields: Any) -> int:
    topic = OffsetCommitTopic("T", tuple(OffsetCommitPartition(number, 7) for number in partitions or (0,)))
    return int(refuse_commit(rig.group, OffsetCommit("g", (topic,), epoch, member_id, **fields)))


def settled() -> Rig:
    """A has T0,1 since epoch 2, and is at epoch 3; B has T2,3 since epoch 3."""
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("A", 2, "T0,1")
    rig.heartbeat("B", 3)
    return rig


def test_scenario_57_a_successor_commits_with_any_epoch() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    rig.heartbeat("A", -2, instance_id="i")
    rig.join("A2", "T", instance_id="i")
    assert [commit(rig, "A2", epoch) for epoch in (0, 1, 2)] == [0, 0, 0]
    assert commit(rig, "A2", 3) == STALE


def test_scenario_58_member_epochs_of_a_commit() -> None:
    rig = settled()
    assert commit(rig, "A", 3, 2) == 0, "at the member's epoch any partition may be committed"
    assert [commit(rig, "A", epoch) for epoch in (4, -1, -2)] == [STALE] * 3
    assert commit(rig, "A", 2, 0, 1) == 0
    assert commit(rig, "A", 2, 0, 2) == STALE
    assert commit(rig, "B", 2, 2) == STALE


def test_partitions_that_are_refused_by_themselves_do_not_make_an_older_epoch_stale() -> None:
    rig = settled()
    topic = OffsetCommitTopic("T", (OffsetCommitPartition(0, 7), OffsetCommitPartition(2, 7, 0, "too long")))

    def told(epoch: int) -> int:
        request = OffsetCommit("g", (topic,), epoch, "A")
        return int(refuse_commit(rig.group, request, lambda part: not part.committed_metadata))

    assert [told(epoch) for epoch in (1, 2, 3, 4)] == [STALE, 0, 0, STALE]


def test_scenario_59_a_partition_to_be_revoked_is_committed_with_its_epoch() -> None:
    rig = settled()
    rig.join("C", "T")
    rig.join("D", "T")
    for member_id in ("A", "B"):
        rig.heartbeat(member_id, 3)
    revoking = [one for one in rig.group.members.values() if one.current.pending]
    assert revoking
    for member in revoking:
        ((number, since),) = next(iter(member.current.pending.values())).items()
        assert [commit(rig, member.member_id, epoch, number) for epoch in (since - 1, since, 3)] == [STALE, 0, 0]
    assert any(one.current.epoch > epoch for one in revoking for _, _, epoch in one.current.held)


def test_scenario_60_old_versions_know_no_member_epochs() -> None:
    rig = settled()
    assert commit(rig, "A", 9, knows_member_epochs=False) == UNSUPPORTED
    assert commit(rig, "Z", 9, knows_member_epochs=False) == UNKNOWN


def test_scenario_61_commits_without_a_member() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert commit(rig, "", -1) == UNKNOWN
    rig.heartbeat("A", -1)
    assert commit(rig, "anybody", -1) == 0
    assert commit(rig, "A", 3) == UNKNOWN


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [(None, -1, 0), ("A", 3, 0), ("A", 2, STALE), ("zz", 3, UNKNOWN), ("", -1, UNKNOWN), (None, 3, UNKNOWN)],
)
def test_scenario_62_fetches(member_id: str | None, epoch: int, error: int) -> None:
    wanted = OffsetFetchGroup("g", member_id=member_id, member_epoch=epoch)
    assert refuse_fetch(settled().group, wanted) == error


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"), [("A", 3, 0), ("A", 1, ILLEGAL), ("zz", 3, UNKNOWN), ("", -1, 0), ("A", 2, 0)]
)
def test_scenario_63_transactions(member_id: str, epoch: int, error: int) -> None:
    topic = TxnOffsetCommitTopic("T", (TxnOffsetCommitPartition(0, 7),))
    request = TxnOffsetCommit("x", "g", 1, 0, (topic,), epoch, member_id)
    assert refuse_transactional_commit(settled().group, request) == error

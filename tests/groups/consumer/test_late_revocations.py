"""Notes on members that revoke partitions late."""

from typing import Any

import pytest

from coordinator.groups.consumer.events import ConsumerAppendFailed, RevocationOverdue
from coordinator.records.records import Note
from coordinator.runtime.journal import Journal
from diagnosis.rebalances import noted_rebalances, sentence
from protocol.errors import ErrorCode
from protocol.messages.groups import ListNotes, SlowestMember
from tests.groups.consumer.rig import Rig


def two(**settings: Any) -> Rig:
    """A has T0-3, and has been told to revoke T2,3 for B."""
    rig = Rig(**settings)
    rig.join("A", "T")
    rig.join("B", "T")
    assert rig.seen("A", 2) == (0, 2, "T0,1")
    return rig


def late(rig: Rig) -> list[Note]:
    return [one for one in rig.notes if one.kind == "revoked"]


def test_a_member_that_revokes_late_is_noted_with_the_time() -> None:
    rig = two()
    rig.wait(7_000)
    rig.heartbeat("A", 2)
    assert not late(rig), "it has not revoked yet"
    rig.wait(5_400)
    rig.heartbeat("A", 2, "T0,1")
    (note,) = late(rig)
    assert (note.cause, note.initiator, note.generation_id) == ("member revoked late", "A", 3)
    assert note.detail == "2 partitions (T-2, T-3) revoked after 12400 ms: client at 10.0.0.1"
    assert note.slowest == SlowestMember("A", "client", "/10.0.0.1", 12_400)
    rig.heartbeat("A", 3)
    assert len(late(rig)) == 1


@pytest.mark.parametrize("interval_ms", [3_000, 5_000])
def test_a_member_that_revokes_by_its_next_heartbeat_is_not_late(interval_ms: int) -> None:
    rig = two(heartbeat_interval_ms=interval_ms)
    rig.wait(interval_ms)
    rig.heartbeat("A", 2, "T0,1")
    assert not late(rig)
    rig = two(heartbeat_interval_ms=interval_ms)
    rig.wait(interval_ms + 1)
    rig.heartbeat("A", 2, "T0,1")
    assert len(late(rig)) == 1


def test_each_revocation_has_its_own_time() -> None:
    rig = two()
    rig.wait(6_000)
    rig.join("C", "T")
    rig.join("D", "T")
    assert rig.seen("A", 2, "T0,1") == (0, 2, "T0"), "its next target has one partition less again"
    rig.wait(8_000)
    rig.heartbeat("A", 2, "T0")
    assert [one.slowest.waited_ms for one in late(rig) if one.slowest] == [6_000, 8_000]


def test_the_time_begins_anew_at_a_restart() -> None:
    rig = two()
    rig.wait(6_000)
    rig.restart()
    rig.wait(6_500)
    rig.heartbeat("A", 2, "T0,1")
    assert [one.slowest.waited_ms for one in late(rig) if one.slowest] == [6_500]


def test_a_member_that_leaves_or_is_removed_has_revoked_nothing() -> None:
    rig = two()
    rig.wait(8_000)
    rig.heartbeat("A", -1)
    assert not late(rig)
    rig = two()
    for _ in range(8):
        rig.wait(9_000)
        if "A" in rig.group.members:
            rig.heartbeat("A", 2)
        rig.heartbeat("B", rig.group.members["B"].current.epoch)
    assert [one.cause for one in rig.notes].count("member did not revoke in time") == 1
    assert not late(rig)


def test_a_timer_that_is_started_again_does_not_hide_the_time() -> None:
    rig = two()
    rig.wait(6_000)
    rig.happen(ConsumerAppendFailed(RevocationOverdue("g", "A", 2), ErrorCode.NOT_COORDINATOR))
    rig.wait(100)
    rig.heartbeat("A", 2, "T0,1")
    assert [one.slowest.waited_ms for one in late(rig) if one.slowest] == [6_100]


def test_a_late_revocation_belongs_to_the_target_that_it_was_told_for() -> None:
    rig = two()
    rig.wait(9_000)
    rig.join("C", "U")
    rig.heartbeat("A", 2, "T0,1")
    (note,) = late(rig)
    assert (note.generation_id, rig.group.epoch) == (3, 4)


def test_notes_of_one_target_fold_into_one_of_the_last_member() -> None:
    rig = Rig({"T": 48}, assignment_interval_ms=5_000)
    for number in range(12):
        rig.join(f"M{number:02}", "T", server_assignor="range")
    for _ in range(3):
        take_steps(rig)
        rig.wait(5_001)
    rig.join("A-first", "T", server_assignor="range")
    rig.wait(5_001)
    for member in rig.group.members.values():
        rig.heartbeat(member.member_id, member.current.epoch)
    rig.wait(6_000)
    take_steps(rig)
    assert len(late(rig)) == 12, "each had to revoke some"
    journal = Journal(20)
    for one in rig.notes:
        journal.add(one)
    last = noted_rebalances(journal.list(ListNotes("g", limit=20)).notes)[-1]
    assert [(one.times, one.initiator) for one in last.late] == [(12, "M11")]
    assert "; 12 revocations were late, the last: " in sentence(last)


def take_steps(rig: Rig) -> None:
    """Let each member revoke what it must, and take what is free."""
    for _ in range(4):
        for member in list(rig.group.members.values()):
            rig.heartbeat(member.member_id, member.current.epoch, rig.named(member.current.assigned))

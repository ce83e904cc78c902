from dataclasses import dataclass

import pytest

from purgatory.purgatory import DelayedOperation, DelayedOperationPurgatory
from tests.purgatory.operations import Steered


@pytest.fixture
def purgatory() -> DelayedOperationPurgatory[str]:
    return DelayedOperationPurgatory(start_ms=1_000)


def pop_all(purgatory: DelayedOperationPurgatory[str], now_ms: int) -> list[str]:
    events: list[str] = []
    while (popped := purgatory.pop_overdue(now_ms)) is not None:
        events += popped
    return events


def test_an_operation_satisfied_at_once_completes_and_is_never_watched(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    op = Steered("join", 5_000, holds=True)
    assert purgatory.try_complete_else_watch(op, notified_by=["t-0"]) == ["join completed"]
    assert "join" not in purgatory
    assert purgatory.check_and_complete("t-0") == []
    assert pop_all(purgatory, 9_000) == []
    assert op.ended == 1


def test_a_watched_operation_completes_at_the_first_check_after_its_condition_holds(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    op = Steered("join", 5_000)
    assert purgatory.try_complete_else_watch(op) == []
    assert purgatory.get("join") is op
    assert purgatory.check_and_complete("join") == []
    op.holds = True
    assert purgatory.check_and_complete("join") == ["join completed"]
    assert purgatory.check_and_complete("join") == []
    assert pop_all(purgatory, 9_000) == []
    assert op.ended == 1
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms is None


def test_an_operation_ended_by_its_deadline_completes_and_is_then_overdue(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    op = Steered("sync", 5_000)
    purgatory.try_complete_else_watch(op)
    assert purgatory.pop_overdue(4_999) is None
    assert purgatory.pop_overdue(5_000) == ["sync completed", "sync overdue"]
    op.holds = True
    assert purgatory.check_and_complete("sync") == []
    assert purgatory.pop_overdue(9_000) is None
    assert op.ended == 1


def test_an_operation_satisfied_at_its_deadline_is_not_overdue(purgatory: DelayedOperationPurgatory[str]) -> None:
    op = Steered("session", 5_000)
    purgatory.try_complete_else_watch(op)
    op.holds = True
    assert purgatory.pop_overdue(5_000) == ["session completed"]


def test_an_operation_that_turns_into_nothing_is_an_empty_list_and_not_the_end(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    silent, other = Steered("silent", 5_000), Steered("other", 5_000)
    silent.turns_into = silent.turns_into_overdue = None
    purgatory.try_complete_else_watch(silent)
    purgatory.try_complete_else_watch(other)
    assert purgatory.pop_overdue(5_000) == []
    assert purgatory.pop_overdue(5_000) == ["other completed", "other overdue"]
    assert purgatory.pop_overdue(5_000) is None


def test_what_the_first_overdue_operation_does_may_cancel_the_second(purgatory: DelayedOperationPurgatory[str]) -> None:
    purgatory.try_complete_else_watch(Steered("a", 5_000))
    second = Steered("b", 5_000)
    purgatory.try_complete_else_watch(second)
    assert purgatory.pop_overdue(6_000) == ["a completed", "a overdue"]
    assert purgatory.cancel("b") is second
    assert purgatory.pop_overdue(6_000) is None
    assert second.ended == 0


def test_cancelling_ends_without_completing(purgatory: DelayedOperationPurgatory[str]) -> None:
    op = Steered("a", 5_000, holds=False)
    purgatory.try_complete_else_watch(op, notified_by=["t-0"])
    assert purgatory.cancel("a") is op
    assert purgatory.cancel("a") is None
    op.holds = True
    assert purgatory.check_and_complete("t-0") == []
    assert pop_all(purgatory, 9_000) == []
    assert op.ended == 0


@pytest.mark.parametrize("holds", [False, True])
def test_a_second_operation_under_a_key_supersedes_the_first(
    purgatory: DelayedOperationPurgatory[str], holds: bool
) -> None:
    old, new = Steered("phase", 5_000, name="old"), Steered("phase", 6_000, name="new", holds=holds)
    purgatory.try_complete_else_watch(old, notified_by=["t-0"])
    assert purgatory.try_complete_else_watch(new) == (["new completed"] if holds else [])
    old.holds = True
    assert purgatory.check_and_complete("t-0") == []
    assert pop_all(purgatory, 9_000) == ([] if holds else ["new completed", "new overdue"])
    assert (old.ended, new.ended) == (0, 1)


def test_overdue_operations_come_by_deadline_and_ties_in_the_order_watched(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    for key, deadline_ms in [("c", 7_000), ("a", 5_000), ("b", 5_000), ("d", 999)]:
        op = Steered(key, deadline_ms)
        op.turns_into_overdue = None
        purgatory.try_complete_else_watch(op)
    assert pop_all(purgatory, 7_000) == ["d completed", "a completed", "b completed", "c completed"]


def test_moving_a_deadline_later_is_all_a_heartbeat_does(purgatory: DelayedOperationPurgatory[str]) -> None:
    session = Steered("m-1", 11_000)
    purgatory.try_complete_else_watch(session)
    for now_ms in range(4_000, 60_000, 3_000):
        session.deadline_ms = now_ms + 10_000
        assert purgatory.pop_overdue(now_ms) is None
    assert purgatory.get("m-1") is session
    assert purgatory.pop_overdue(session.deadline_ms - 1) is None
    assert purgatory.pop_overdue(session.deadline_ms) == ["m-1 completed", "m-1 overdue"]


def test_a_deadline_moved_later_keeps_its_place_among_those_overdue_already(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    moved, between, after = Steered("moved", 5_000), Steered("between", 6_000), Steered("after", 8_000)
    for op in (moved, between, after):
        op.turns_into_overdue = None
        purgatory.try_complete_else_watch(op)
    moved.deadline_ms = 7_000
    assert pop_all(purgatory, 9_000) == ["between completed", "moved completed", "after completed"]


def test_a_deadline_that_moves_nearer_is_met_when_watched_anew(purgatory: DelayedOperationPurgatory[str]) -> None:
    session = Steered("m-1", 301_000)
    purgatory.try_complete_else_watch(session)
    session.deadline_ms = 11_000
    assert purgatory.try_complete_else_watch(session) == []
    assert purgatory.pop_overdue(10_999) is None
    assert purgatory.pop_overdue(11_000) == ["m-1 completed", "m-1 overdue"]
    assert purgatory.pop_overdue(400_000) is None
    assert session.ended == 1


def test_an_operation_may_be_watched_again_after_it_ended(purgatory: DelayedOperationPurgatory[str]) -> None:
    chore = Steered("chore", 2_000)
    purgatory.try_complete_else_watch(chore)
    assert purgatory.pop_overdue(2_000) == ["chore completed", "chore overdue"]
    chore.deadline_ms = 3_000
    purgatory.try_complete_else_watch(chore)
    assert purgatory.pop_overdue(2_999) is None
    assert purgatory.pop_overdue(3_000) == ["chore completed", "chore overdue"]


def test_a_nudge_completes_those_satisfied_in_the_order_watched(purgatory: DelayedOperationPurgatory[str]) -> None:
    fetches = [Steered(("connection", i), 5_000, name=f"fetch {i}") for i in range(4)]
    for fetch in reversed(fetches):
        purgatory.try_complete_else_watch(fetch, notified_by=["t-0", "t-1"])
    fetches[0].holds = fetches[2].holds = True
    assert purgatory.check_and_complete("t-1") == ["fetch 2 completed", "fetch 0 completed"]
    assert purgatory.check_and_complete("t-0") == []
    fetches[1].holds = True
    assert purgatory.check_and_complete("t-0") == ["fetch 1 completed"]
    assert pop_all(purgatory, 5_000) == ["fetch 3 completed", "fetch 3 overdue"]
    assert [fetch.ended for fetch in fetches] == [1, 1, 1, 1]


def test_a_key_that_is_an_operations_own_and_a_nudge_as_well_reaches_both_in_the_order_watched(
    purgatory: DelayedOperationPurgatory[str],
) -> None:
    first, own, last = Steered("first", 5_000), Steered("k", 5_000), Steered("last", 5_000)
    purgatory.try_complete_else_watch(first, notified_by=["k"])
    purgatory.try_complete_else_watch(own)
    purgatory.try_complete_else_watch(last, notified_by=["k", "last", "k"])
    first.holds = own.holds = last.holds = True
    assert purgatory.check_and_complete("k") == ["first completed", "k completed", "last completed"]
    assert len(purgatory) == 0


def test_watching_anew_replaces_the_extra_keys(purgatory: DelayedOperationPurgatory[str]) -> None:
    fetch = Steered("fetch", 5_000)
    purgatory.try_complete_else_watch(fetch, notified_by=["t-0"])
    purgatory.try_complete_else_watch(fetch, notified_by=["t-1"])
    fetch.holds = True
    assert purgatory.check_and_complete("t-0") == []
    assert purgatory.check_and_complete("t-1") == ["fetch completed"]


def test_nothing_is_kept_of_operations_that_ended_in_any_way(purgatory: DelayedOperationPurgatory[str]) -> None:
    for key in ("completed", "cancelled", "overdue", "superseded"):
        purgatory.try_complete_else_watch(Steered(key, 5_000), notified_by=["t-0", "t-1", "completed"])
    completed = purgatory.get("completed")
    assert isinstance(completed, Steered)
    completed.holds = True
    purgatory.check_and_complete("t-0")
    purgatory.cancel("cancelled")
    purgatory.try_complete_else_watch(Steered("superseded", 5_000, holds=True))
    pop_all(purgatory, 5_000)
    assert len(purgatory) == len(purgatory._wheel) == 0
    assert not purgatory._listening
    assert not purgatory._notified_by


def test_an_unknown_key_is_nothing(purgatory: DelayedOperationPurgatory[str]) -> None:
    assert purgatory.check_and_complete("nobody") == []
    assert purgatory.cancel("nobody") is None
    assert purgatory.get("nobody") is None


def test_a_slotted_dataclass_can_wait_and_has_no_dictionary(purgatory: DelayedOperationPurgatory[str]) -> None:
    @dataclass(slots=True)
    class Session(DelayedOperation[str]):
        key: str
        deadline_ms: int

        def is_satisfied(self) -> bool:
            return False

        def completed(self) -> str | None:
            return f"{self.key} over"

    session = Session("m-1", 2_000)
    assert not hasattr(session, "__dict__")
    purgatory.try_complete_else_watch(session)
    assert purgatory.pop_overdue(2_000) == ["m-1 over"]

"""Ends of operations, and the order of callbacks of the membership."""

from functools import partial

import pytest

from membership.events import Assigned, CommitDone, Fatal, LostPartitions, OffsetsDone, OffsetToCommit, Revoked
from muster import CannotConnect, CommitRefused, Fenced, GroupRefused, Refused, RequestTimedOut, TopicPartition, WokenUp
from muster.client.steps import call_application
from muster.core.completions import (
    Completions,
    Done,
    Partitions,
    RebalanceQueue,
    failure,
    found,
    stored,
    to_commit,
    without,
)
from protocol.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def commit_done(operation: int, code: ErrorCode = ErrorCode.NONE) -> CommitDone:
    return CommitDone(operation, code, {A: OffsetToCommit(5)} if code == ErrorCode.NONE else {})


def test_each_operation_is_heard_of_where_it_was_to_be_heard_of() -> None:
    outcomes, heard = Completions(), list[tuple[str, Done]]()
    waited = outcomes.number()
    at_once = outcomes.number_with_receiver(lambda done: heard.append(("at once", done)))
    first, second = (outcomes.number_with_callback(partial(call_application, None)) for _ in range(2))
    for number in (second, waited, at_once):
        outcomes.ended(commit_done(number))
    assert heard == [("at once", commit_done(at_once))]
    assert outcomes.is_done(waited)
    assert outcomes.take(waited) == commit_done(waited)
    assert not outcomes.is_done(waited)
    assert outcomes.has_callbacks
    awaited = [outcomes.awaits_later_ones]
    outcomes.ended(commit_done(first))
    assert [*awaited, outcomes.awaits_later_ones] == [True, False]
    told = []
    while finished := outcomes.next_finished():
        told.append(finished[1].operation)
    assert told == [second, first]


@pytest.mark.parametrize("ends_first", [True, False])
def test_an_operation_that_nobody_waits_for_any_more_leaves_nothing_behind(*, ends_first: bool) -> None:
    outcomes = Completions()
    number = outcomes.number()
    if ends_first:
        outcomes.ended(commit_done(number))
    outcomes.forget(number)
    if not ends_first:
        outcomes.ended(commit_done(number))
    assert not outcomes.is_done(number)


def test_a_wakeup_is_raised_once() -> None:
    outcomes = Completions()
    outcomes.wake()
    outcomes.wake()
    with pytest.raises(WokenUp):
        outcomes.raise_wakeup()
    outcomes.raise_wakeup()
    outcomes.wake()
    outcomes.sleep_through()
    outcomes.raise_wakeup()
    assert not outcomes.is_woken


def test_what_is_revoked_is_told_after_its_last_commit_and_what_follows_after_that() -> None:
    outcomes, prepared = Completions(), list[Partitions]()
    told = RebalanceQueue(outcomes)

    def prepare(partitions: Partitions) -> int | None:
        prepared.append(partitions)
        return number

    number = outcomes.number()
    revoked, assigned = Revoked((A,)), Assigned((B,), 2, (B,))
    told.add(revoked)
    told.add(assigned)
    assert told.next(prepare) is None
    assert told.next(prepare) is None
    assert (told.is_held_up, len(told), prepared) == (True, 2, [(A,)])
    outcomes.ended(commit_done(number))
    assert not told.is_held_up
    assert told.next(prepare) is revoked
    assert told.next(prepare) is assigned
    told.add_again(assigned)
    assert [told.next(prepare), told.next(prepare)] == [assigned, None]
    assert prepared == [(A,)]


def test_what_is_lost_in_a_rebalance_that_still_takes_commits_is_told_after_the_last_one() -> None:
    outcomes = Completions()
    told, number = RebalanceQueue(outcomes), outcomes.number()
    lost = LostPartitions((A,), "closing", still_counts=True)
    told.add(lost)
    assert told.next(lambda _: number) is None
    assert told.is_held_up
    outcomes.ended(commit_done(number, ErrorCode.ILLEGAL_GENERATION))
    assert told.next(lambda _: number) is lost


def test_what_needs_no_commit_is_told_at_once_and_what_is_fatal_raised_once() -> None:
    told = RebalanceQueue(Completions())
    lost = LostPartitions((A,), "the session timed out")
    for one in (Revoked((A,)), Fatal(ErrorCode.INVALID_SESSION_TIMEOUT, "too short"), lost):
        told.add(one)
    told.add(Fatal(ErrorCode.FENCED_INSTANCE_ID, "another came"))
    assert told.next(lambda _: None) == Revoked((A,))
    with pytest.raises(GroupRefused, match="too short") as refused:
        told.next(lambda _: None)
    assert not isinstance(refused.value, Fenced)
    assert told.next(lambda _: None) is lost
    with pytest.raises(Fenced, match="another came"):
        told.next(lambda _: None)
    assert len(told) == 0


def test_a_commit_says_what_was_stored_or_why_not() -> None:
    assert stored(commit_done(1), "late") == {A: 5}
    lost = commit_done(1, ErrorCode.NETWORK_EXCEPTION)
    assert isinstance(failure(lost), RequestTimedOut), "nobody has refused it: it may be stored"
    for nothing in (None, commit_done(1, ErrorCode.REQUEST_TIMED_OUT), lost):
        with pytest.raises(RequestTimedOut, match="late"):
            stored(nothing, "late")
    assert isinstance(failure(commit_done(1, ErrorCode.REBALANCE_IN_PROGRESS)), CommitRefused)
    with pytest.raises(CommitRefused, match="poll, then commit") as refused:
        stored(commit_done(1, ErrorCode.REBALANCE_IN_PROGRESS), "late")
    assert refused.value.error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_offset_fetch_says_what_was_found_or_why_not() -> None:
    assert found(OffsetsDone(1, ErrorCode.NONE, {A: 5, B: None}), "late", None) == {A: 5, B: None}
    for nothing in (None, OffsetsDone(1, ErrorCode.NETWORK_EXCEPTION, {})):
        with pytest.raises(RequestTimedOut, match="late"):
            found(nothing, "late", None)
        with pytest.raises(CannotConnect, match="nobody there"):
            found(nothing, "late", "nobody there")
    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        found(OffsetsDone(1, ErrorCode.GROUP_AUTHORIZATION_FAILED, {}), "late", None)


def test_offsets_are_taken_as_numbers_or_with_a_word_and_never_below_zero() -> None:
    assert to_commit({A: 1, B: OffsetToCommit(2, "b")}) == {A: OffsetToCommit(1), B: OffsetToCommit(2, "b")}
    with pytest.raises(ValueError, match="cannot commit -1 for t-0"):
        to_commit({A: -1})


def test_what_is_gone_is_left_out() -> None:
    assert without((A, B), [B]) == (A,)

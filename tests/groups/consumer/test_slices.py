"""Large groups: targets and regular expressions are computed in slices, and the group changes in between
(docs/spec/consumer-group-protocol.md#3.2)."""

import pytest

from coordinator.groups.consumer import target
from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.events import ComputeTarget, ConsumerAppendFailed, RegexesResolved, TargetsMoved
from coordinator.groups.consumer.subscriptions import SubscriptionCounts
from coordinator.groups.consumer.table import handle
from coordinator.groups.outcome import Outcome
from coordinator.records.codec import encode
from coordinator.records.consumer_records import ConsumerGroupRecord, ConsumerMemberRecord, RegexRecord, TargetRecord
from coordinator.runtime.slices import SLICE_US
from protocol.errors import ErrorCode
from tests.groups.consumer.rig import Rig

LONGEST_STEP_US = 20_000


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A group that counts as large, however small, and whose work the test does."""
    monkeypatch.setattr(target, "AT_ONCE_US", 0)
    rig = Rig()
    rig.holds_work = True
    return rig


def finish(rig: Rig) -> None:
    while rig.work:
        rig.work_on()


def until_moved(rig: Rig) -> None:
    """The work up to its first records."""
    written = len(rig.batches)
    while len(rig.batches) == written:
        rig.work_on()


def steady(rig: Rig) -> Rig:
    """A has T0-3 at epoch 2."""
    rig.join("A", "T")
    finish(rig)
    assert rig.seen("A", 1) == (0, 2, "T0,1,2,3")
    return rig


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_no_piece_of_a_large_group_is_long(assignor: str) -> None:
    members, partitions = 10_000, 20_000
    rig = Rig({"T": partitions, "U": 500})
    for number in range(members):
        names = ("T",) if number % 2 else ("T", "U")
        apply(
            rig.group, ConsumerMemberRecord("g", f"m{number}", subscribed_topic_names=names, server_assignor=assignor)
        )
    apply(rig.group, ConsumerGroupRecord("g", 2, 0))
    out = Outcome(rig.moment, rig.ids)
    handle(rig.group, ComputeTarget("g", "m0"), out)
    (work,) = out.work
    costs, most_records = [], 0
    for piece in work:
        if isinstance(piece, int):
            costs.append(piece)
            continue
        done = Outcome(rig.moment, rig.ids)
        handle(rig.group, piece, done)
        most_records = max(most_records, len(done.records))
        for record in done.records:
            apply(rig.group, record)  # type: ignore[arg-type]
    assert rig.group.target_epoch == 2
    assert sum(map(len, (ns for one in rig.group.targets.values() for ns in one.values()))) == partitions + 500
    assert len(costs) > 20
    assert SLICE_US + max(costs) <= LONGEST_STEP_US, "a slice ends with the piece that fills it"
    assert most_records <= 50
    rig.group.check()


def test_a_group_that_is_computed_at_once_is_small() -> None:
    """The largest group whose target is computed within a heartbeat, by the assignor's own costs."""
    for members, topics, partitions in ((300, 1, 500), (2, 300, 1), (2, 1, 4_000), (100, 10, 100)):
        rig = Rig({f"t{number}": partitions for number in range(topics)})
        names = tuple(f"t{number}" for number in range(topics))
        for number in range(members - 1):
            line = ConsumerMemberRecord("g", f"m{number}", subscribed_topic_names=names[number % 2 :] or names)
            apply(rig.group, line)
        now = SubscriptionCounts(rig.group.names, rig.group.regexes)
        lines = [one.subscription for one in rig.group.members.values()]
        cost = sum(target._computation(rig.group, lines, {}, now, "uniform"))
        if target.is_small(rig.group, now):
            assert cost <= 2 * target.AT_ONCE_US, (members, topics, partitions)


def test_members_keep_the_old_target_while_the_new_one_is_computed(large: Rig) -> None:
    rig = steady(large)
    assert rig.joined("B", "T") == (0, 2, "")
    assert rig.described == "Assigning 3/2"
    assert len(rig.work) == 1
    assert rig.seen("A", 2) == (0, 2, None)
    assert len(rig.work) == 1, "one computation at a time"
    finish(rig)
    assert rig.described == "Reconciling 3/3"
    assert rig.seen("A", 2) == (0, 2, "T0,1")


def test_a_member_that_joins_meanwhile_is_in_the_next_target(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T")
    rig.work_on()
    rig.join("C", "T")
    rig.pushes.clear()
    finish(rig)
    assert rig.described == "Assigning 4/3"
    assert (rig.target("B"), rig.target("C")) == ("T2,3", "")
    assert (1, 4) in rig.pushes, "nobody is asked for the heartbeat that computes it"
    rig.heartbeat("B", 2)
    finish(rig)
    assert rig.described == "Reconciling 4/4"
    assert rig.target("C") != ""


def test_a_member_that_leaves_meanwhile_has_no_target(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T")
    rig.work_on()
    rig.heartbeat("B", -1)
    finish(rig)
    assert rig.described == "Assigning 4/3"
    assert rig.group.targets.keys() == {"A"}
    rig.heartbeat("A", 2)
    finish(rig)
    assert rig.target("A") == "T0,1,2,3"


def test_a_static_member_that_is_replaced_meanwhile_hands_over_its_target(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T", instance_id="i")
    rig.work_on()
    rig.heartbeat("B", -2, instance_id="i")
    rig.join("B2", "T", instance_id="i")
    finish(rig)
    assert rig.described == "Reconciling 3/3"
    assert (rig.target("A"), rig.target("B2")) == ("T0,1", "T2,3")


@pytest.mark.parametrize("is_replaced", [False, True], ids=["its own", "taken over"])
@pytest.mark.parametrize("is_begun", [False, True], ids=["computed", "losses written"])
def test_a_member_that_changes_its_instance_meanwhile_keeps_its_target_for_itself(
    large: Rig, is_begun: bool, is_replaced: bool
) -> None:
    """`Rig.check` finds a partition in two targets: B's would be given to D, who has its instance now."""
    rig = steady(large)
    rig.join("B", "T", instance_id="i")
    finish(rig)
    rig.join("C", "T")
    until_moved(rig) if is_begun else rig.work_on()
    holder = "B"
    if is_replaced:
        rig.heartbeat("B", -2, instance_id="i")
        holder = "B2"
        rig.join(holder, "T", instance_id="i")
    rig.join(holder, "T", instance_id="j")
    rig.join("D", "T", instance_id="i")
    finish(rig)
    rig.heartbeat("A", 2)
    finish(rig)
    assert rig.described == "Reconciling 5/5"
    assert sorted(map(rig.target, ("A", holder, "C", "D"))) == ["T0", "T1", "T2", "T3"]


def test_the_computation_that_a_change_of_instance_ended_is_begun_again_by_a_heartbeat(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T")
    rig.work_on()
    rig.join("B", "T", instance_id="i")
    finish(rig)
    assert (rig.described, rig.target("B")) == ("Assigning 3/2", "")
    rig.heartbeat("A", 2)
    finish(rig)
    assert (rig.described, rig.target("B")) == ("Reconciling 3/3", "T2,3")


def test_targets_are_disjoint_after_a_crash_between_two_parts(large: Rig) -> None:
    """Losses are written first: `Rig.check` finds a partition in two targets after any record."""
    rig = steady(large)
    rig.join("B", "T")
    until_moved(rig)
    assert (rig.target("A"), rig.target("B")) == ("T0,1", "")
    rig.restart()
    assert rig.described == "Assigning 3/2"
    rig.heartbeat("A", 2)
    finish(rig)
    assert rig.described == "Reconciling 3/3"
    assert {rig.target("A"), rig.target("B")} == {"T0,1", "T2,3"}


def test_a_part_that_cannot_be_written_ends_the_computation(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T")
    work = rig.work.popleft()
    part = next(piece for piece in work if not isinstance(piece, int))
    assert isinstance(part, TargetsMoved)
    rig.happen(ConsumerAppendFailed(part, ErrorCode.NOT_COORDINATOR))
    assert all(isinstance(piece, int) for piece in work), "nothing more is written"
    rig.heartbeat("A", 2)
    finish(rig)
    assert rig.described == "Reconciling 3/3"


def test_members_are_told_when_all_targets_are_written(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", "T")
    finish(rig)
    rig.pushes.clear()
    rig.join("C", "T")
    while not any(isinstance(one, TargetRecord) and one.epoch == 4 for batch in rig.batches for one in batch):
        rig.work_on()
        assert rig.pushes == []
    finish(rig)
    assert (1, 4) in rig.pushes


def test_a_pattern_that_comes_while_others_are_matched_is_matched_later() -> None:
    rig = Rig()
    rig.holds_work = True
    rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="T.*")
    rig.work_on()
    rig.join("B", subscribed_topic_names=None, subscribed_topic_regex="U.*")
    assert len(rig.work) == 1, "one resolution at a time"
    finish(rig)
    assert set(rig.group.resolved) == {"T.*"}
    rig.wait(10_001)
    rig.heartbeat("B", rig.group.members["B"].current.epoch)
    finish(rig)
    assert set(rig.group.resolved) == {"T.*", "U.*"}


def test_a_pattern_that_goes_while_it_is_matched_is_not_written() -> None:
    rig = Rig()
    rig.holds_work = True
    rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="T.*")
    rig.join("B", "T")
    rig.heartbeat("A", -1)
    finish(rig)
    assert rig.group.resolved == {}


def test_a_pattern_that_is_dropped_while_a_target_is_computed_with_it(large: Rig) -> None:
    rig = steady(large)
    rig.join("B", subscribed_topic_names=None, subscribed_topic_regex="T")
    finish(rig)
    rig.wait(10_001)
    rig.heartbeat("A", 2)
    rig.work_on()
    assert rig.target("B") == "", "the computation has only begun"
    rig.heartbeat("B", 2, "", subscribed_topic_regex="nothing", rebalance_timeout_ms=60_000)
    rig.work.rotate()
    while len(rig.work) > 1:
        rig.work_on()
    assert "nothing" in rig.group.resolved
    finish(rig)
    rig.heartbeat("A", 2)
    finish(rig)
    assert (rig.target("A"), rig.target("B")) == ("T0,1,2,3", "")


def many_patterns() -> Rig:
    """Members m0 to m9, each with its own pattern that matches 20 topics; their results do not fit in one batch."""
    rig = Rig({f"topic-{number}": 1 for number in range(20)}, max_batch_bytes=2_000)
    rig.holds_work = True
    for number in range(10):
        rig.join(f"m{number}", subscribed_topic_names=None, subscribed_topic_regex=f"topic.*|{number}")
    return rig


def settle(rig: Rig) -> None:
    """Each member sends heartbeats until it has what it is assigned."""
    for _ in range(4):
        for member_id, member in rig.group.members.items():
            rig.heartbeat(member_id, member.current.epoch)
            finish(rig)


def owned(rig: Rig) -> int:
    return sum(len(list(member.current.held)) for member in rig.group.members.values())


def test_results_of_many_patterns_are_written_in_parts() -> None:
    rig = many_patterns()
    written = len(rig.batches)
    finish(rig)
    parts = rig.batches[written:]
    sizes = [sum(len(key) + len(value or b"") for key, value in map(encode, part)) for part in parts]
    assert len(parts) > 1
    assert max(sizes) <= 1_000, "half a batch"
    assert len(rig.group.resolved) == 10
    rig.wait(1)
    settle(rig)
    assert rig.described.startswith("Stable")
    assert owned(rig) == 20
    epoch = rig.group.epoch
    rig.topics.create("unread", 1)
    rig.wait(10_001)
    settle(rig)
    assert rig.group.epoch == epoch, "the digest is that of all topics"


def test_a_crash_between_two_parts_of_a_result_leaves_no_partition_without_an_owner() -> None:
    rig = many_patterns()
    until_moved(rig)
    assert 0 < len(rig.group.resolved) < 10
    rig.restart()
    settle(rig)
    assert len(rig.group.resolved) < 10, "ten seconds must pass"
    rig.wait(10_001)
    settle(rig)
    assert len(rig.group.resolved) == 10
    assert owned(rig) == 20


def test_a_crash_between_two_parts_of_a_result_moves_the_epoch() -> None:
    """The part gives m0 topics that others have: no digest of theirs tells it after the crash."""
    rig = Rig({f"topic-{number}": 1 for number in range(20)}, max_batch_bytes=2_000)
    rig.join("other", *(f"topic-{number}" for number in range(20)))
    rig.holds_work = True
    for number in range(10):
        rig.join(f"m{number}", subscribed_topic_names=None, subscribed_topic_regex=f"topic.*|{number}")
    epoch = rig.group.epoch
    until_moved(rig)
    assert "topic.*|0" in rig.group.resolved
    rig.restart()
    assert rig.group.epoch == epoch + 1


def test_a_topic_that_is_made_between_two_parts_of_a_result_is_found() -> None:
    rig = many_patterns()
    until_moved(rig)
    rig.topics.create("topic-new", 1)
    finish(rig)
    rig.wait(10_001)
    settle(rig)
    assert all("topic-new" in one.topics for one in rig.group.resolved.values())
    assert owned(rig) == 21


def test_a_member_that_leaves_between_two_parts_of_a_result() -> None:
    rig = many_patterns()
    until_moved(rig)
    for number in (0, 9):
        rig.heartbeat(f"m{number}", -1)
    finish(rig)
    assert rig.group.resolved.keys() == rig.group.regexes.keys()
    settle(rig)
    assert owned(rig) == 20


def test_a_result_that_cannot_be_written_is_tried_again_after_ten_seconds() -> None:
    rig = many_patterns()
    work = rig.work.popleft()
    part = next(piece for piece in work if not isinstance(piece, int))
    assert isinstance(part, RegexesResolved)
    rig.happen(ConsumerAppendFailed(part, ErrorCode.INVALID_RECORD))
    rig.work.append(work)
    finish(rig)
    assert rig.group.resolved.keys() == rig.group.regexes.keys() - part.matched.keys(), "the others are"
    rig.wait(10_000)
    settle(rig)
    assert rig.group.resolved.keys() != rig.group.regexes.keys()
    rig.wait(1)
    settle(rig)
    assert rig.group.resolved.keys() == rig.group.regexes.keys()


def test_only_the_result_that_could_not_be_written_is_tried_again() -> None:
    rig = many_patterns()
    work = rig.work.popleft()
    parts = [piece for piece in work if not isinstance(piece, int)]
    for part in parts[:-1]:
        rig.happen(part)
    rig.happen(ConsumerAppendFailed(parts[-1], ErrorCode.INVALID_RECORD))
    assert 0 < len(rig.group.resolved) < 10
    rig.wait(10_001)
    written = len(rig.batches)
    settle(rig)
    assert len(rig.group.resolved) == 10
    again = [record.pattern for batch in rig.batches[written:] for record in batch if isinstance(record, RegexRecord)]
    assert again == list(parts[-1].matched)


def test_the_only_result_that_cannot_be_written_is_tried_again_after_ten_seconds() -> None:
    rig = Rig()
    rig.holds_work = True
    rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="T.*")
    work = rig.work.popleft()
    part = next(piece for piece in work if not isinstance(piece, int))
    rig.happen(ConsumerAppendFailed(part, ErrorCode.INVALID_RECORD))
    assert list(work) == []
    rig.heartbeat("A", 1)
    assert not rig.work
    rig.wait(10_001)
    rig.heartbeat("A", 1)
    finish(rig)
    assert set(rig.group.resolved) == {"T.*"}

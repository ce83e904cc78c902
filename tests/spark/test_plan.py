"""Sharing out a batch, and what stands in Spark's checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import TopicPartition
from pyspark_muster.plan import Log, Plan, Planner, share

P0, P1 = TopicPartition("a-b", 0), TopicPartition("a-b", 12)
WAITING = st.dictionaries(st.integers(0, 9), st.integers(0, 100))


@given(WAITING, st.integers(0, 500))
def test_a_share_is_never_more_than_what_waits_and_together_they_use_the_limit(
    waiting: dict[int, int], limit: int
) -> None:
    shares = share(waiting, limit)
    assert all(0 < shares[key] <= waiting[key] for key in shares)
    assert sum(shares.values()) == min(limit, sum(waiting.values()))


@given(WAITING, st.integers(0, 500))
def test_whoever_gets_less_than_what_waits_gets_as_much_as_anybody(waiting: dict[int, int], limit: int) -> None:
    shares = share(waiting, limit)
    cut = [shares.get(key, 0) for key in waiting if shares.get(key, 0) < waiting[key]]
    assert not cut or min(cut) >= max(shares.values(), default=0) - 1


def test_without_a_limit_everybody_gets_everything() -> None:
    assert share({"a": 3, "b": 0}, None) == {"a": 3}


def test_a_plan_survives_json_with_topics_that_have_dashes() -> None:
    plan = Plan(7, {P0: (1, 2), P1: (0, 9)}, "spark-1", 3)
    written = plan.to_json()
    assert written == {"seq": 7, "ranges": {"a-b-0": [1, 2], "a-b-12": [0, 9]}, "member": "spark-1", "generation": 3}
    assert Plan.from_json(json.loads(json.dumps(written))) == plan


@pytest.mark.parametrize("offset", [{}, {"seq": 1}, {"seq": 1, "ranges": {"x": [1, 2]}}, {"seq": 1, "ranges": [1]}])
def test_what_is_no_plan_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="did not write"):
        Plan.from_json(offset)


def test_nothing_is_read_of_a_partition_until_the_group_knows_where_reading_began() -> None:
    planner = Planner()
    planner.assigned({P0: None}, {P0: Log(3, 9)})
    assert planner.due() == {P0: 3}
    assert planner.plan(1, {P0: 9}) is None
    planner.committed({P0: 3})
    assert planner.plan(1, {P0: 9}) == Plan(1, {P0: (3, 9)})


def test_a_tail_is_dropped_when_somebody_else_moved_the_groups_offset() -> None:
    planner = Planner()
    planner.assigned({P0: 3}, {P0: Log(0, 20)})
    plan = planner.plan(1, {P0: 9})
    assert plan is not None
    planner.settle(plan)
    planner.revoked([P0])
    assert planner.due() == {}
    planner.assigned({P0: 5}, {P0: Log(0, 20)})
    assert planner.due() == {}
    assert planner.positions == {P0: 5}


@pytest.mark.parametrize(("offset", "log"), [(100, Log(3, 40)), (2, Log(5, 40))])
def test_a_move_into_the_log_is_committed_and_known_again_where_the_commit_was_refused(offset: int, log: Log) -> None:
    planner = Planner(fail_on_data_loss=False)
    planner.assigned({P0: offset}, {P0: log})
    assert planner.positions == planner.due() == {P0: log.begin}
    plan = planner.plan(1, {P0: 30})
    assert plan == Plan(1, {P0: (log.begin, 30)})
    planner.settle(plan)
    planner.revoked([P0])
    planner.assigned({P0: offset}, {P0: log})
    assert planner.positions == planner.due() == {P0: 30}


def test_an_unfinished_batch_before_an_offset_beyond_the_log_leaves_no_record_of_the_new_log_out() -> None:
    planner = Planner(fail_on_data_loss=False)
    planner.assigned({P0: 50}, {P0: Log(0, 30)})  # others had read to 50 before the topic was made again
    planner.replay(Plan(7, {P0: (10, 20)}))
    assert planner.positions == {P0: 0}


def test_a_tail_is_gone_on_with_when_nobody_moved_the_groups_offset() -> None:
    planner = Planner()
    planner.assigned({P0: 3}, {P0: Log(0, 20)})
    for seq, end in ((1, 9), (2, 12)):
        plan = planner.plan(seq, {P0: end})
        assert plan is not None
        planner.settle(plan)
        planner.trying(planner.due())
    for known in (3, 9, 12):
        planner.revoked([P0])
        planner.assigned({P0: known}, {P0: Log(0, 20)})
        assert planner.positions == {P0: 12}
        assert planner.due() == {P0: 12}

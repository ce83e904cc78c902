"""Queries that crash, are expelled, replay and share a group, in any order: every record reaches the sink, and the
group's offset goes back only where an operator sets it back (the fake group asserts that).
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.enumerations import share_of
from tests.spark.conftest import GroupOf
from tests.spark.fake_group import FakeGroup
from tests.spark.fake_spark import FakeQuery, Sink, settle

QUERIES = 3
GRACEFUL = ("produce", "batch", "batch", "batch", "rebalance", "drain", "lose an answer")
ROUGH = ("produce", "plan", "batch", "batch", "rebalance", "stop", "crash", "expel", "lose an answer", "reset")

Actions = Sequence[tuple[str, int]]
examples = settings(
    deadline=None, max_examples=share_of(100), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def actions(names: Sequence[str], queries: int = QUERIES) -> st.SearchStrategy[Actions]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, queries - 1)), min_size=20, max_size=60)


class Story:
    def __init__(self, group: FakeGroup, queries: int, folder: Path, limit: str) -> None:
        self.group = group
        self.sink = Sink()
        self.queries = [
            FakeQuery(self.sink, maxRecordsPerBatch=limit, drainFile=str(folder / f"drain-{number}"))
            for number in range(queries)
        ]

    def tell(self, actions: Actions) -> None:
        for name, number in actions:
            getattr(self, name.replace(" ", "_"))(self.queries[number])
        settle(*self.queries)

    def produce(self, query: FakeQuery) -> None:
        self.group.produce(3)

    def plan(self, query: FakeQuery) -> None:
        """Logs a batch and leaves it there: what follows may be a crash."""
        query.plan()

    def batch(self, query: FakeQuery) -> None:
        query.run_batch()

    def rebalance(self, query: FakeQuery) -> None:
        self.group.rebalance()

    def lose_an_answer(self, query: FakeQuery) -> None:
        self.group.lose_next_answer = True

    def stop(self, query: FakeQuery) -> None:
        query.stop()

    def drain(self, query: FakeQuery) -> None:
        drain_file = Path(query.options.drain_file or "")
        drain_file.touch()
        query.run_batch()
        drain_file.unlink()
        query.stop()

    def expel(self, query: FakeQuery) -> None:
        if query.reader is not None and query.member.member_id in self.group.members:
            self.group.expel(query.member)

    def crash(self, query: FakeQuery) -> None:
        self.expel(query)
        query.crash()

    def reset(self, query: FakeQuery) -> None:
        """An operator sets one partition back while nobody is there, and wants its records again."""
        for running in self.queries:
            running.stop()
        partition = self.group.partitions[1]
        back_to = self.group.offsets.get(partition, 0) // 2
        self.group.offsets[partition] = back_to
        for where, offset in list(self.sink.rows):
            if where == partition and offset >= back_to:
                del self.sink.rows[where, offset]


@pytest.mark.parametrize("refuse_while_rebalancing", [False, True])
@examples
@given(actions=actions(ROUGH), limit=st.sampled_from(["2", "5", "1000"]))
def test_whatever_happens_every_record_reaches_the_sink(
    use_group: GroupOf, tmp_path: Path, refuse_while_rebalancing: bool, actions: Actions, limit: str
) -> None:
    group = use_group(FakeGroup(refuse_while_rebalancing=refuse_while_rebalancing))
    story = Story(group, QUERIES, tmp_path, limit)
    story.tell(actions)
    assert set(story.sink.rows) == group.everything()
    assert group.offsets == group.ends


@examples
@given(actions=actions(GRACEFUL), limit=st.sampled_from(["2", "5", "1000"]))
def test_graceful_moves_repeat_nothing_where_commits_are_accepted_until_all_have_joined(
    use_group: GroupOf, tmp_path: Path, actions: Actions, limit: str
) -> None:
    group = use_group(FakeGroup())
    story = Story(group, QUERIES, tmp_path, limit)
    story.tell(actions)
    assert set(story.sink.rows) == group.everything()
    assert story.sink.repeats == 0


@examples
@given(actions=actions(GRACEFUL, queries=1), limit=st.sampled_from(["2", "5", "1000"]))
def test_a_member_alone_repeats_nothing_even_where_commits_are_refused_for_whole_rebalances(
    use_group: GroupOf, tmp_path: Path, actions: Actions, limit: str
) -> None:
    group = use_group(FakeGroup(refuse_while_rebalancing=True))
    story = Story(group, 1, tmp_path, limit)
    # A stop in the middle of a rebalance leaves what was refused to the next run: that is what drains wait for.
    story.tell([action for action in actions if action[0] != "drain"])
    assert set(story.sink.rows) == group.everything()
    assert story.sink.repeats == 0

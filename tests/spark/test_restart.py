"""Restarts where the checkpoint and the group disagree: the group counts (docs/spark.md#when-a-query-starts-again)."""

import pytest

from muster import TopicPartition
from pyspark_muster.errors import DataLoss
from pyspark_muster.options import Options
from tests.spark.fake_group import TOPIC, FakeGroup
from tests.spark.fake_spark import OPTIONS, FakeQuery, Sink, settle

ZERO = TopicPartition(TOPIC, 0)


class Restart:
    """A query that read ten records of each partition and was killed. `unfinished`: then ten more were planned, and
    may be in the sink, while Spark has not logged their end."""

    def __init__(self, group: FakeGroup, *, unfinished: bool, told: bool = True) -> None:
        self.group, self.sink = group, Sink()
        self.query = FakeQuery(self.sink)
        group.produce(10)
        self.query.run_batch()
        if told:  # the batch is in the group, too
            assert not self.query.plan()
        if unfinished:
            group.produce(10)
            assert self.query.plan()
        self.query.crash()
        group.members.clear()
        group.may_go_back = True  # an operator may set it back

    def all_at(self, offset: int) -> None:
        self.group.offsets = dict.fromkeys(self.group.partitions, offset)

    def go_on(self) -> None:
        settle(self.query)
        assert self.group.offsets == self.group.ends

    def read(self, partition: TopicPartition = ZERO) -> list[int]:
        """Return the offsets of a partition in the sink, as often as they are there."""
        return sorted(
            offset for (one, offset), times in self.sink.rows.items() for _ in range(times) if one == partition
        )


@pytest.mark.parametrize("unfinished", [False, True])
def test_where_the_group_is_ahead_what_others_have_read_is_not_read_again(group: FakeGroup, unfinished: bool) -> None:
    restart = Restart(group, unfinished=unfinished)
    restart.all_at(20)
    group.produce(30 - group.ends[ZERO])
    restart.go_on()
    assert restart.read() == [*range(10), *range(20, 30)]


def test_where_the_group_is_ahead_of_a_part_of_an_unfinished_batch_its_whole_range_is_left_to_the_others(
    group: FakeGroup,
) -> None:
    """A range goes from where the group stood. Is that past, another member has the partition's records, or will."""
    restart = Restart(group, unfinished=True)
    group.offsets[ZERO] = 13
    restart.go_on()
    assert restart.read() == [*range(10), *range(13, 20)]
    assert restart.read(TopicPartition(TOPIC, 1)) == [*range(20)]


def test_where_the_group_is_behind_the_last_finished_batch_is_read_again(group: FakeGroup) -> None:
    restart = Restart(group, unfinished=False, told=False)
    assert group.offsets == dict.fromkeys(group.partitions, 0)
    restart.go_on()
    assert restart.read() == sorted([*range(10)] * 2)


def test_an_unfinished_batch_is_read_where_it_was_planned(group: FakeGroup) -> None:
    restart = Restart(group, unfinished=True)
    restart.go_on()
    assert restart.read() == [*range(20)]


def test_a_reset_backwards_is_followed_and_an_unfinished_batch_is_read_once_more(group: FakeGroup) -> None:
    for unfinished in (False, True):
        group.offsets.clear()
        group.ends = dict.fromkeys(group.partitions, 0)
        group.members.clear()
        restart = Restart(group, unfinished=unfinished)
        restart.all_at(4)
        restart.go_on()
        again = [*range(4, group.ends[ZERO])]
        assert restart.read() == sorted([*range(10), *again, *(range(10, 20) if unfinished else ())])


@pytest.mark.parametrize("keeps_offsets", [False, True])
def test_a_batch_of_a_topic_that_was_made_again_is_lost_and_the_new_log_is_read(
    group: FakeGroup, keeps_offsets: bool
) -> None:
    for fails in ("true", "false"):
        group.offsets.clear()
        group.ends = dict.fromkeys(group.partitions, 0)
        group.members.clear()
        restart = Restart(group, unfinished=True)
        restart.query.options = Options.parse(OPTIONS | {"failOnDataLoss": fails})
        group.ends = dict.fromkeys(group.partitions, 5)
        if not keeps_offsets:
            group.offsets.clear()
        restart.sink.rows.clear()
        if fails == "true":
            what = "the group committed 10" if keeps_offsets else "an unfinished batch ends at 20"
            with pytest.raises(DataLoss, match=f"{what} of flights-0, and its log holds 0 to 5"):
                restart.query.tasks()
            continue
        assert restart.query.tasks() == []
        restart.go_on()
        assert restart.read() == [*range(5)]


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_reset_forwards_is_followed_and_what_it_skips_is_not_read(group: FakeGroup, unfinished: bool) -> None:
    restart = Restart(group, unfinished=unfinished)
    group.ends = dict.fromkeys(group.partitions, 40)
    restart.all_at(35)
    restart.go_on()
    assert restart.read() == [*range(10), *range(35, 40)]


@pytest.mark.parametrize("unfinished", [False, True])
def test_without_its_checkpoint_a_query_goes_on_at_the_groups_offset(group: FakeGroup, unfinished: bool) -> None:
    restart = Restart(group, unfinished=unfinished)
    group.produce(10)
    restart.query = FakeQuery(restart.sink)
    restart.go_on()
    assert restart.read() == [*range(group.ends[ZERO])]


def test_without_its_checkpoint_what_the_group_had_not_heard_is_read_again(group: FakeGroup) -> None:
    restart = Restart(group, unfinished=False, told=False)
    restart.query = FakeQuery(restart.sink)
    restart.go_on()
    assert restart.read() == sorted([*range(10)] * 2)


@pytest.mark.parametrize(("start", "expected"), [("earliest", [*range(20)]), ("latest", [*range(10, 20)])])
def test_without_checkpoint_and_group_a_query_begins_where_its_options_say(
    group: FakeGroup, start: str, expected: list[int]
) -> None:
    restart = Restart(group, unfinished=False)
    group.offsets.clear()
    restart.sink.rows.clear()
    restart.query = FakeQuery(restart.sink, startingOffsets=start)
    restart.query.run_batch()
    group.produce(10)
    restart.go_on()
    assert restart.read() == expected


def test_with_the_checkpoint_alone_an_unfinished_batch_is_read_and_nothing_between_is_skipped(group: FakeGroup) -> None:
    """The group's offsets expired, or the group was deleted."""
    restart = Restart(group, unfinished=True)
    group.offsets.clear()
    restart.go_on()
    assert restart.read()[-10:] == [*range(10, 20)]

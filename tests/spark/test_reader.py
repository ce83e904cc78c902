"""A query in a group: what is read, what is committed, and what happens when partitions change hands."""

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from muster import TopicPartition
from muster.net.security import Security
from protocol.messages.topics import MetadataReply, MetadataTopicReply
from pyspark_muster import reader as reader_module
from pyspark_muster.control import DRAINED
from pyspark_muster.errors import DataLoss
from pyspark_muster.options import Options
from pyspark_muster.reader import GroupReader, NoAssignment
from pyspark_muster.tasks import RangePartition, ReadSettings
from tests.spark.conftest import GroupOf
from tests.spark.fake_group import TOPIC, FakeGroup
from tests.spark.fake_spark import OPTIONS, FakeQuery, Sink, settle

P0, P1, P2, P3 = (TopicPartition(TOPIC, number) for number in range(4))


def test_making_a_reader_joins_nothing_and_it_can_be_pickled(group: FakeGroup) -> None:
    reader = GroupReader(Options.parse(OPTIONS))
    assert isinstance(pickle.loads(pickle.dumps(reader)), GroupReader)
    assert reader.initialOffset() == reader.initialOffset() == {"seq": 0, "ranges": {}}
    assert group.joined == 0


def test_a_plan_names_its_ranges_and_what_it_read_is_committed_when_the_next_is_asked_for(group: FakeGroup) -> None:
    group.produce(10)
    query = FakeQuery(Sink())
    assert query.plan()
    assert query.offset_log[1]["ranges"] == {f"{TOPIC}-{number}": [0, 10] for number in range(4)}
    query.finish(query.tasks())
    assert set(group.offsets.values()) == {0}  # the group was told where reading begins, and no more
    assert not query.run_batch()
    assert group.offsets == group.ends


def test_an_idle_query_gives_back_the_offset_it_was_given(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    assert not query.plan()
    group.produce(1)
    settle(query)
    last = query.last
    assert query.start().latestOffset(last, ReadAllAvailable()) is last
    assert query.start().partitions(last, last) == []


def test_two_queries_share_and_a_join_between_batches_repeats_nothing(group: FakeGroup) -> None:
    sink = Sink()
    first, second = FakeQuery(sink), FakeQuery(sink)
    group.produce(100)
    first.run_batch()
    second.start()
    assert not second.plan()
    group.produce(100)
    settle(first, second)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0
    assert {group.owner_of(partition) for partition in group.partitions} == set(group.members)


def test_a_query_that_stops_leaves_and_the_other_goes_on_behind_its_last_commit(group: FakeGroup) -> None:
    sink = Sink()
    first, second = FakeQuery(sink), FakeQuery(sink)
    group.produce(10)
    settle(first, second)
    first.stop()
    group.produce(10)
    settle(second)
    assert len(group.members) == 1
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_where_commits_are_refused_for_a_whole_rebalance_the_tail_still_spares_ones_own_records(
    use_group: GroupOf,
) -> None:
    group = use_group(FakeGroup(refuse_while_rebalancing=True))
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.run_batch()
    group.rebalance()
    group.produce(5)
    settle(query)
    assert sink.repeats == 0
    assert group.offsets == group.ends


def test_a_commit_whose_answer_is_lost_is_known_again_as_ones_own(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.run_batch()
    group.produce(10)
    group.lose_next_answer = True
    query.run_batch()
    group.rebalance()
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_the_group_wins_over_the_checkpoint_when_somebody_else_moved_its_offset(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    settle(query)
    query.stop()
    group.offsets[P2] = 4  # an operator resets one partition
    settle(query)
    assert sink.rows[P2, 3] == 1
    assert sink.rows[P2, 4] == 2
    assert sink.repeats == 6


def test_a_late_batch_of_an_expelled_member_neither_ends_the_query_nor_moves_the_group_back(group: FakeGroup) -> None:
    sink = Sink()
    slow, other = FakeQuery(sink), FakeQuery(sink)
    group.produce(10)
    assert slow.plan()
    tasks = slow.tasks()
    group.expel(slow.member)
    settle(other)
    group.produce(10)
    settle(other)
    slow.finish(tasks)
    settle(slow, other)
    assert set(sink.rows) == group.everything()
    assert group.offsets == group.ends
    assert len(group.members) == 2


def test_a_logged_batch_is_replayed_only_where_the_partition_is_ours_and_the_group_not_past_it(
    group: FakeGroup,
) -> None:
    sink = Sink()
    crashing, other = FakeQuery(sink), FakeQuery(sink)
    group.produce(10)
    crashing.plan()  # logged, never finished
    group.expel(crashing.member)
    crashing.crash()
    other.start()
    settle(other)
    assert crashing.member.member_id
    settle(other)
    tasks = crashing.tasks()
    assert tasks == []
    crashing.finish(tasks)
    group.produce(10)
    settle(crashing, other)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_a_logged_batch_that_nobody_else_took_is_replayed_whole(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.plan()
    query.crash()
    group.members.clear()
    group.produce(5)
    tasks = query.tasks()
    assert [(task.start, task.end) for task in tasks] == [(0, 10)] * 4
    query.finish(tasks)
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0
    assert group.offsets == group.ends


def test_a_logged_batch_is_replayed_even_where_the_group_has_forgotten_its_offsets(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink, startingOffsets="latest")
    query.plan()
    group.produce(10)
    query.plan()
    query.crash()
    group.members.clear()
    group.offsets.clear()
    group.produce(5)
    settle(query)
    assert set(sink.rows) == group.everything()


def test_a_plan_that_spark_drops_is_not_taken_for_read(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.plan()
    query.offset_log.pop()
    group.produce(10)
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_a_replay_without_an_assignment_says_so_instead_of_dropping_the_batch(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    group.produce(10)
    query.plan()
    query.crash()
    group.waiting = {"somebody who never lets go"}
    group._assign_if_all_let_go = lambda: None  # type: ignore[method-assign]
    with pytest.raises(NoAssignment, match="assignmentTimeoutMs"):
        query.tasks()


def test_latest_begins_at_the_end_and_a_crash_before_the_first_batch_does_not_move_that(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    query = FakeQuery(sink, startingOffsets="latest")
    assert not query.plan()
    query.crash()
    group.members.clear()
    group.produce(5)
    settle(query)
    assert {offset for _, offset in sink.rows} == set(range(10, 15))


def add_partition(group: FakeGroup, topic: str = TOPIC, *, records: int) -> TopicPartition:
    new = TopicPartition(topic, sum(one.topic == topic for one in group.partitions))
    group.partitions.append(new)
    group.begins[new], group.ends[new], group.open[new] = 0, records, 0
    group.rebalance()
    return new


def test_latest_does_not_hold_for_partitions_that_come_after_the_group_began(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    query = FakeQuery(sink, startingOffsets="latest")
    settle(query)
    new = add_partition(group, records=7)
    settle(query)
    assert sorted(sink.rows) == [(new, offset) for offset in range(7)]
    query.crash()
    group.members.clear()
    while_down = add_partition(group, records=3)
    group.produce(1, P0.partition)
    again = FakeQuery(sink, startingOffsets="latest")  # without its checkpoint, too
    settle(again)
    assert sorted(sink.rows) == [(P0, 10), *((new, at) for at in range(7)), *((while_down, at) for at in range(3))]


def test_latest_holds_for_all_who_begin_a_group_together(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    first, second = (FakeQuery(sink, startingOffsets="latest") for _ in range(2))
    group.waiting = {"a member that is slow to join"}  # nobody gets partitions before both have joined
    group.rebalancing = True
    for query in (first, second):
        query.plan()
    settle(first, second)
    assert sink.rows == {}
    group.produce(1)
    settle(first, second)
    assert {offset for _, offset in sink.rows} == {10}
    assert len(sink.rows) == 4


def test_latest_of_a_pattern_does_not_hold_for_topics_that_come_later(
    group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Options, "connect", lambda _self: ListedTopics(group))
    group.produce(10)
    sink = Sink()
    query = FakeQuery(sink, topics="", topicsPattern="fl.*|planes", startingOffsets="latest")
    settle(query)
    assert sink.rows == {}
    new = add_partition(group, "planes", records=5)
    settle(query)
    assert sorted(sink.rows) == [(new, offset) for offset in range(5)]


class ListedTopics:
    """Stands in for a `ClusterClient` that lists the topics of a group's logs."""

    def __init__(self, group: FakeGroup) -> None:
        self._partitions = group.partitions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def ask(self, _message: object) -> MetadataReply:
        topics = tuple(MetadataTopicReply(name=name) for name in {one.topic for one in self._partitions})
        return MetadataReply(brokers=(), topics=topics)

    def partition_count(self, topic: str) -> int:
        return sum(one.topic == topic for one in self._partitions)


def test_offsets_by_partition_say_where_a_group_begins_that_has_none_and_nothing_else(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    starts = json.dumps({"flights": {"0": 4, "1": -1, "2": -2}})
    settle(FakeQuery(sink, startingOffsets=starts))
    begun = {0: 4, 1: 10, 2: 0, 3: 0}
    assert set(sink.rows) == {(one, offset) for one in group.partitions for offset in range(begun[one.partition], 10)}
    group.members.clear()
    again = FakeQuery(sink, startingOffsets=starts)
    group.produce(1)
    settle(again)
    assert sink.repeats == 0, "the group's offsets count"


def test_an_offset_to_begin_at_that_no_log_has_is_a_loss(use_group: GroupOf) -> None:
    for fails in ("true", "false"):
        group = use_group(FakeGroup())
        group.produce(10)
        query = FakeQuery(Sink(), startingOffsets='{"flights": {"0": 40}}', failOnDataLoss=fails)
        if fails == "true":
            with pytest.raises(DataLoss, match="startingOffsets has 40 of flights-0"):
                query.plan()
        else:
            settle(query)
            assert group.offsets == group.ends


def test_a_batch_takes_no_more_than_its_limit_and_splits_into_tasks(group: FakeGroup) -> None:
    group.produce(100)
    query = FakeQuery(Sink(), maxRecordsPerBatch="40", maxRecordsPerTask="7")
    assert query.start().getDefaultReadLimit() == ReadMaxRows(40)
    assert query.plan()
    tasks = query.tasks()
    assert sum(task.end - task.start for task in tasks) == 40
    assert max(task.end - task.start for task in tasks) == 7
    assert len(tasks) == 8


def test_a_batch_waits_for_enough_records_or_for_long_enough(group: FakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    group.produce(10)
    query = FakeQuery(Sink(), minRecordsPerBatch="50", maxTriggerDelayMs="60000")
    assert not query.plan()
    group.produce(3)
    assert query.run_batch()
    group.produce(10)
    assert not query.plan()
    reader = query.start()
    assert reader._planned_s is not None
    monkeypatch.setattr(reader, "_planned_s", reader._planned_s - 61)
    assert query.run_batch()
    group.produce(1)
    reader.prepareForTriggerAvailableNow()
    assert query.run_batch(), "a run that is to end waits for nothing"


def test_available_now_reads_what_there_is_and_nothing_that_comes_later(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink, maxRecordsPerBatch="20")
    group.produce(10)
    query.start().prepareForTriggerAvailableNow()
    first = query.plan()
    group.produce(10)
    assert first
    settle(query)
    assert sink.rows.total() == 40
    assert set(group.offsets.values()) == {10}


def test_a_draining_query_commits_and_plans_nothing(group: FakeGroup, tmp_path: Path) -> None:
    drain_file = tmp_path / "drain"
    sink = Sink()
    query = FakeQuery(sink, drainFile=str(drain_file))
    group.produce(10)
    query.run_batch()
    group.produce(10)
    drain_file.touch()
    assert not query.plan()
    assert drain_file.read_text() == DRAINED
    assert set(group.offsets.values()) == {10}
    query.stop()
    other = FakeQuery(sink)
    settle(other)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_records_deleted_before_they_were_read_fail_the_query_unless_it_says_otherwise(group: FakeGroup) -> None:
    group.produce(10)
    group.offsets = dict.fromkeys(group.partitions, 2)
    group.begins[P1] = 5
    with pytest.raises(DataLoss, match=f"{TOPIC}-1.*failOnDataLoss"):
        FakeQuery(Sink()).plan()
    group.members.clear()
    sink = Sink()
    settle(FakeQuery(sink, failOnDataLoss="false"))
    assert min(offset for partition, offset in sink.rows if partition == P1) == 5


@pytest.mark.parametrize("fails", ["true", "false"])
def test_where_a_member_has_committed_beyond_the_last_stable_offset_a_query_waits_for_the_transactions_end(
    group: FakeGroup, fails: str
) -> None:
    group.produce(10)
    group.open[P0] = 10  # a transaction is open from 10 on, and a member that reads uncommitted records is at 15
    group.offsets[P0] = 15
    sink = Sink()
    query = FakeQuery(sink, failOnDataLoss=fails)
    settle(query)
    assert P0 not in {partition for partition, _ in sink.rows}
    group.ends[P0], group.open[P0] = 20, 0
    settle(query)
    assert sorted(offset for partition, offset in sink.rows if partition == P0) == list(range(15, 20))
    assert sink.repeats == 0


def test_latest_begins_before_an_open_transaction(group: FakeGroup) -> None:
    group.produce(10)
    group.open[P0] = 5
    sink = Sink()
    query = FakeQuery(sink, startingOffsets="latest")
    settle(query)
    group.ends[P0], group.open[P0] = 15, 0
    settle(query)
    assert sorted(sink.rows) == [(P0, offset) for offset in range(10, 15)]


def test_a_group_that_has_committed_beyond_the_last_stable_offset_has_read_all_but_not_beyond_the_log(
    group: FakeGroup,
) -> None:
    group.produce(10)
    group.offsets = dict.fromkeys(group.partitions, 10) | {P0: 15}
    group.open[P0] = 5
    with FakeQuery(Sink()).start()._inside() as member:
        assert member.all_read()
        group.open[P0] = 0  # made again, and shorter than the group's offset
        assert not member.all_read()


def test_what_is_not_ours_is_never_committed(group: FakeGroup) -> None:
    first, second = FakeQuery(Sink()), FakeQuery(Sink())
    group.produce(10)
    assert first.plan()
    tasks = first.tasks()
    group.expel(first.member)
    second.start()
    settle(second)
    group.offsets[P0] = 3  # a reset, while the first member still believes it owns the partition
    first.finish(tasks)
    first.plan()
    assert group.offsets[P0] == 3


def test_progress_reports_where_the_logs_end(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    assert query.start().reportLatestOffset() is None
    group.produce(3, 1)
    query.plan()
    report = query.start().reportLatestOffset()
    assert report is not None
    assert report["ends"] == {"flights-0": 0, "flights-1": 3, "flights-2": 0, "flights-3": 0}
    assert (report["state"], report["member"], report["generation"]) == ("reading", "member-0001", 1)


def test_stopping_twice_or_before_joining_is_no_error(group: FakeGroup) -> None:
    reader = GroupReader(Options.parse(OPTIONS))
    reader.stop()
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()
    reader.stop()
    assert group.members == {}


def test_an_offset_of_another_source_is_refused_with_what_it_is(group: FakeGroup) -> None:
    reader = GroupReader(Options.parse(OPTIONS))
    with pytest.raises(ValueError, match=r"did not write.*'flights': 7"):
        reader.latestOffset({"flights": 7}, ReadAllAvailable())


def test_a_range_travels_to_its_executor_whole() -> None:
    security = Security(protocol="SSL")
    settings = ReadSettings("127.0.0.1:1", security, outage_timeout_ms=7, fail_on_data_loss=False)
    range_ = pickle.loads(pickle.dumps(RangePartition(settings, TOPIC, 3, 5, 9)))
    assert range_.settings == settings
    assert (range_.topic, range_.partition, range_.start, range_.end) == (TOPIC, 3, 5, 9)


def test_the_first_sigterm_unwinds_and_the_second_does_not_interrupt_that() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        reader_module._leave_on_sigterm()
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        atexit.unregister(reader_module._end_at_once)
        signal.signal(signal.SIGTERM, before)


def test_a_process_told_to_end_leaves_first_and_then_ends_without_taking_its_modules_down() -> None:
    program = """
import os, signal
from pyspark_muster import reader

class Kept:
    def __del__(self):
        print("taken down")

kept = Kept()
reader._leave_on_sigterm()
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    print("left")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "left\n"

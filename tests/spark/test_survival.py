"""Queries that survive: slow triggers, servers that are away, topics that are misspelt or deleted, full refreshes."""

import json
from pathlib import Path

import pytest

from muster import CannotConnect, ErrorCode, OffsetOutOfRange, Refused, RequestTimedOut, TopicPartition
from muster.blocking.cluster import EARLIEST
from pyspark_muster import reading
from pyspark_muster.control import ControlSocket, Finished, send_finished
from pyspark_muster.errors import DataLoss, NoSuchTopic
from pyspark_muster.keeper import Keeper
from pyspark_muster.member import NotSoleMember
from pyspark_muster.outage import Outage, OutageTooLong, is_outage
from pyspark_muster.reader import NoAssignment, StatefulQuery
from pyspark_muster.reports import lags, reports
from pyspark_muster.tasks import ReadSettings
from tests.client.fetching.nodes import Log
from tests.client.test_range_reader import Cluster, transactions
from tests.spark.conftest import GroupOf
from tests.spark.fake_group import TOPIC, FakeGroup, FakeMember
from tests.spark.fake_spark import FakeQuery, Sink, settle

OTHER = "planes"

# ------------------------------------------------------------------------------------------------- between two triggers


def test_a_finished_batch_is_committed_and_a_rebalance_served_long_before_the_next_trigger(group: FakeGroup) -> None:
    sink = Sink()
    slow, other = FakeQuery(sink), FakeQuery(sink)
    group.produce(10)
    slow.run_batch()
    other.start()
    assert not other.plan()
    slow.attend()
    assert group.waiting, "a batch may be under way"
    slow.attend(Finished(slow.last["seq"]))
    assert group.offsets == group.ends
    assert group.waiting == set()
    settle(other)
    assert sink.repeats == 0
    group.produce(10)
    settle(slow, other)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_word_of_an_older_batch_does_not_end_the_one_under_way(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    group.produce(10)
    query.run_batch()
    first = query.last["seq"]
    group.produce(10)
    assert query.plan()
    query.attend(Finished(first))
    assert query.start()._planner.has_open_batch
    query.finish(query.tasks())
    query.attend(Finished(query.last["seq"]))
    assert group.offsets == group.ends


def test_an_idle_query_serves_rebalances_without_being_asked_by_spark(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    assert not query.plan()
    group.rebalance()
    assert group.rebalancing
    query.attend()
    assert not group.rebalancing


def test_a_member_that_was_removed_reads_in_the_first_trigger_after_it(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.run_batch()
    group.expel(query.member)
    group.produce(10)
    assert query.run_batch()
    report = query.start().reportLatestOffset()
    assert report is not None
    assert "maxPollIntervalMs" in report["state"]
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_the_driver_tells_the_reader_over_a_socket_and_other_bytes_are_ignored(tmp_path: Path) -> None:
    heard: list[Finished | None] = []
    control = ControlSocket()
    try:
        send_finished(str(control.path), Finished(7, is_stateful=True))
        heard.append(control.receive(1))
        assert control.path.parent.stat().st_mode & 0o077 == 0
    finally:
        control.close()
    assert heard == [Finished(7, is_stateful=True)]
    assert not control.path.exists()
    send_finished(str(control.path), Finished(8))  # nobody is there: nothing happens


def test_the_keeper_ends_when_it_is_stopped() -> None:
    heard: list[Finished | None] = []
    keeper = Keeper(heard.append)
    assert keeper.path is not None
    send_finished(keeper.path, Finished(3))
    keeper.start()
    keeper.stop()
    assert not Path(keeper.path).exists()
    assert [one for one in heard if one is not None] in ([], [Finished(3)])


# ------------------------------------------------------------------------------------------------------------- outages


def test_a_query_goes_on_after_an_outage_and_its_progress_tells_of_it(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    query.run_batch()
    group.is_away = True
    for _ in range(3):
        assert not query.plan()
        query.attend()
    report = query.start().reportLatestOffset()
    assert report is not None
    assert report["state"] == "no answer for 0 s: nobody listens at 127.0.0.1:1"
    group.is_away = False
    group.produce(10)
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_an_outage_longer_than_allowed_ends_the_query_with_the_last_failure(group: FakeGroup) -> None:
    query = FakeQuery(Sink(), outageTimeoutMs="1", assignmentTimeoutMs="100")
    query.plan()
    group.is_away = True
    with pytest.raises(OutageTooLong, match=r"outageTimeoutMs.*nobody listens"):
        query.plan()


def test_the_clock_of_an_outage_runs_from_its_first_failure_to_its_end() -> None:
    outage = Outage(first_contact_ms=60_000, timeout_ms=600_000)
    lost = CannotConnect("refused")
    outage.failed(lost, 0)
    with pytest.raises(OutageTooLong, match="before the first answer"):
        outage.failed(lost, 61)
    outage.over()
    assert outage.describe(70) == ""
    for now_s in range(100, 700, 30):
        outage.failed(lost, now_s)
    assert outage.describe(690) == "no answer for 590 s: refused"
    outage.over()
    outage.failed(lost, 1_000)
    with pytest.raises(OutageTooLong, match=r"601 s .outageTimeoutMs.: refused"):
        outage.failed(lost, 1_601)


def test_only_what_may_work_later_is_an_outage() -> None:
    assert is_outage(CannotConnect("")) and is_outage(RequestTimedOut(""))
    assert is_outage(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, ""))
    assert not is_outage(Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, ""))
    assert not is_outage(ValueError())


# -------------------------------------------------------------------------------------------------------------- topics


def test_a_misspelt_topic_ends_the_query_by_its_name(group: FakeGroup) -> None:
    with pytest.raises(NoSuchTopic, match="'flihgts'"):
        FakeQuery(Sink(), topics="flights,flihgts").plan()
    with pytest.raises(NoSuchTopic, match="'flihgts'"):
        FakeQuery(Sink(), topics="flihgts", failOnDataLoss="false").plan()


def test_a_pattern_that_matches_nothing_ends_the_query_by_its_text(
    group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeMember, "has_nothing_to_read", True)
    with pytest.raises(NoSuchTopic, match="'flihg"):
        FakeQuery(Sink(), topics="", topicsPattern="flihg.*").plan()
    monkeypatch.setattr(FakeMember, "has_nothing_to_read", False)
    assert FakeQuery(Sink(), topics="", topicsPattern="fligh.*").member.pattern == "fligh.*"


def test_a_deleted_topic_ends_the_query_unless_data_may_be_lost(use_group: GroupOf) -> None:
    for fails in ("true", "false"):
        group = use_group(FakeGroup(topics=(TOPIC, OTHER)))
        sink = Sink()
        query = FakeQuery(sink, topics=f"{TOPIC},{OTHER}", failOnDataLoss=fails)
        group.produce(10)
        query.run_batch()
        group.deleted = {OTHER}
        group.produce(10)
        if fails == "true":
            with pytest.raises(DataLoss, match=r"'planes'.*deleted.*failOnDataLoss"):
                query.plan()
            continue
        settle(query)
        group.rebalance()
        settle(query)
        rest = {(one, offset) for one, offset in group.everything() if one.topic == TOPIC or offset < 10}
        assert set(sink.rows) == rest
        report = query.start().reportLatestOffset()
        assert report is not None
        assert report["deletedTopics"] == [OTHER]


def make_again(group: FakeGroup, records: int) -> None:
    """Delete the topic and create it again, between two triggers and without a rebalance."""
    group.ends = dict.fromkeys(group.partitions, records)
    group.offsets.clear()


def test_a_topic_made_again_between_two_triggers_ends_the_query(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    group.produce(100)
    settle(query)
    make_again(group, 40)
    with pytest.raises(DataLoss, match=r"has read up to 100 of flights-0.*0 to 40.*made again.*failOnDataLoss"):
        query.plan()


def test_a_topic_made_again_is_read_from_its_begin_if_data_may_be_lost(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink, failOnDataLoss="false")
    group.produce(100)
    settle(query)
    group.produce(10)
    query.run_batch()  # not yet committed
    group.may_go_back = True
    make_again(group, 40)
    sink.rows.clear()
    settle(query)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0
    group.rebalance()
    settle(query)
    assert sink.repeats == 0, "the group's offset went back, too"
    assert group.offsets == group.ends


def test_a_group_whose_offset_lies_beyond_a_log_reads_the_log_from_its_begin_if_data_may_be_lost(
    group: FakeGroup,
) -> None:
    group.produce(40)
    group.offsets = dict.fromkeys(group.partitions, 100)
    with pytest.raises(DataLoss, match="the group committed 100 of flights-0"):
        FakeQuery(Sink()).plan()
    group.members.clear()
    group.may_go_back = True
    sink = Sink()
    settle(FakeQuery(sink, failOnDataLoss="false"))
    assert set(sink.rows) == group.everything()
    assert group.offsets == group.ends


def test_a_run_with_available_now_that_gets_no_partition_is_no_success(group: FakeGroup) -> None:
    group.produce(10)
    for _ in range(4):
        assert FakeQuery(Sink()).member.member_id
    late = FakeQuery(Sink(), assignmentTimeoutMs="5")
    assert late.member.member_id
    with pytest.raises(NoAssignment, match="assignmentTimeoutMs"):
        late.start().prepareForTriggerAvailableNow()


def test_a_run_with_available_now_that_has_nothing_to_read_joins_nothing(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    settle(FakeQuery(sink))
    group.members.clear()
    joined = group.joined
    query = FakeQuery(sink)
    reader = query.start()
    reader.prepareForTriggerAvailableNow()
    assert not query.plan()
    query.attend()
    assert group.joined == joined
    report = reader.reportLatestOffset()
    assert report is not None
    assert set(report["ends"].values()) == {10}
    group.produce(1)
    query = FakeQuery(sink)
    query.start().prepareForTriggerAvailableNow()
    assert query.run_batch()
    assert group.joined == joined + 1


# -------------------------------------------------------------------------------------------------- state and refreshes


def test_a_query_that_keeps_state_ends_before_its_batch_is_committed(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    group.produce(10)
    query.run_batch()
    query.attend(Finished(query.last["seq"], is_stateful=True))
    with pytest.raises(StatefulQuery, match="soleMember"):
        query.plan()
    assert set(group.offsets.values()) == {0}


def test_a_sole_member_may_keep_state_until_another_comes(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink, soleMember="true")
    group.produce(10)
    query.run_batch()
    query.attend(Finished(query.last["seq"], is_stateful=True))
    group.produce(10)
    assert query.run_batch()
    other = FakeQuery(sink)
    assert other.member.member_id
    with pytest.raises(NotSoleMember, match=r"another member.*flights-1"):
        settle(query, other)


def test_a_new_checkpoint_goes_on_at_the_groups_offset_or_begins_anew_if_told_so(group: FakeGroup) -> None:
    group.produce(10)
    settle(FakeQuery(Sink()))
    group.members.clear()
    sink = Sink()
    settle(FakeQuery(sink))
    assert sink.rows.total() == 0
    group.members.clear()
    group.may_go_back = True
    refreshed = FakeQuery(sink, newCheckpoint="startingOffsets")
    refreshed.prepare()
    settle(refreshed)
    assert sink.rows.total() == 40
    refreshed.crash()
    group.members.clear()
    group.produce(5)
    refreshed.prepare()
    settle(refreshed)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0, "the checkpoint is not new any more"


def test_a_full_refresh_is_not_forgotten_if_the_process_ends_before_its_first_batch(group: FakeGroup) -> None:
    group.produce(10)
    old = FakeQuery(Sink())
    settle(old)
    group.produce(1)
    old.plan()  # the old driver is still a member, inside a batch
    group.may_go_back = True
    sink = Sink()
    refreshed = FakeQuery(sink, newCheckpoint="startingOffsets")
    assert not refreshed.plan()  # Spark runs an empty batch, and logs the initial offset as its end
    refreshed.stop()
    old.stop()
    settle(refreshed)  # without another call of initialOffset
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0
    refreshed.crash()
    group.members.clear()
    settle(refreshed)
    assert sink.repeats == 0, "it is over"


def test_a_full_refresh_waits_for_all_partitions_which_may_come_one_after_the_other(group: FakeGroup) -> None:
    group.produce(10)
    sink = Sink()
    settle(FakeQuery(Sink()))
    group.members.clear()
    group.may_go_back = True
    other = FakeQuery(Sink())
    assert other.member.member_id
    refreshed = FakeQuery(sink, newCheckpoint="startingOffsets", groupProtocol="consumer")
    for _ in range(3):
        assert not refreshed.plan()
        assert not other.plan()
    report = refreshed.start().reportLatestOffset()
    assert report is not None
    assert "alone in its group" in report["state"]
    assert group.owner_of(TopicPartition(TOPIC, 0)) is not None
    late = FakeQuery(Sink(), newCheckpoint="startingOffsets", assignmentTimeoutMs="5")
    late.prepare()
    assert late.member.member_id
    assert not other.plan()
    assert not refreshed.plan()
    with pytest.raises(NoAssignment, match="newCheckpoint"):
        late.plan()
    late.stop()
    other.stop()
    settle(refreshed)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_a_full_refresh_without_records_ends_with_an_empty_batch_and_latest_counts_once(group: FakeGroup) -> None:
    group.produce(10)
    group.offsets = dict.fromkeys(group.partitions, 3)
    group.may_go_back = True
    sink = Sink()
    query = FakeQuery(sink, newCheckpoint="startingOffsets", startingOffsets="latest")
    assert query.run_batch()
    assert sink.rows == {}
    query.crash()
    group.members.clear()
    group.produce(2)
    settle(query)
    assert {offset for _, offset in sink.rows} == {10, 11}


# ------------------------------------------------------------------------------------------------------------ progress


def test_progress_says_how_far_a_query_is_behind(group: FakeGroup) -> None:
    query = FakeQuery(Sink(), maxRecordsPerBatch="8")
    group.produce(10)
    query.plan()
    report = query.start().reportLatestOffset()
    assert report is not None
    assert (report["minOffsetsBehindLatest"], report["maxOffsetsBehindLatest"]) == (8, 8)
    assert report["avgOffsetsBehindLatest"] == 8
    assert lags({}, {}) == {}
    source = {"latestOffset": json.dumps(report), "endOffset": json.dumps(query.offset_log[-1])}
    other = {"latestOffset": None, "endOffset": '{"flights": {"0": 7}}'}
    (told,) = reports([source, other])
    assert (told["seq"], told["control"], told["member"]) == (1, "control", "member-0001")


# ----------------------------------------------------------------------------------------------------------- executors


class _Log:
    """Stands in for a `ClusterClient` and its `RangeReader`."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end

    def offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        if self.end < 0:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic")
        return dict.fromkeys(partitions, self.begin if timestamp == EARLIEST else self.end)


@pytest.mark.parametrize(
    ("begin", "end", "goes_on_at"), [(5, 20, 5), (0, 20, 10), (12, 20, 10), (0, -1, 10), (0, 2, 10)]
)
def test_a_task_whose_records_were_deleted_goes_on_with_what_is_there(begin: int, end: int, goes_on_at: int) -> None:
    one = TopicPartition(TOPIC, 0)
    assert reading._next_there(_Log(begin, end), one, 3, 10) == goes_on_at  # type: ignore[arg-type]


def test_a_task_raises_what_is_lost_unless_data_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    one = TopicPartition(TOPIC, 0)

    def lost(*_: object) -> object:
        raise OffsetOutOfRange(one, 3, "trimmed")

    monkeypatch.setattr(reading, "_read", lost)
    monkeypatch.setattr(reading, "_cluster", lambda _settings: _Log(0, 20))
    with pytest.raises(OffsetOutOfRange):
        list(reading.read_range(ReadSettings("b:1"), TOPIC, 0, 3, 10))
    assert list(reading.read_range(ReadSettings("b:1", fail_on_data_loss=False), TOPIC, 0, 3, 10)) == []


class _Ending(Cluster):
    """A log of five records that tells its end."""

    def __init__(self) -> None:
        log = Log(1)
        for _ in range(5):
            log.append(1)
        super().__init__(log)

    def offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if timestamp == EARLIEST else self.log.end)


class _FastClock:
    """Stands in for the module `time`: each look at it takes twenty seconds."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        self._now_s += 20
        return self._now_s

    def sleep(self, _seconds: float) -> None:
        """Return at once."""


def test_a_task_whose_log_ends_inside_its_range_reads_to_its_end_if_data_may_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.blocking.range_reader.time", _FastClock())
    monkeypatch.setattr(reading, "_cluster", lambda _settings: _Ending())
    with pytest.raises(RequestTimedOut, match="17 was wanted"):
        list(reading.read_range(ReadSettings("b:1"), TOPIC, 0, 2, 17))
    batches = list(reading.read_range(ReadSettings("b:1", fail_on_data_loss=False), TOPIC, 0, 2, 17))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == [2, 3, 4]


@pytest.mark.parametrize(
    ("isolation_level", "offsets"),
    [("read_committed", [3, 4, 6, 7, 8, 11]), ("read_uncommitted", [0, 1, 2, 3, 4, 6, 7, 8, 11])],
)
def test_a_task_leaves_out_records_of_aborted_transactions_unless_it_wants_all(
    monkeypatch: pytest.MonkeyPatch, isolation_level: str, offsets: list[int]
) -> None:
    cluster = Cluster(transactions())
    monkeypatch.setattr(reading, "_cluster", lambda _settings: cluster)
    settings = ReadSettings("b:1", isolation_level=isolation_level)
    batches = reading.read_range(settings, TOPIC, 0, 0, cluster.log.end)
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == offsets


def test_a_worker_freezes_what_its_first_two_tasks_have_imported_and_no_other_process_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[str] = []
    monkeypatch.setattr("pyspark_muster.reading.gc.freeze", lambda: frozen.append("freeze"))
    monkeypatch.setattr("pyspark_muster.reading.gc.collect", lambda: frozen.append("collect"))
    reading._freeze_imported()
    assert frozen == []
    monkeypatch.setattr("pyspark_muster.reading.TaskContext.get", lambda: "a task")
    monkeypatch.setattr(reading, "_freezes_left", 2)
    for _ in range(3):
        reading._freeze_imported()
    assert frozen == ["collect", "freeze"] * 2

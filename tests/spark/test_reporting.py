"""Reports of a query to its coordinator, and queries that an operator drains."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from muster import CannotConnect, ErrorCode, Refused
from protocol.messages.reports import LONGEST_FACT, ReportMember, ReportMemberReply
from pyspark_muster.control import ControlSocket, Finished, send_finished
from pyspark_muster.errors import Drained
from pyspark_muster.listener import _Guard, _in_short, _JavaListener
from pyspark_muster.options import Options
from pyspark_muster.reporting import Reporter
from tests.spark.fake_group import FakeGroup
from tests.spark.fake_spark import OPTIONS, FakeQuery, Sink, settle


class Coordinator:
    """Takes reports, and answers as it is told."""

    def __init__(self, *answers: ReportMemberReply | Exception) -> None:
        self.answers = list(answers)
        self.heard: list[ReportMember] = []

    def ask_coordinator(self, kind: type[ReportMemberReply], group_id: str, message: ReportMember) -> ReportMemberReply:
        self.heard.append(message)
        answer = self.answers.pop(0) if self.answers else ReportMemberReply()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""


def reporter(told: tuple[str, dict[str, str]]) -> Reporter:
    return Reporter(Options.parse(OPTIONS), lambda: told)


def test_a_report_has_the_members_id_and_its_facts_cut_to_what_is_taken() -> None:
    coordinator = Coordinator()
    assert reporter(("member-1", {"query": "q" * 9_000, "batch": "7"})).report(coordinator)
    (message,) = coordinator.heard
    assert (message.group_id, message.member_id) == ("delays", "member-1")
    assert {one.name: one.text for one in message.facts} == {"query": "q" * LONGEST_FACT, "batch": "7"}


def test_nothing_is_reported_before_the_member_has_joined() -> None:
    coordinator = Coordinator()
    assert reporter(("", {})).report(coordinator)
    assert coordinator.heard == []


def test_a_report_that_fails_is_made_again_and_a_coordinator_that_takes_none_is_left_alone() -> None:
    one = reporter(("member-1", {}))
    assert one.report(Coordinator(CannotConnect("away")))
    assert one.report(Coordinator(ReportMemberReply(ErrorCode.UNKNOWN_MEMBER_ID, is_draining=True)))
    assert not one.report(Coordinator(Refused(ErrorCode.UNSUPPORTED_VERSION, "no method of this server")))
    assert not one.is_draining


def test_an_operators_wish_holds_once_it_was_heard() -> None:
    one = reporter(("member-1", {}))
    coordinator = Coordinator(ReportMemberReply(is_draining=True), ReportMemberReply())
    for _ in range(2):
        one.report(coordinator)
    assert one.is_draining


def test_a_reader_reports_what_the_driver_says_of_the_query(group: FakeGroup) -> None:
    query = FakeQuery(Sink())
    group.produce(10)
    query.run_batch()
    query.attend(Finished(query.last["seq"], facts={"query": "orders", "batch": "0"}))
    member_id, facts = query.start()._report()
    assert member_id == query.member.member_id
    assert facts == {"query": "orders", "batch": "0", "state": "reading"}


def test_an_idle_query_that_is_drained_leaves_at_once_and_ends_at_its_next_trigger(group: FakeGroup) -> None:
    sink = Sink()
    drained, other = FakeQuery(sink), FakeQuery(sink)
    group.produce(10)
    drained.run_batch()
    drained.attend(Finished(drained.last["seq"]))
    drain(drained)
    drained.attend()
    assert group.members == {}
    assert group.offsets == group.ends
    with pytest.raises(Drained, match="'delays'"):
        drained.plan()
    group.produce(10)
    settle(other)
    assert set(sink.rows) == group.everything()
    assert sink.repeats == 0


def test_a_busy_query_that_is_drained_ends_when_its_batch_is_over(group: FakeGroup) -> None:
    sink = Sink()
    query = FakeQuery(sink)
    group.produce(10)
    assert query.plan()
    drain(query)
    query.attend()
    assert group.members, "a batch is under way"
    query.finish(query.tasks())
    with pytest.raises(Drained):
        query.plan()
    assert group.offsets == group.ends
    query.stop()
    assert group.members == {}
    assert set(sink.rows) == group.everything()


def test_a_drained_query_whose_commit_is_refused_waits_for_the_rebalance(use_group: Any) -> None:
    group = use_group(FakeGroup(refuse_while_rebalancing=True))
    query = FakeQuery(Sink())
    group.produce(10)
    query.run_batch()
    group.rebalance()
    drain(query)
    query.attend(Finished(query.last["seq"]))
    with pytest.raises(Drained):
        settle(query)
    assert group.offsets == group.ends


def drain(query: FakeQuery) -> None:
    """Do as the reporter does when it hears of an operator's wish."""
    with query.start()._inside():
        pass
    told = query.start()._reporter
    assert told is not None
    told.is_draining = True


def by_java(guard: _Guard, progress: str) -> None:
    _JavaListener(guard.tell).onQueryProgress(SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: progress)))


def by_connect(guard: _Guard, progress: str) -> None:
    guard.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=progress)))


@pytest.mark.parametrize("happen", [by_java, by_connect])
def test_the_driver_tells_what_it_knows_of_the_query(happen: Callable[[_Guard, str], None]) -> None:
    control = ControlSocket()
    report = {"state": "reading", "member": "m", "control": str(control.path)}
    progress = {
        "sources": [{"endOffset": 17}, {"latestOffset": report, "endOffset": {"seq": 4, "ranges": {}}}],
        "stateOperators": [],
        "name": "orders",
        "id": "1-2",
        "runId": "3-4",
        "batchId": 7,
        "processedRowsPerSecond": 1234.5,
    }
    infos = [SimpleNamespace(host=lambda host=host: host) for host in ("b", "a", "a")]
    tracker = SimpleNamespace(getExecutorInfos=lambda: infos)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(statusTracker=lambda: tracker)))
    try:
        happen(_Guard(spark), json.dumps(progress))
        heard = control.receive(5)
    finally:
        control.close()
    assert heard == Finished(
        4,
        facts={
            "query": "orders",
            "query id": "1-2",
            "run id": "3-4",
            "batch": "7",
            "rows a second": "1234",
            "executors": "a (2), b",
        },
    )


def test_many_hosts_are_told_in_short() -> None:
    assert _in_short([f"host-{number:02}" for number in range(12)]).endswith("host-09 and 2 more")


def test_a_message_to_the_reader_that_is_none_of_ours_is_ignored() -> None:
    control = ControlSocket()
    try:
        send_finished(str(control.path), Finished(1, facts="no facts"))  # type: ignore[arg-type]
        assert control.receive(5) is None
    finally:
        control.close()

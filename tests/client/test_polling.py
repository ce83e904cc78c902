"""Polls that find nothing, that are woken while records come, whose records take long, and that group them by
partition (docs/spec/consumer-client.md#B1, #A10)."""

import pytest

from membership.topic_partition import TopicPartition
from muster import Consumer, ConsumerRecord
from muster.client.consumer import ConsumerProcedures
from muster.client.steps import Procedure
from muster.errors import CommitRefused, WokenUp
from tests.client.consumer_rig import ConsumerRig, P


def reading(rig: ConsumerRig, **settings: object) -> Consumer:
    """One that has positions and fetches under way."""
    consumer = rig.consumer("A", "t", **settings)
    rig.steady(consumer)
    consumer.poll(0.0)
    rig.forget()
    return consumer


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_a_poll_without_data_at_a_healthy_server_lasts_its_time_and_asks_no_more_than_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[int] = []
    serve = ConsumerProcedures._serve

    def counted(self: ConsumerProcedures) -> Procedure[None]:
        rounds.append(1)
        return serve(self)

    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig, fetch_max_wait_ms=500)
    monkeypatch.setattr(ConsumerProcedures, "_serve", counted)
    before_ms = rig.now_ms
    assert consumer.poll(10.0) == []
    assert rig.now_ms - before_ms == 10_000
    # Each fetch waits 500 ms at the server and 2 ms on the way; a heartbeat goes out every 3 s.
    assert (len(rig.kinds(of=["Fetch"])), len(rig.kinds(of=["Heartbeat"]))) == (19, 3)
    assert set(rig.kinds()) == {"Fetch", "Heartbeat"}
    assert len(rounds) < 60, "a round for each answer, one for each second, and no busy loop"


@pytest.mark.parametrize("lead_ms", range(-6, 7))
def test_a_wakeup_that_meets_records_is_raised_once_and_loses_none(
    monkeypatch: pytest.MonkeyPatch, lead_ms: int
) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.after(100, lambda: rig.append(P[0], count=3))
    rig.after(100 + lead_ms, consumer.wakeup)
    woken, records = 0, list[ConsumerRecord]()
    for _ in range(4):
        try:
            records += consumer.poll(0.5)
        except WokenUp:
            woken += 1
    assert (woken, offsets(records)) == (1, [0, 1, 2])
    assert consumer.commit() == {P[0]: 3}


def test_a_wakeup_before_a_poll_leaves_what_is_buffered_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.append(P[0], count=3)
    rig.run(1_000)
    consumer.wakeup()
    with pytest.raises(WokenUp):
        consumer.poll(1.0)
    assert consumer.positions() == {P[0]: 0}
    assert offsets(consumer.poll(0.0)) == [0, 1, 2]


def handled_slowly(rig: ConsumerRig, consumer: Consumer, polls: int) -> list[int]:
    """Poll, take a tenth of a second for each record, commit."""
    seen: list[int] = []
    for _ in range(polls):
        records = consumer.poll(1.0)
        rig.run(100 * len(records))
        seen += offsets(records)
        if records:
            consumer.commit()
    return seen


def test_a_slow_handler_of_few_records_at_a_time_stays_in_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig, max_poll_interval_ms=5_000, max_poll_records=10)
    rig.append(P[0], count=60)
    rig.run(1_000)
    assert handled_slowly(rig, consumer, 6) == list(range(60))
    assert consumer.committed([P[0]]) == {P[0]: 60}
    assert rig.kinds(of=["JoinGroup", "LeaveGroup"]) == [] and rig.told == []


def test_a_slow_handler_of_many_records_at_a_time_loses_its_place_and_reads_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig, max_poll_interval_ms=5_000, max_poll_records=500)
    rig.append(P[0], count=60)
    rig.run(1_000)
    with pytest.raises(CommitRefused, match="no longer in the group"):
        handled_slowly(rig, consumer, 1)
    assert rig.kinds(of=["LeaveGroup"]) == ["LeaveGroup"], "it left after five seconds without a poll"
    rig.forget()
    assert offsets(rig.polls(consumer, for_ms=10_000)) == list(range(60)), "at least once"
    assert [one.what for one in rig.told] == ["lost", "assigned"]


def test_records_can_be_had_by_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 3)
    consumer = reading(rig)
    rig.append(P[0], P[2], count=2)
    rig.run(1_000)
    grouped = consumer.poll(1.0, by_partition=True)
    assert all(isinstance(one, TopicPartition) for one in grouped)
    assert {one: offsets(records) for one, records in grouped.items()} == {P[0]: [0, 1], P[2]: [0, 1]}
    assert consumer.commit() == {P[0]: 2, P[1]: 0, P[2]: 2}
    assert consumer.poll(0.0, by_partition=True) == {}


def test_records_grouped_for_a_poll_that_is_interrupted_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_records: object) -> None:
        raise KeyboardInterrupt

    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.append(P[0], count=2)
    rig.run(1_000)
    with monkeypatch.context() as patch:
        patch.setattr("muster.blocking.consumer.group_by_partition", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(1.0, by_partition=True)
    assert consumer.positions() == {P[0]: 0}
    assert offsets(consumer.poll(1.0)) == [0, 1]

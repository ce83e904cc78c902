"""The return of a poll: its records, its moment, its next fetch: docs/spec/consumer-client.md#H.46 to #H.48."""

import pytest

from muster import Consumer
from protocol.messages.data import Fetch
from tests.client.consumer_rig import ConsumerRig, P


def reading(rig: ConsumerRig) -> Consumer:
    """One that has a position in the only partition, and a fetch under way."""
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    consumer.poll(0.0)
    return consumer


def asked(message: Fetch) -> dict[int, int]:
    return {one.partition: one.fetch_offset for topic in message.topics for one in topic.partitions}


def test_h46_a_poll_of_no_time_hands_out_what_is_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.append(P[0], count=3)
    assert consumer.poll(0.0) == []
    rig.run(1_000)
    before_ms = rig.now_ms
    assert [record.offset for record in consumer.poll(0.0)] == [0, 1, 2]
    assert rig.now_ms == before_ms


def test_h47_a_waiting_poll_returns_when_a_record_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.run(100)
    rig.after(200, lambda: rig.append(P[0]))
    before_ms = rig.now_ms
    assert [record.offset for record in consumer.poll(1.0)] == [0]
    assert 200 <= rig.now_ms - before_ms <= 205


def test_h48_the_next_fetch_is_on_the_wire_before_records_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.append(P[0], count=3)
    rig.run(1_000)
    rig.forget()
    assert [record.offset for record in consumer.poll(0.0)] == [0, 1, 2]
    assert [asked(message) for message in rig.messages("Fetch")] == [{0: 3}]


def test_records_that_come_while_the_application_works_are_there_when_it_polls_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = reading(rig)
    rig.append(P[0])
    assert len(consumer.poll(1.0)) == 1
    rig.append(P[0])
    rig.run(100)
    assert [record.offset for record in consumer.poll(0.0)] == [1]

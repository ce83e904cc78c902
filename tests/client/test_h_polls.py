"""What a poll hands out, when it returns, and what it leaves under way: docs/spec/consumer-client.md#H.46 to #H.48."""

import pytest

from muster import Consumer
from protocol.messages.data import Fetch
from tests.client.theatre import P, Theatre


def reading(theatre: Theatre) -> Consumer:
    """One that has a position in the only partition, and a fetch under way."""
    consumer = theatre.consumer("A", "t")
    theatre.steady(consumer)
    consumer.poll(0.0)
    return consumer


def asked(message: Fetch) -> dict[int, int]:
    return {one.partition: one.fetch_offset for topic in message.topics for one in topic.partitions}


def test_h46_a_poll_of_no_time_hands_out_what_is_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make("t", 1)
    consumer = reading(theatre)
    theatre.append(P[0], count=3)
    assert consumer.poll(0.0) == []
    theatre.run(1_000)
    before_ms = theatre.now_ms
    assert [record.offset for record in consumer.poll(0.0)] == [0, 1, 2]
    assert theatre.now_ms == before_ms


def test_h47_a_waiting_poll_returns_when_a_record_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make("t", 1)
    consumer = reading(theatre)
    theatre.run(100)
    theatre.after(200, lambda: theatre.append(P[0]))
    before_ms = theatre.now_ms
    assert [record.offset for record in consumer.poll(1.0)] == [0]
    assert 200 <= theatre.now_ms - before_ms <= 205


def test_h48_the_next_fetch_is_on_the_wire_before_records_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make("t", 1)
    consumer = reading(theatre)
    theatre.append(P[0], count=3)
    theatre.run(1_000)
    theatre.forget()
    assert [record.offset for record in consumer.poll(0.0)] == [0, 1, 2]
    assert [asked(message) for message in theatre.messages("Fetch")] == [{0: 3}]


def test_records_that_come_while_the_application_works_are_there_when_it_polls_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make("t", 1)
    consumer = reading(theatre)
    theatre.append(P[0])
    assert len(consumer.poll(1.0)) == 1
    theatre.append(P[0])
    theatre.run(100)
    assert [record.offset for record in consumer.poll(0.0)] == [1]

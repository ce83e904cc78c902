"""Interceptors of consumers and producers, driven without sockets."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from membership.topic_partition import TopicPartition
from muster import (
    ClientClosed,
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    OffsetToCommit,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RequestTimedOut,
    WokenUp,
    Written,
)
from protocol.messages.data import Produce
from tests.client.consumer_rig import ConsumerRig, Never, P

Log = list[tuple[object, ...]]


class Writes(ConsumerInterceptor):
    """Writes down what it sees under a name, and appends the name to each value."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self.log.append((self.name, "consume", [record.value for record in records]))
        return [replaced(record, record.value + self.name.encode()) for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        self.log.append((self.name, "commit", {one: at.offset for one, at in offsets.items()}))

    def close(self) -> None:
        self.log.append((self.name, "close"))


class Raises(ConsumerInterceptor):
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        records.clear()
        raise RuntimeError("not today")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        raise RuntimeError("not today")

    def close(self) -> None:
        raise RuntimeError("not today")


def replaced(record: ConsumerRecord, value: object) -> ConsumerRecord:
    return ConsumerRecord(record.topic, record.partition, record.offset, record.timestamp_ms, record.key, value)


def reading(rig: ConsumerRig, *interceptors: ConsumerInterceptor, partitions: int = 1, **settings: Any) -> Consumer:
    rig.make("t", partitions)
    consumer = rig.consumer("A", "t", interceptors=interceptors, **settings)
    rig.steady(consumer)
    return consumer


def values(records: list[ConsumerRecord]) -> list[bytes]:
    return [record.value for record in records]


def poll(rig: ConsumerRig, consumer: Consumer, count: int) -> list[ConsumerRecord]:
    rig.append(P[0], count=count)
    return consumer.poll(1.0)


# ----------------------------------------------------------------------------------------------------------- consuming


def test_records_go_through_the_chain_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log), Writes("y", log))
    assert values(poll(rig, consumer, 2)) == [b"0xy", b"1xy"]
    assert log == [("x", "consume", [b"0", b"1"]), ("y", "consume", [b"0x", b"1x"])]


def test_one_that_raises_is_logged_and_the_next_sees_what_there_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log), Raises(), Writes("y", log))
    assert values(poll(rig, consumer, 1)) == [b"0xy"]
    consumer.commit()
    consumer.close()
    assert [entry[:2] for entry in log] == [
        ("x", "consume"),
        ("y", "consume"),
        ("x", "commit"),
        ("y", "commit"),
        ("x", "close"),
        ("y", "close"),
    ]
    failures = [record for record in caplog.records if record.name == "muster" and record.exc_info]
    assert [record.args for record in failures] == [
        ("Raises.on_consume",),
        ("Raises.on_commit",),
        ("Raises.close",),
    ]
    assert all(record.levelno == logging.ERROR for record in failures)


@pytest.mark.parametrize("given", [None, "abc", [1, 2]])
def test_what_is_no_list_of_records_changes_nothing_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: object
) -> None:
    class Forgets(ConsumerInterceptor):
        def on_consume(self, records: list[ConsumerRecord]) -> Any:
            return given

    rig = ConsumerRig(monkeypatch)
    assert values(poll(rig, reading(rig, Forgets()), 1)) == [b"0"]
    assert "Forgets.on_consume" in caplog.text and "a list of ConsumerRecords is wanted" in caplog.text


def test_what_is_left_out_counts_as_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    class OddOnes(ConsumerInterceptor):
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record for record in records if record.offset % 2]

    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, OddOnes(), partitions=2)
    rig.append(P[0], P[1], count=3)
    rig.run(1_000)
    assert {one: len(records) for one, records in consumer.poll(1.0, by_partition=True).items()} == {P[0]: 1, P[1]: 1}
    assert consumer.commit() == {P[0]: 3, P[1]: 3}


def test_a_loop_gives_what_the_chain_gave_and_counts_what_it_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log))
    rig.append(P[0], count=3)
    for record in consumer:
        if record.offset == 1:
            assert record.value == b"1x"
            break
    assert consumer.commit() == {P[0]: 2}
    assert values(consumer.poll(1.0)) == [b"2x"]


def test_an_interrupted_interceptor_leaves_the_records_to_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ConsumerInterceptor):
        times = 0

        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            self.times += 1
            if self.times == 1:
                raise KeyboardInterrupt
            return records

    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        poll(rig, consumer, 2)
    assert consumer.positions() == {P[0]: 0}
    assert values(consumer.poll(1.0)) == [b"0", b"1"]


def test_a_wakeup_after_records_were_taken_is_raised_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wakes(ConsumerInterceptor):
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            consumer.wakeup()
            return records

    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Wakes())
    assert values(poll(rig, consumer, 2)) == [b"0", b"1"]
    with pytest.raises(WokenUp):
        consumer.poll(1.0)
    assert consumer.poll(1.0) == []


# ---------------------------------------------------------------------------------------------------------- committing


def commits(log: Log) -> list[object]:
    return [entry[2] for entry in log if entry[1] == "commit"]


def test_a_commit_is_heard_of_before_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log))
    poll(rig, consumer, 2)
    assert consumer.commit() == {P[0]: 2}
    assert commits(log) == [{P[0]: 2}]


def test_an_asynchronous_commit_is_heard_of_once_it_is_stored_and_before_its_callback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log))
    consumer.commit_async({P[0]: 1}, lambda offsets, error: log.append(("callback", dict(offsets), error)))
    rig.run(100)
    assert log == [], "nothing runs outside of the application's calls"
    consumer.poll(0.0)
    assert log == [("x", "commit", {P[0]: 1}), ("callback", {P[0]: 1}, None)]


def test_a_commit_that_was_refused_is_not_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    consumer = reading(rig, Writes("x", log))
    rig.is_up = False
    consumer.commit_async({P[0]: 1}, lambda offsets, error: log.append(("callback", error is not None)))
    rig.run(1_000)
    rig.is_up = True
    consumer.poll(5.0)
    assert log == [("callback", True)]


def test_automatic_commits_are_heard_of_in_poll_before_a_revocation_and_at_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch).make("t", 2)
    consumer = rig.consumer(
        "A", interceptors=[Writes("x", log)], enable_auto_commit=True, auto_commit_interval_ms=1_000_000
    )

    def told(what: str) -> Callable[[object], None]:
        return lambda _partitions: log.append((what,))

    consumer.subscribe(["t"], on_assigned=told("assigned"), on_revoked=told("revoked"))
    rig.steady(consumer)
    rig.append(P[0], count=2)
    assert len(consumer.poll(1.0)) == 2
    log.clear()
    other = rig.consumer("B", "t")
    rig.steady_again(consumer, other)
    heard = [entry for entry in log if entry[1:2] != ("consume",)]
    assert heard[:3] == [("x", "commit", {P[0]: 2, P[1]: 0}), ("revoked",), ("assigned",)]
    log.clear()
    consumer.close(5.0)
    assert [entry[:2] for entry in log] == [("x", "commit"), ("revoked",), ("x", "close")]


def test_partitions_chosen_by_hand_are_committed_and_heard_of_at_close(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch).make("t", 1)
    consumer = rig.consumer("A", interceptors=[Writes("x", log)], enable_auto_commit=True)
    consumer.assign([P[0]])
    rig.append(P[0], count=2)
    assert len(consumer.poll(1.0)) == 2
    consumer.close(5.0)
    assert log == [("x", "consume", [b"0", b"1"]), ("x", "commit", {P[0]: 2}), ("x", "close")]


# ----------------------------------------------------------------------------------------------------------- producing


class Stamps(ProducerInterceptor):
    """Writes down what it sees, and adds a header."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.log.append((self.name, "send", record.value, threading.current_thread().name))
        headers = (*dict(record.headers).items(), (self.name, b"seen"))
        return ProducerRecord(record.topic, record.value, record.key, record.partition, headers, record.timestamp_ms)

    def on_acknowledgement(self, written: Written, error: Exception | None) -> None:
        self.log.append((self.name, "ack", written, error, threading.current_thread().name))

    def close(self) -> None:
        self.log.append((self.name, "close"))


class Stumbles(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("not today")

    def on_acknowledgement(self, written: Written, error: Exception | None) -> None:
        raise RuntimeError("not today")


def producer(rig: ConsumerRig, *interceptors: ProducerInterceptor, **settings: Any) -> Producer:
    rig.make("t", 2)
    return Producer("node:9", interceptors=interceptors, max_block_ms=1_000, **settings)


def test_a_record_goes_through_the_chain_before_it_is_sent_and_each_hears_of_its_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log: Log = []
    me = threading.current_thread().name
    rig = ConsumerRig(monkeypatch)
    writer = producer(rig, Stamps("x", log), Stumbles(), Stamps("y", log))
    sent = writer.send("t", b"v", partition=1, timestamp_ms=7)
    sent.add_done_callback(lambda sent: log.append(("callback", sent.result().offset)))
    writer.flush(5.0)
    place = Written("t", 1, 0, 7)
    assert log == [
        ("x", "send", b"v", me),
        ("y", "send", b"v", me),
        ("x", "ack", place, None, "muster-callbacks"),
        ("y", "ack", place, None, "muster-callbacks"),
        ("callback", 0),
    ]
    writer.close(5.0)
    assert log[-2:] == [("x", "close"), ("y", "close")]
    assert [record.args for record in caplog.records if record.exc_info] == [
        ("Stumbles.on_send",),
        ("Stumbles.on_acknowledgement",),
    ]
    reader = rig.consumer("A")
    reader.assign(P[:2])
    (record,) = reader.poll(1.0)
    assert record.headers == (("x", b"seen"), ("y", b"seen"))


def test_an_interceptor_may_send_a_record_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("u", b"other", b"key", 0, timestamp_ms=7)

    rig = ConsumerRig(monkeypatch).make("u", 1)
    with producer(rig, Elsewhere()) as writer:
        sent = writer.send("t", b"v", partition=1)
        writer.flush(5.0)
        assert (sent.topic_partition, sent.result(0.0).offset) == (TopicPartition("u", 0), 0)
        writer.close(5.0)


def test_what_is_no_record_changes_nothing_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgets(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> Any:
            return None

    rig = ConsumerRig(monkeypatch)
    writer = producer(rig, Forgets())
    sent = writer.send("t", b"v", partition=1, timestamp_ms=7)
    writer.close(5.0)
    assert sent.result(0.0).offset == 0
    assert "Forgets.on_send returned None: a ProducerRecord is wanted" in caplog.text


def test_a_failure_is_heard_of_and_flush_still_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    writer = producer(rig, Stamps("x", log), delivery_timeout_ms=2_000, request_timeout_ms=1_000)
    writer.send("t", b"v", partition=1)
    rig.script = lambda _who, message: Never() if isinstance(message, Produce) else None  # type: ignore[assignment, return-value]
    with pytest.raises(Exception, match="not acknowledged within"):
        writer.flush(10.0)
    (_, _, written, error, _thread) = log[-1]
    assert isinstance(written, Written) and (written.topic, written.partition, written.offset) == ("t", 1, -1)
    assert "not acknowledged within 2000 ms" in str(error)
    writer.close(5.0)


@pytest.mark.parametrize(
    ("topic", "partition", "kind"),
    [("t", 9, ValueError), ("nowhere", None, RequestTimedOut)],
    ids=["partition", "topic"],
)
def test_a_send_that_fails_is_heard_of_in_its_own_thread(
    monkeypatch: pytest.MonkeyPatch, topic: str, partition: int | None, kind: type[Exception]
) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    writer = producer(rig, Stamps("x", log))
    with pytest.raises(kind) as raised:
        writer.send(topic, b"v", partition=partition)
    place = Written(topic, -1 if partition is None else partition, -1, -1)
    assert log[1:] == [("x", "ack", place, raised.value, threading.current_thread().name)]
    writer.close(5.0)


def test_what_is_given_up_at_close_is_heard_of_before_the_chain_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    log: Log = []
    rig = ConsumerRig(monkeypatch)
    writer = producer(rig, Stamps("x", log), linger_ms=60_000)
    writer.send("t", b"v", partition=0)
    rig.is_up = False
    with pytest.raises(Exception, match=r"cannot connect|not all records"):
        writer.close(1.0)
    assert [entry[1] for entry in log] == ["send", "ack", "close"]
    with pytest.raises(ClientClosed):
        writer.send("t", b"v")
    assert log[-1] == ("x", "close"), "nothing is called after that"


# ------------------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("client", [Consumer, Producer])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("Writes", "interceptors is 'Writes': a list of"),
        (7, "interceptors is 7: a list of"),
        ([Writes], "interceptors has the class Writes: give an instance of it"),
        ([object()], "without on_.* and on_.* and close: derive from"),
    ],
)
def test_what_is_no_interceptor_is_refused_where_it_is_given(client: Any, given: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        client("node:9", interceptors=given)

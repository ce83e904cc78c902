"""Streams with real threads, processes and signals: docs/spec/consumer-client.md#H.76, #H.88 and #H.89, and the
example."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from membership.events import MemberEffect, MemberEvent, TimePassed
from muster import Producer
from muster.blocking.cluster import ClusterClient
from muster.errors import ConsumerTimeout, GroupRefused
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.thread import ThreadDriver
from muster.streams import MessageStream, StreamsConnector
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within

ROOT = Path(__file__).parents[2]
SESSION_MS = 1_500
HASTY: dict[str, Any] = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300, "auto_commit_interval_ms": 100}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    with running(tmp_path / "data", *settings) as daemon:
        yield daemon


def _topic(daemon: Daemon, partitions: int, messages: int = 0) -> None:
    cluster = ClusterClient(daemon.bootstrap)
    cluster.ask(CreateTopics((CreatableTopic("t", partitions),)))
    cluster.close()
    _send(daemon, partitions, range(messages))


def _send(daemon: Daemon, partitions: int, numbers: range) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in numbers:
            producer.send("t", b"%d" % number, partition=number % partitions)


class Member:
    """A process, and what it has said."""

    def __init__(self, daemon: Daemon, each_ms: int, said: Path) -> None:
        self._said = said
        settings = [f"{name}={number}" for name, number in HASTY.items()]
        command = [sys.executable, "-m", "tests.edges.streams_member", daemon.bootstrap, str(each_ms), *settings]
        with said.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)

    @property
    def said(self) -> list[str]:
        return self._said.read_text().split("\n")[:-1]  # whole lines

    @property
    def got(self) -> list[int]:
        """Offsets."""
        return [int(line.split()[2]) for line in self.said if line.startswith("got")]


@contextmanager
def _member(daemon: Daemon, each_ms: int, said: Path) -> Iterator[Member]:
    member = Member(daemon, each_ms, said)
    try:
        yield member
    finally:
        member.process.send_signal(signal.SIGCONT)
        member.process.kill()
        member.process.wait(10)


def test_h76_a_stream_without_messages_times_out_and_can_be_iterated_again(daemon: Daemon) -> None:
    _topic(daemon, 1)
    with StreamsConnector(
        daemon.bootstrap, "group", consumer_timeout_ms=200, auto_offset_reset="smallest"
    ) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(ConsumerTimeout, match="200 ms"):
                next(stream)
            assert time.monotonic() - began >= 0.19
        _send(daemon, 1, range(3))
        got: list[int] = []
        while len(got) < 3:  # on a machine that is busy with other things
            try:
                got.append(next(stream).offset)
            except ConsumerTimeout:
                continue
        assert got == [0, 1, 2]


def test_h88_a_member_that_was_stopped_hands_out_nothing_of_what_it_had(daemon: Daemon, tmp_path: Path) -> None:
    _topic(daemon, 1, 2_000)
    with _member(daemon, 20, tmp_path / "stopped") as stopped:
        assert within(20, lambda: len(stopped.got) > 10), stopped.said
        stopped.process.send_signal(signal.SIGSTOP)
        with _member(daemon, 20, tmp_path / "other") as other:
            time.sleep(2 * SESSION_MS / 1000)
            assert within(20, lambda: len(other.got) > 10), other.said
            before = len(stopped.said)
            stopped.process.send_signal(signal.SIGCONT)
            assert within(20, lambda: any(line.startswith("starting") for line in stopped.said[before:])), (
                stopped.said[before - 3 :],
                other.said[-5:],
            )
            time.sleep(1.0)
            after = stopped.said[before:]
            rejoined = next(at for at, line in enumerate(after) if line.startswith("starting"))
            assert [line for line in after[:rejoined] if line.startswith("got")] == []
            assert after[0] == "releasing 0", "what it had, it lost"
            again = [int(line.split()[2]) for line in after[rejoined:] if line.startswith("got")]
            handed_out = other.got
            assert handed_out == list(range(handed_out[0], handed_out[-1] + 1))
            assert set(again).isdisjoint(handed_out)
            assert handed_out[0] <= stopped.got[-len(again) - 1] + 1, "nothing is skipped"


def test_h89_what_was_in_hand_when_a_process_died_comes_again_and_nothing_is_lost(
    daemon: Daemon, tmp_path: Path
) -> None:
    _topic(daemon, 1, 40)
    with _member(daemon, 300, tmp_path / "first") as first:
        assert within(20, lambda: len(first.got) >= 5), first.said
        time.sleep(0.15)  # the one before it is committed, it is not
        first.process.kill()
        first.process.wait(10)
        had = first.got
    with _member(daemon, 1, tmp_path / "second") as second:
        assert within(30, lambda: second.got[-1:] == [39]), second.said
        assert second.got[0] <= had[-1], "the one in hand comes again"
        assert second.got[0] >= had[-1] - 1, "and no more than what was not committed"
        assert second.got == list(range(second.got[0], 40))


def test_iterators_in_threads_end_when_the_connector_is_shut_down(daemon: Daemon) -> None:
    _topic(daemon, 4, 400)
    got: list[tuple[int, int]] = []
    errors: list[Exception] = []
    connector = StreamsConnector(daemon.bootstrap, "group", auto_offset_reset="smallest", on_error=errors.append)
    streams = connector.create_message_streams({"t": 3})["t"]
    threads = [
        threading.Thread(target=lambda stream=stream: got.extend((one.partition, one.offset) for one in stream))
        for stream in streams
    ]
    for thread in threads:
        thread.start()
    assert within(20, lambda: len(got) == 400)
    assert connector.commit_offsets() != {}
    connector.shutdown()
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(got) == [(partition, offset) for partition in range(4) for offset in range(100)]
    assert errors == []
    with StreamsConnector(daemon.bootstrap, "group", consumer_timeout_ms=300) as again:
        (stream,) = again.create_message_streams({"t": 1})["t"]
        with pytest.raises(ConsumerTimeout):
            next(stream)


def test_five_partitions_on_two_members_of_two_threads_come_once_and_in_order(daemon: Daemon) -> None:
    """docs/spec/consumer-client.md#G, from the producer to four threads of the application."""
    _topic(daemon, 5)
    got: dict[tuple[str, int], list[tuple[int, int]]] = {}

    def reads(thread: tuple[str, int], stream: MessageStream) -> None:
        for message in stream:
            got[thread].append((message.partition, message.offset))

    threads = []
    with ExitStack() as stack:
        connectors = {}
        for who in ("first", "second"):
            connector = StreamsConnector(daemon.bootstrap, "group", auto_offset_reset="smallest", client_id=who)
            connectors[who] = stack.enter_context(connector)
            for number, stream in enumerate(connector.create_message_streams({"t": 2})["t"]):
                got[who, number] = []
                threads.append(threading.Thread(target=reads, args=((who, number), stream)))
        assert within(10, lambda: sum(len(one.owned.get("t", {})) for one in connectors.values()) == 5)
        owned = {who: one.owned["t"] for who, one in connectors.items()}
        assert sorted(owned.values(), key=len) == [{3: 0, 4: 1}, {0: 0, 1: 0, 2: 1}]
        for thread in threads:
            thread.start()
        _send(daemon, 5, range(500))
        assert within(20, lambda: sum(map(len, got.values())) >= 500), {one: len(all_) for one, all_ in got.items()}
        assert {who: one.owned["t"] for who, one in connectors.items()} == owned
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)
    for (who, number), messages in got.items():
        for partition in range(5):
            is_its_own = owned[who].get(partition) == number
            offsets = [offset for one, offset in messages if one == partition]
            assert offsets == (list(range(100)) if is_its_own else [])


class CountingListener:
    """A listener that counts."""

    def __init__(self) -> None:
        self.releasing = self.starting = 0

    def before_releasing(self, _owned: object) -> None:
        self.releasing += 1

    def before_starting(self, _owned: object, _everyone: object) -> None:
        self.starting += 1


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _is_used(daemon: Daemon, ending: str) -> None:
    """A connector is made, read from, and shut down in some way."""
    listener = CountingListener()
    before = _threads()
    with StreamsConnector(daemon.bootstrap, ending, auto_offset_reset="smallest", **HASTY) as connector:
        connector.set_rebalance_listener(listener)
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert next(stream).offset == 0
        assert len(_threads() - before) >= 2, "one for requests, one for the listener"
        if ending == "in a rebalance":
            other = StreamsConnector(daemon.bootstrap, ending, **HASTY)
            helper = threading.Thread(target=other.create_message_streams, args=({"t": 1},))
            helper.start()
            assert within(10, lambda: listener.releasing == 1)
            connector.shutdown()
            helper.join(10)
            other.shutdown()
        elif ending == "without a coordinator":
            daemon.kill()
            connector._callbacks.put(lambda: time.sleep(1.2))  # a callback that is under way when the time is over
        if ending != "by the with":
            connector.shutdown(1.0)
            assert _threads() - before == set(), ending


def test_no_thread_is_left_after_shutdown(daemon: Daemon) -> None:
    _topic(daemon, 2, 4)
    before = _threads()
    refused = StreamsConnector(daemon.bootstrap, "refused", session_timeout_ms=500, heartbeat_interval_ms=100)
    with pytest.raises(GroupRefused):
        refused.create_message_streams({"t": 1})
    refused.shutdown()
    assert _threads() - before == set()
    for ending in ("in good order", "by the with", "in a rebalance", "without a coordinator"):
        _is_used(daemon, ending)
        assert _threads() - before == set(), ending


def test_a_listener_that_takes_long_costs_nobody_its_place(daemon: Daemon) -> None:
    _topic(daemon, 2)

    class Slow:
        def before_releasing(self, _owned: object) -> None:
            time.sleep(2 * SESSION_MS / 1000)

        def before_starting(self, _owned: object, _everyone: object) -> None:
            return

    settings: dict[str, Any] = {**HASTY, "rebalance_timeout_ms": 20_000}
    with StreamsConnector(daemon.bootstrap, "group", **settings) as slow:
        slow.set_rebalance_listener(Slow())
        slow.create_message_streams({"t": 1})
        who = slow.member_id
        with StreamsConnector(daemon.bootstrap, "group", **settings) as other:
            other.create_message_streams({"t": 1})
            assert within(10, lambda: len(slow.owned.get("t", {})) == len(other.owned.get("t", {})) == 1)
            assert slow.member_id == who


def test_what_the_daemon_refuses_is_raised_where_the_streams_are_made(daemon: Daemon) -> None:
    _topic(daemon, 1)
    with (
        StreamsConnector(daemon.bootstrap, "group", session_timeout_ms=500) as connector,
        pytest.raises(GroupRefused, match="session timeout is outside"),
    ):
        connector.create_message_streams({"t": 1})


def test_the_example_reads_in_threads_and_goes_on_from_what_was_committed(daemon: Daemon) -> None:
    _topic(daemon, 4, 8)
    said = []
    for _ in range(2):
        command = [sys.executable, str(ROOT / "examples" / "consume_streams.py"), daemon.bootstrap, "g", "t", "2", "2"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.splitlines())
    first, second = said
    assert "owns {0: 0, 1: 0, 2: 1, 3: 1}" in first
    got = [re.fullmatch(r"stream (\d) got (\d) (\d) b'(\d)'", line) for line in first if line.startswith("stream")]
    told = sorted((int(one[1]), int(one[2]), int(one[3]), int(one[4])) for one in got if one)
    assert told == [
        (partition // 2, partition, offset, 4 * offset + partition) for partition in range(4) for offset in (0, 1)
    ]
    assert second == ["owns {0: 0, 1: 0, 2: 1, 3: 1}", "done"]
    assert 20 <= len((ROOT / "examples" / "consume_streams.py").read_text().splitlines()) <= 50


class _Far:
    """A core with nothing to do for years."""

    next_deadline_ms = 1 << 50

    def step(self, _event: MemberEvent, _now_ms: int) -> list[MemberEffect]:
        return []


def test_a_deadline_that_is_years_away_does_not_end_the_thread() -> None:
    """A connector that need not be polled has such a deadline."""
    background = ThreadDriver(parse_bootstrap("127.0.0.1:1"), "test")
    driven = Driven(_Far(), print)
    background.add(driven)
    background.feed(driven, TimePassed())
    time.sleep(0.2)
    assert background._thread is not None
    assert background._thread.is_alive()
    background.stop()


def test_streams_go_on_when_the_daemon_was_killed_and_is_back(tmp_path: Path) -> None:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        _topic(daemon, 4, 400)
        got: dict[int, list[int]] = {number: [] for number in range(4)}

        def reads(stream: MessageStream) -> None:
            for message in stream:
                got[message.partition].append(message.offset)

        with StreamsConnector(daemon.bootstrap, "group", auto_offset_reset="smallest") as connector:
            streams = connector.create_message_streams({"t": 2})["t"]
            epochs = connector.owned
            threads = [threading.Thread(target=reads, args=(stream,)) for stream in streams]
            for thread in threads:
                thread.start()
            assert within(20, lambda: sum(map(len, got.values())) == 400)
            daemon.kill()
            time.sleep(0.5)
            daemon.start()
            _send(daemon, 4, range(400, 800))
            assert within(30, lambda: sum(map(len, got.values())) == 800), {one: len(all_) for one, all_ in got.items()}
            assert connector.owned == epochs
        for thread in threads:
            thread.join(5)
        assert all(offsets == list(range(200)) for offsets in got.values()), "once each, though its grants are older"

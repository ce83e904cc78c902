"""Log lines about single connections: one a second and kind, however many there are."""

import json
import re
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.io.rate_limited_log import RateLimitedLog
from tests.edges.musterd import running


class Clock:
    """The part of a loop that is asked: timers, and a test that lets them be over."""

    def __init__(self) -> None:
        self.timers: dict[int, Callable[[], None]] = {}

    def call_later(self, _seconds: float, callback: Callable[..., None], *given: Any) -> "Timer":
        number = len(self.timers)
        self.timers[number] = lambda: callback(*given)
        return Timer(self, number)

    def pass_second(self) -> None:
        due, self.timers = self.timers, {}
        for callback in due.values():
            callback()


class Timer:
    def __init__(self, clock: Clock, number: int) -> None:
        self._clock, self._number = clock, number

    def cancel(self) -> None:
        self._clock.timers.pop(self._number, None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("asyncio.get_running_loop", lambda: clock)
    return clock


def test_the_first_is_told_at_once_and_the_rest_of_the_second_as_one(clock: Clock) -> None:
    limited_log = RateLimitedLog()
    with capture_logs() as lines:
        for number in range(20):
            limited_log.write("connection closed", f"a frame of {number} bytes", connection=number)
        assert [(line["count"], line["connection"]) for line in lines] == [(1, 0)]
        clock.pass_second()
        assert [(line["count"], line["connection"]) for line in lines] == [(1, 0), (19, 19)]
        assert lines[1]["reason"] == "a frame of 19 bytes"
        clock.pass_second()
        assert not clock.timers, "nothing is remembered of a kind that has stopped"
        limited_log.write("connection closed", "a frame of 7 bytes", connection=50)
    assert len(lines) == 3
    assert lines[0]["log_level"] == "info"


def test_kinds_do_not_wait_for_each_other_and_strangers_cannot_invent_many(clock: Clock) -> None:
    limited_log = RateLimitedLog(most_kinds=5)
    with capture_logs() as lines:
        limited_log.write("slow reader closed", level="warning", connection=1)
        for number in range(300):
            limited_log.write("connection closed", "no request: " + chr(97 + number % 26) * (1 + number // 26))
        told = len(lines)
        clock.pass_second()
    assert lines[0]["log_level"] == "warning"
    assert told == 6
    assert sum(line["count"] for line in lines) == 301
    assert len(lines) == told + 1


def test_what_is_left_is_told_at_the_end(clock: Clock) -> None:
    limited_log = RateLimitedLog()
    with capture_logs() as lines:
        for _ in range(3):
            limited_log.write("connection closed", "gone")
        limited_log.close()
    assert [line["count"] for line in lines] == [1, 2]
    assert not clock.timers


CLIENT_HELLO = bytes.fromhex("16030102000100")


def test_a_tls_client_that_comes_back_without_end_does_not_fill_the_log(tmp_path: Path) -> None:
    with running(tmp_path / "data", with_kafka=True) as daemon:
        for number in range(120):
            with socket.create_connection(("127.0.0.1", (daemon.kafka_port, daemon.port)[number % 2]), 10) as client:
                client.sendall(CLIENT_HELLO)
                assert client.recv(1) == b""
        assert daemon.stop() == 0
    lines = [json.loads(line) for line in (tmp_path / "data.log").read_text().splitlines()]
    closed = [line for line in lines if line["event"] == "connection closed"]
    assert sum(line["count"] for line in closed) == 120
    assert len({re.sub(r"\d+", "", line["reason"]) for line in closed}) == 2
    began, ended = (datetime.fromisoformat(closed[at]["timestamp"]) for at in (0, -1))
    assert len(closed) <= 2 * ((ended - began).total_seconds() + 2), f"two kinds between {began} and {ended}"

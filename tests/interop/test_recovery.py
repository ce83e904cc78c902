"""Recovery of consumers after a fault, with fake readers and a fake clock."""

import pytest

from interop import recovery
from interop.recovery import Recovery


class FakeReader:
    """A consumer that reads all its records again with each look while it goes on."""

    name = "one"

    def __init__(self, count: int) -> None:
        self.is_alive = True
        self.goes_on = True
        self._count = count
        self._read: list[tuple[int, int]] = []

    def read(self) -> list[tuple[int, int]]:
        if self.is_alive and self.goes_on:
            self._read += [(0, offset) for offset in range(self._count)]
        return self._read


class FakeLoad:
    """A producer whose first `count` records are acknowledged."""

    def __init__(self, count: int) -> None:
        self.acknowledged = {(0, offset): 0.0 for offset in range(count)}


class FakeTime:
    """A clock on which time passes in sleeps alone."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(recovery, "time", clock)
    return clock


def of(reader: FakeReader, written: int) -> Recovery:
    return Recovery([reader], FakeLoad(written), ease_s=3, patience_s=10)  # type: ignore[arg-type, list-item]


def test_readers_that_go_on_have_recovered_at_the_first_look(clock: FakeTime) -> None:
    recovered = of(FakeReader(3), 3)
    recovered.after("a fault", lambda: None)
    assert recovered.failed == []
    assert clock.now_s == 0.25 + 3


def test_a_reader_that_reads_nothing_new_is_named_once_patience_is_over(clock: FakeTime) -> None:
    reader = FakeReader(3)
    recovered = of(reader, 3)
    recovered.after("a beginning", lambda: None)
    reader.goes_on = False
    recovered.after("the end", lambda: None, by_all=False)
    assert recovered.failed == []
    recovered.after("a fault", lambda: None)
    assert recovered.failed == ["a fault: still waiting for one"]
    assert clock.now_s == 3 * 3 + 2 * 0.25 + 10


def test_a_dead_reader_and_records_that_nobody_reads_are_told(clock: FakeTime) -> None:
    reader = FakeReader(3)
    recovered = of(reader, 5)

    def kill() -> None:
        reader.read()
        reader.is_alive = False

    recovered.after("a kill", kill)
    assert recovered.failed == ["a kill: one has ended", "a kill: still waiting for 2 records"]

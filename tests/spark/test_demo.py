"""Mistakes that the demo reports; it reads the real file as it is."""

import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace as changed
from rich.console import Console

from demo import flights
from demo.flights import Delays, averaged, key_of, straight_from_the_file
from demo.processes import ProcessEnded
from demo.show import Show
from demo.sink import Contents
from demo.spark_member import NAME as SPARK
from demo.story import FIRST, KAFKA, MIDDLE, OPENING, SECOND, STUCK_AFTER_S, Story, report

LINE = b"2013,1,1,517,515,2,830,819,%s,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
REFERENCE = {"UA": Delays(flights=300, without=10, minutes=2_900)}
FOUND = Contents(
    distinct=300,
    repeats=7,
    by_member={SPARK: 100, FIRST: 100, SECOND: 57, KAFKA: 50},
    last_writer={0: SECOND, 1: SPARK},
    ends={0: 150, 1: 150},
    delays={"UA": Delays(flights=300, without=10, minutes=2_900)},
)
TOLD: dict[str, Any] = {
    "total": 300,
    "killed_held": [0],
    "kafka": "127.0.0.1:9092",
}


def wrong(found: Contents = FOUND, told: dict[str, Any] | None = None) -> list[str]:
    story = cast(Story, SimpleNamespace(**(TOLD | (told or {}))))
    return report(story, found, REFERENCE, Show(Console(file=io.StringIO())))


def test_nothing_is_wrong_with_records_read_twice() -> None:
    assert wrong() == []


def test_an_average_that_differs_by_a_cent_is_wrong() -> None:
    by_a_cent = replace(REFERENCE["UA"], minutes=2_903)
    assert len(wrong(changed(FOUND, delays={"UA": by_a_cent}))) == 1
    assert len(wrong(changed(FOUND, delays={}))) == 2


def test_a_missing_flight_is_wrong() -> None:
    assert wrong(changed(FOUND, distinct=299)) == ["1 flights are missing from the sink"]


def test_a_spark_member_that_handled_nothing_is_wrong() -> None:
    assert wrong(changed(FOUND, by_member={FIRST: 150, KAFKA: 150})) == ["the Spark member handled no flight"]


def test_a_kafka_consumer_that_handled_nothing_is_wrong_where_there_is_a_listener_for_it() -> None:
    without = changed(FOUND, by_member={SPARK: 150, FIRST: 150})
    assert wrong(without) == ["the confluent-kafka consumer handled no flight"]
    assert wrong(without, {"kafka": None}) == []


class StoryRig(Story):
    """The story's steps without processes: members hold partitions when a test says so, and all that is released is
    committed at once."""

    def __init__(self, kafka: str | None) -> None:
        self.kafka, self.total, self.done = kafka, 1_000, 0
        self.holdings, self.killed_held, self.moved_after_s = {}, [], None
        self.show = Show(Console(file=io.StringIO()))
        self.started: list[str] = []
        self.input = cast(Any, SimpleNamespace(release=self._release))
        self.steps_left = self.steps()

    def _release(self, share: float) -> None:
        self.done = round(share * self.total)

    def _start(self, name: str) -> None:
        self.started.append(name)

    def _start_kafka(self, bootstrap: str) -> None:
        self.started.append(KAFKA)

    def _kill_first(self) -> None:
        self.killed_held = self.holdings[FIRST]

    def look(self, *holding: str) -> tuple[list[str], float, bool]:
        """Let these hold a partition each; return who was started, the share that is released, whether one was
        killed."""
        self.holdings = {name: [number] for number, name in enumerate(holding)}
        next(self.steps_left)
        return self.started, self.done / self.total, bool(self.killed_held)


@pytest.mark.parametrize("kafka", [None, "127.0.0.1:9092"])
def test_nobody_is_given_records_that_a_member_to_come_should_read(kafka: str | None) -> None:
    rig = StoryRig(kafka)
    beginners = [FIRST] if kafka is None else [FIRST, KAFKA]
    assert rig.look() == ([], OPENING, False)  # Spark is still starting
    assert rig.look(SPARK) == (beginners, OPENING, False)
    assert rig.look(SPARK, *beginners[1:]) == (beginners, OPENING, False)  # the first is slow, and waited for
    assert rig.look(SPARK, *beginners) == ([*beginners, SECOND], MIDDLE, False)
    assert rig.look(SPARK, *beginners[1:], SECOND) == ([*beginners, SECOND], MIDDLE, False)  # expelled: it comes back
    assert rig.look(SPARK, *beginners, SECOND) == ([*beginners, SECOND], 1, True)
    assert rig.killed_held == [1]
    rig.look(SPARK, SECOND)  # all is committed, and it is not known yet who has the partition
    rig.moved_after_s = 6.0
    with pytest.raises(StopIteration):
        rig.look(SPARK, SECOND)


class Standing(Story):
    """A story in which nobody ever commits anything."""

    def __init__(self) -> None:
        self.setting = cast(Any, SimpleNamespace(all=[]))
        self.show = Show(Console(file=io.StringIO()))
        self.input = self.spark = self._asking = cast(
            Any, SimpleNamespace(send_some=list, check=list, read=0, committed=lambda _all: {})
        )
        self.plain, self.holdings, self.done, self.total, self._changed_at_s = {}, {}, 0, 9, 0.0
        self.looks = 0

    def steps(self) -> Iterator[None]:
        while True:
            yield

    def _look_at_the_group(self) -> None:
        self.looks += 1


def test_only_a_story_that_has_begun_can_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(10 * STUCK_AFTER_S)  # Spark has taken so long to start
    monkeypatch.setattr("demo.story.time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _s: None))
    standing = Standing()
    with pytest.raises(
        ProcessEnded, match="nothing has changed for 120 s: 0 of 9 are committed, nobody has partitions"
    ):
        standing.tell(None)
    assert standing.looks >= STUCK_AFTER_S


def test_partitions_of_the_killed_that_nobody_reads_on_are_wrong() -> None:
    (said,) = wrong(changed(FOUND, last_writer={0: FIRST, 1: SPARK}))
    assert said == "nobody has read on where plain-1 left off in 0"


def test_flights_without_a_delay_are_counted_and_not_averaged() -> None:
    found = straight_from_the_file([LINE % b"11", LINE % b"NA", LINE % b"-4"])
    assert found == {"UA": Delays(flights=3, without=1, minutes=7)}
    assert found["UA"].average == 3.5
    assert averaged([]) == {}
    assert Delays(1, 1, 0).average is None


def test_the_same_flight_of_every_day_has_the_same_key() -> None:
    assert key_of(LINE % b"11") == key_of(LINE % b"NA") == b"UA1545"


def test_the_real_file_has_the_flights_it_is_known_for() -> None:
    lines = flights.read(flights.find())
    found = straight_from_the_file(lines)
    assert len(lines) == sum(carrier.flights for carrier in found.values()) == 336_776
    assert sum(carrier.without for carrier in found.values()) == 9_430
    assert len(found) == 16

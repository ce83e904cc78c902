"""Sums of a group's lag, against the lines that they are sums of; and lag in time."""

import asyncio
import random

import pytest
from msgspec.structs import replace

from coordinator.http.app import yield_to_loop
from coordinator.http.lag.end_history import KEPT_MS, LATE_MS, MOST_PARTITIONS, SET_BACK_MS, EndHistory
from coordinator.http.lag.partitions import (
    GroupPartitions,
    KnownEnds,
    PartitionEnd,
    PartitionLag,
    commit_age_ms,
    keys_of,
    lags,
    longest_ms,
    oldest_ms,
)
from coordinator.http.lag.timed import LagClock
from coordinator.http.lag.totals import GroupTotal, TopicEnds, group_total
from coordinator.http.queries import Queries
from coordinator.http.scrape import measure
from coordinator.http.watch import ProblemWatch
from diagnosis.gathering import Commit
from protocol.messages.groups import DescribedGroup
from protocol.messages.topics import DeletableTopic, DeleteTopics
from tests.node.operated import DiagnosisRig


def test_totals_are_the_sums_of_the_lines() -> None:
    chance = random.Random(7)
    unknown = 0
    for _ in range(500):
        share = chance.choice((0.6, 1.0))
        topics = {
            topic: {index: chance.randrange(90) for index in range(6) if chance.random() < share}
            for topic in ("orders", "payments")[: chance.randrange(3)]
        }
        of_topics = {topic: _ends(chance) for topic in topics}
        committed = {
            (topic, index): Commit(offset, None) for topic in topics for index, offset in topics[topic].items()
        }
        keys = keys_of(topics, {topic: one.count for topic, one in of_topics.items()}, committed)
        known = KnownEnds(
            ends={(topic, index): end for topic, one in of_topics.items() for index, end in one.ends.items()},
            begins={(topic, index): end for topic, one in of_topics.items() for index, end in one.begins.items()},
        )
        lines = list(lags(DescribedGroup("g"), GroupPartitions(keys, committed), known))
        counted = [line.lag for line in lines if line.lag is not None]
        lag = sum(counted) if counted or not lines else None

        total = group_total(3, topics, of_topics)

        assert total == GroupTotal(3, len(lines), lag, oldest_ms(lines))
        unknown += lag is None
    assert 0 < unknown < 500


def _ends(chance: random.Random) -> TopicEnds:
    """Make the ends of six partitions; those that the topic does not have may have commits of other groups. In each
    second topic all ends are known and current."""
    begins = {index: _end(chance) for index in range(6) if chance.random() < 0.7}
    found = TopicEnds(chance.randrange(7), {}, begins, {})
    is_current = chance.random() < 0.5
    for index in range(6):
        found.learn({index: PartitionEnd(60) if is_current else _end(chance)})
    return found


def _end(chance: random.Random) -> PartitionEnd | None:
    return chance.choice((None, PartitionEnd(None), PartitionEnd(60), PartitionEnd(120, chance.randrange(2_000))))


# --- lag in time

KEY = ("t", 0)


@pytest.mark.parametrize("every_s", [1, 2, 15])
def test_a_history_of_ends_is_bounded_and_knows_the_past_coarsely(every_s: int) -> None:
    history = EndHistory()
    for second in range(0, 1_001, every_s):
        history.add(KEY, second * 10, second * 1_000)
    now_ms = 1_000_000
    assert history.lag_ms(KEY, 10_000, now_ms) == 0
    assert abs((history.lag_ms(KEY, 9_500, now_ms) or 0) - 50_000) < 1_000
    assert abs((history.lag_ms(KEY, 100, now_ms) or 0) - 990_000) < 1_000


def test_pages_that_refresh_often_displace_no_older_end() -> None:
    history = EndHistory()
    for second in range(600):
        history.add(KEY, max(0, second - 400) * 10, second * 1_000)  # nothing is written until second 400
    assert abs((history.lag_ms(KEY, 10, 599_000) or 0) - 198_000) <= 10_000


def test_an_end_that_a_slower_page_reports_late_is_no_new_topic() -> None:
    history = EndHistory()
    for at_ms, end in ((0, 10), (20_000, 30), (19_000, 29), (21_000, 28)):
        history.add(KEY, end, at_ms)
    assert history.lag_ms(KEY, 20, 30_000) == 20_000
    history.add(KEY, 5, 20_000 + LATE_MS)
    assert history.lag_ms(KEY, 5, 60_000) == 0, "made anew"
    history.add(KEY, 9, 400_000)
    history.add(KEY, 9, 400_000 - SET_BACK_MS)
    assert history.lag_ms(KEY, 5, 102_000) is None, "the clock was set back"


def test_a_topic_created_again_has_no_old_ends_however_soon_it_passes_them() -> None:
    history, other = EndHistory(), ("other", 0)
    first, second = (bytes([number]) * 16 for number in (1, 2))
    for at_ms, end in ((0, 10), (20_000, 30)):
        history.add(KEY, end, at_ms, first)
        history.add(("t", 1), end, at_ms, first)
        history.add(other, end, at_ms, first)
    history.add(KEY, 40, 25_000, second)
    assert history.lag_ms(KEY, 20, 25_000) is None, "it was seen at one time"
    assert history.lag_ms(("t", 1), 20, 25_000) is None, "nor has its other partition an old end"
    assert history.lag_ms(other, 20, 20_000) == 10_000, "another topic"
    history.add(KEY, 50, 45_000)
    history.add(KEY, 50, 46_000, second)
    assert history.lag_ms(KEY, 45, 46_000) is not None, "an unknown id is no other topic"


async def test_a_line_has_the_id_of_its_topic_by_which_the_clock_knows_another_one() -> None:
    rig = DiagnosisRig(partitions=1)
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)
    queries = Queries(rig.ask_doctor)

    async def line(end: int) -> PartitionLag:
        (found,) = await queries.lags(await queries.group("g"))
        return replace(found, current_offset=5, log_end_offset=end)

    history = EndHistory()
    LagClock(history, 1_000).lag_ms(await line(9))
    assert LagClock(history, 20_000).lag_ms(await line(19)) == 19_000
    rig.ask_inside(DeleteTopics((DeletableTopic("orders"),)), call=8)
    rig.make_topic("orders", 1)
    assert LagClock(history, 21_000).lag_ms(await line(29)) is None, "its end was seen at one time"


async def test_a_scrape_tells_a_topic_that_was_created_again_too() -> None:
    rig = DiagnosisRig(partitions=1)
    rig.member("g", "app", "10.0.0.1")
    rig.run(8_000)
    queries, history = Queries(rig.ask_doctor), EndHistory()
    watch = ProblemWatch(queries, yield_to_loop, asyncio.Lock())

    async def scraped(records: int) -> int | None:
        for _ in range(records):
            rig.produce(0)
        rig.run(1_000)
        (line,) = (await measure(queries, 8, watch, history=history)).lines
        return line.lag_ms

    assert await scraped(2) is None, "the end was seen at one time"
    assert await scraped(0) == 1_000
    rig.ask_inside(DeleteTopics((DeletableTopic("orders"),)), call=8)
    rig.make_topic("orders", 1)
    assert await scraped(3) is None


def test_partitions_that_no_page_shows_are_forgotten() -> None:
    history = EndHistory()
    for partition in range(MOST_PARTITIONS):
        history.add(("old", partition), 1, 0)
    history.add(KEY, 1, 1_000)
    assert history.lag_ms(KEY, 1, 1_000) is None, "there are too many"
    history.add(KEY, 1, KEPT_MS)
    assert history.lag_ms(KEY, 1, KEPT_MS) == 0
    assert history.lag_ms(("old", 0), 1, KEPT_MS) is None


def test_a_line_has_its_lag_in_time_and_the_age_of_its_commit() -> None:
    history = EndHistory()
    behind = PartitionLag("t", 0, 10, 30, committed_ms=4_000)
    LagClock(history, 5_000).timed(behind)
    first = LagClock(history, 5_000).timed(behind)
    assert (first.lag_ms, first.commit_age_ms) == (None, 1_000), "its end was seen at one time"
    second = LagClock(history, 9_000).timed(behind)
    assert (second.lag_ms, second.commit_age_ms) == (4_000, 5_000), "at least since the first look"
    ahead = LagClock(history, 3_000).timed(PartitionLag("new", 0, 31, 30, committed_ms=4_000))
    assert (ahead.lag_ms, ahead.commit_age_ms) == (0, 0)
    unread = LagClock(history, 10_000).timed(PartitionLag("t", 0, None, 40, log_start_offset=30))
    assert (unread.lag_ms, unread.commit_age_ms) == (5_000, None), "it counts from the start of the log"
    assert LagClock(history, 10_000).lag_ms(PartitionLag("t", 0, 10, None)) is None
    assert LagClock(history, 10_000).lag_ms(PartitionLag("t", 0, None, 40)) is None
    assert commit_age_ms((first, second, unread)) == 1_000
    assert commit_age_ms((unread,)) is None


@pytest.mark.parametrize(
    ("times", "longest"),
    [((), None), ((None,), None), ((0, 0), 0), ((0, None), None), ((5, None, 9), 9)],
)
def test_the_longest_lag_is_unknown_rather_than_0(times: tuple[int | None, ...], longest: int | None) -> None:
    assert longest_ms(times) == longest


def test_a_scrape_that_takes_longer_than_pages_beside_it_loses_no_history() -> None:
    history, key = EndHistory(), ("t", 0)
    for minute in range(10):
        began_ms = minute * 60_000
        history.add(key, 100 + minute, began_ms + 31_000)  # a page
        history.add(key, 100 + minute, began_ms)  # the scrape that began before it
    assert history.lag_ms(key, 100, 9 * 60_000 + 31_000) == 9 * 60_000

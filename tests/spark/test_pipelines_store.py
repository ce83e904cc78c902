"""The times from which runs of the pipelines read the tables with a history; without Spark."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pipelines.store import OVERLAP, beginning

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_run_reads_what_is_new_and_a_little_again() -> None:
    last = NOW - timedelta(hours=1)
    assert beginning(last, NOW) == last - OVERLAP
    assert beginning(last.astimezone(timezone(timedelta(hours=-9))), NOW) == last - OVERLAP


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=9))])
def test_each_day_one_run_reads_all_so_what_nodes_could_not_send_before_is_added(zone: timezone) -> None:
    """A node is down at some runs. Whenever it is back, its samples of before are read within a day."""
    last, whole = NOW - timedelta(hours=1), []
    for hour in range(72):
        now = NOW + timedelta(hours=hour, minutes=20)
        if beginning(last.astimezone(zone), now.astimezone(zone)) is None:
            whole.append(now)
        last = now - timedelta(seconds=30)
    assert [at.day for at in whole] == [2, 3, 4]


def test_clocks_of_nodes_that_differ_by_less_than_the_overlap_do_not_hide_a_day() -> None:
    midnight = datetime(2026, 3, 2, tzinfo=UTC)
    ahead = midnight + timedelta(minutes=5)  # the newest sample, at a run just before midnight
    assert beginning(ahead, midnight + timedelta(hours=1)) is None

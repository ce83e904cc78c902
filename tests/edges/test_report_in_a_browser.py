"""The report over a simulated day, as a browser shows it: its figures are those of the day."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from pyspark.sql import SparkSession

from pipelines.offsets import latest
from pipelines.report import compute, write_page
from pyspark_muster.tables.columns import COLUMNS, TableName, ddl
from tests.edges import simulated_day as day
from tests.edges.chromium import LIMIT_MS, NEEDS_CHROMIUM, SERIOUS, launched

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, *NEEDS_CHROMIUM]
LATE_AFTER_MIN = 10


@pytest.fixture(scope="module")
def page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    def frame(table: TableName, rows: list[dict[str, Any]]) -> Any:
        return spark.createDataFrame([tuple(row.get(name) for name in COLUMNS[table]) for row in rows], ddl(table))

    commits = frame("commits", day.commits()).cache()
    ends, topics = frame("ends", day.samples()).cache(), frame("topics", day.topics())
    results = compute(frame("notes", day.notes()), commits, latest(commits), ends, topics, 60 * LATE_AFTER_MIN)
    file: Path = tmp_path_factory.mktemp("report") / "report.html"
    _, text = write_page(results, latest(commits), 60 * LATE_AFTER_MIN)
    file.write_text(text)
    with launched() as browser:
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda asked: errors.append(asked.url) if not asked.url.startswith("file:") else None)
        page.goto(file.as_uri())
        yield page
        assert errors == []


def figures(page: Page) -> dict[str, str]:
    names = page.locator("dt").all_inner_texts()
    return dict(zip(names, page.locator("dd").all_inner_texts(), strict=True))


def table(page: Page, title: str) -> list[dict[str, str]]:
    section = page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))
    columns = section.locator("th").all_inner_texts()
    rows = section.locator("tbody tr")
    return [
        dict(zip(columns, rows.nth(index).locator("td").all_inner_texts(), strict=True))
        for index in range(rows.count())
    ]


def test_the_figures_at_the_top_are_those_of_the_day(page: Page) -> None:
    shown = figures(page)
    standstill = sum(len(day.GROUPS) * len(day.WORKERS) * day.rebalance_ms(hour) for hour in range(24))
    late = max(sum(day.late_minutes(group, LATE_AFTER_MIN)[: day.MINUTES]) for group in day.GROUPS)
    moves = [one for hour in range(24) if (one := day.moved(hour)) is not None]
    moved, known = (len(day.GROUPS) * number for number in (sum(one[0] for one in moves), sum(map(sum, moves))))
    assert shown == {
        "rebalances": str(24 * len(day.GROUPS)),
        "members stood still": f"{standstill / 1_000:,.1f} s",
        "partitions moved": f"{moved} of {known}",
        "records behind": f"{sum(day.lags(group)[-1] for group in day.GROUPS):,}",
        f"least time less than {60 * LATE_AFTER_MIN} s behind": f"{round(100 * (1 - late / day.MINUTES), 2):g} %",
        "offsets that go within 7 days": str(len(day.PRODUCED)),
        "orphans": "1",
    }


def test_each_table_names_who_it_was(page: Page) -> None:
    began = table(page, "Who began them")
    assert len(began) == len(day.GROUPS) * len(day.WORKERS)
    for row in began:
        hours = range(day.WORKERS.index(row["begun by"]), 24, len(day.WORKERS))
        standstill = sum(len(day.WORKERS) * day.rebalance_ms(hour) for hour in hours)
        assert (row["rebalances"], row["standstill"]) == (str(len(hours)), f"{standstill / 1_000:,.1f} s")
        moves = [one for hour in hours if (one := day.moved(hour)) is not None]
        told = str(sum(one[0] for one in moves)), str(sum(one[1] for one in moves))
        assert (row["moved partitions"], row["kept partitions"]) == told
    lag = {row["group"]: row["lag"] for row in table(page, "Lag")}
    behind = {group: day.lags(group)[-1] for group in day.GROUPS}
    assert lag == {group: f"{records:,}" for group, records in behind.items()}
    drained = {row["group"]: row["drained in"] for row in table(page, "Time to drain")}
    assert (drained["steady"], drained["falls-behind"]) == ("0 ms", "-")
    (newest, *_) = table(page, "Consumption and lag by hour")
    assert newest["hour"] == "2026-03-01 23:00:00"
    levels = [row["group"] for row in table(page, "Service levels")]
    assert set(levels) == day.GROUPS.keys()
    assert levels[-1] == "steady"
    assert [row["topic"] for row in table(page, "Orphans")] == ["gone"]
    assert [row["topic"] for row in table(page, "Topics that nobody reads")] == ["audit", "spare"]


def test_plots_are_drawn_to_scale(page: Page) -> None:
    bars = page.locator("svg[aria-label='Lag'] rect")
    widths = [float((bars.nth(index).get_attribute("width") or "").rstrip("%")) for index in range(bars.count())]
    behind = sorted((day.lags(group)[-1] for group in day.GROUPS), reverse=True)
    assert widths == pytest.approx([55 * records / behind[0] for records in behind], abs=0.01)
    boxes = [bars.nth(index).bounding_box() for index in range(len(behind))]
    assert boxes[0] is not None
    assert boxes[0]["width"] > 0


def test_the_page_can_be_read_by_everyone(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in SERIOUS] == []

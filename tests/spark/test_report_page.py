"""The page of the pipelines: escaping, units, bars, long tables; without Spark."""

from datetime import UTC, datetime, timedelta, timezone
from xml.etree import ElementTree as ET

import pytest

from pipelines.page import ROWS, Plot, Row, Section, bars, cell, render

WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def section(*rows: Row, plot: Plot | None = None) -> Section:
    return Section("Cost", "By group.", rows, "No group has rebalanced.", plot)


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("standstill_ms", 1_234_567, "1,234.6 s"),
        ("awaited_ms", 7, "7 ms"),
        ("lag", 12_345, "12,345"),
        ("partition", 1_000, "1000"),
        ("begun_by", None, "-"),
        ("time", WHEN.astimezone(timezone(timedelta(hours=9))), "2026-03-01 12:00:00"),
    ],
)
def test_values_are_shown_with_their_units_and_times_in_utc(column: str, value: object, shown: str) -> None:
    assert cell(column, value) == shown


def test_a_plot_has_a_bar_for_each_label_and_the_longest_is_the_whole_width() -> None:
    rows: list[Row] = [
        {"group": "a", "ms": 30},
        {"group": "b", "ms": 5},
        {"group": "a", "ms": 10},
        {"group": "c", "ms": None},
    ]
    found = bars(section(*rows, plot=Plot("group", "ms")))
    assert [(bar.label, bar.share) for bar in found] == [("a", 100), ("b", 12.5), ("c", 0)]
    assert bars(section({"group": "a", "ms": 0}, plot=Plot("group", "ms"))) == []
    assert bars(section({"group": "a", "ms": 1})) == []


def test_a_page_is_well_formed_and_escapes_what_clients_are_called() -> None:
    evil = '<script>alert("x")</script>&'
    page = render("Groups", WHEN, {"rebalances": "3"}, [section({"group": evil, "ms": 1}, plot=Plot("group", "ms"))])
    assert "<script" not in page
    tree = ET.fromstring(
        page.removeprefix("<!doctype html>")
        .replace('<meta charset="utf-8">', "")
        .replace('<meta name="viewport" content="width=device-width, initial-scale=1">', "")
    )
    assert [one.text for one in tree.iter("td")] == [evil, "1"]
    assert [one.text for one in tree.iter("text")] == [evil, "1"]
    assert "http" not in page


def test_an_empty_table_has_a_sentence_and_a_long_one_tells_its_length() -> None:
    assert "No group has rebalanced." in render("Groups", WHEN, {}, [section()])
    page = render("Groups", WHEN, {}, [section(*({"group": f"g{number}"} for number in range(ROWS + 5)))])
    assert f"The first {ROWS} of {ROWS + 5} rows." in page
    assert page.count("<td>") == ROWS

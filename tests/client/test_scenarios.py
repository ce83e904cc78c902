"""Every scenario has its one test, and the page which says so is current."""

import pytest

from tests.client.scenarios import ROOT, SERIES, by_number, page


@pytest.mark.parametrize(("series", "count"), [("h", 99), ("cb", 62)])
def test_every_scenario_has_exactly_one_test(series: str, count: int) -> None:
    assert count == sum(len(scenarios) for _, scenarios in SERIES[series])
    found = by_number(series)
    assert [number for number in range(1, count + 1) if number not in found] == [], "no test bears these numbers"
    twice = {number: [one.name for one in ones] for number, ones in found.items() if len(ones) > 1}
    assert twice == {}, "one test a scenario"


def test_the_page_of_scenarios_is_current() -> None:
    assert (ROOT / "docs" / "scenarios.md").read_text() == page(), "run `make scenarios`"

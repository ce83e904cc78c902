"""Every scenario has its test, and the page which says so is current."""

import pytest

from tests.client.scenarios import ROOT, SERIES, by_number, page
from tests.groups.consumer import scenarios as server_driven


@pytest.mark.parametrize(("series", "count"), [("h", 99), ("cb", 62)])
def test_every_scenario_has_exactly_one_test(series: str, count: int) -> None:
    assert count == sum(len(scenarios) for _, scenarios in SERIES[series])
    found = by_number(series)
    assert [number for number in range(1, count + 1) if number not in found] == [], "no test bears these numbers"
    twice = {number: [one.name for one in ones] for number, ones in found.items() if len(ones) > 1}
    assert twice == {}, "one test a scenario"


def test_every_scenario_of_server_driven_groups_is_named_by_a_test() -> None:
    specified = [number for scenarios in server_driven.themes().values() for number in scenarios]
    assert specified == list(range(1, 92))
    found = server_driven.by_number()
    assert [number for number in specified if number not in found] == [], "no test names these numbers"
    assert sorted(set(found) - set(specified)) == [], "the specification has no such scenarios"


def test_the_page_of_scenarios_is_current() -> None:
    assert (ROOT / "docs" / "scenarios.md").read_text() == page(), "run `make scenarios`"

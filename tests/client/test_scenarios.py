"""That every scenario of the consumer has its one test, and that the page which says so is current."""

from tests.client.scenarios import ROOT, THEMES, by_number, page


def test_every_scenario_has_exactly_one_test() -> None:
    count = sum(len(scenarios) for _, scenarios in THEMES)
    assert count == 70
    found = by_number()
    assert [number for number in range(1, count + 1) if number not in found] == [], "no test bears these numbers"
    twice = {number: [one.name for one in ones] for number, ones in found.items() if len(ones) > 1}
    assert twice == {}, "one test a scenario"


def test_the_page_of_scenarios_is_current() -> None:
    assert (ROOT / "docs" / "scenarios.md").read_text() == page(), "run `make scenarios`"

import pytest

from partition_log.errors import LogDamaged
from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import verdict_of
from tests.mutants.mutant import OURS, Edit, Mutant, Test, Transcript
from tests.mutants.scenario import ROOT, Scenario
from tests.mutants.table import printed, rules
from tests.simulation.errors import Broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bug_can_still_be_put_into_the_code(mutant: Mutant) -> None:
    for edit in mutant.edits:
        compile(edit.apply(ROOT), edit.file, "exec")
    assert len({(edit.file, edit.text) for edit in mutant.edits}) == len(mutant.edits) > 0


def test_there_are_thirty_of_them_twelve_of_other_coordinators_and_most_are_found_by_stories() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len({mutant.story for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(mutant.origin != OURS for mutant in MUTANTS) >= 12
    assert sum(not isinstance(mutant.check, Test | Scenario) for mutant in MUTANTS) >= 24


def test_no_numbered_scenario_has_its_rule_taken_out_twice() -> None:
    numbers = [mutant.check.number for mutant in MUTANTS if isinstance(mutant.check, Scenario)]
    assert len(set(numbers)) == len(numbers) > 0


def test_each_check_is_there() -> None:
    for mutant in MUTANTS:
        check = mutant.check
        if isinstance(check, Test):
            file, _, name = check.node.partition("::")
            assert name.partition("[")[0] in (ROOT / file).read_text(), mutant.name
        elif isinstance(check, Scenario):
            assert check.node.partition("::")[2].startswith(f"test_{check.number.lower()}_"), mutant.name
        elif isinstance(check, Transcript):
            assert (ROOT / "tests" / "transcripts" / f"{check.stem}.txt").exists(), mutant.name


@pytest.mark.parametrize("error", [AssertionError("no"), Broken("no"), LogDamaged("a.log", 0, 0, "no", "Stop")])
def test_a_bug_is_caught_by_what_a_check_says(error: Exception) -> None:
    assert verdict_of(error).is_telling


@pytest.mark.parametrize(
    "error", [ImportError("no"), NameError("no"), TypeError(), pytest.fail.Exception("Timeout (>1 s)")]
)
def test_an_accident_catches_nothing(error: Exception) -> None:
    assert not verdict_of(error).is_telling


def test_a_test_that_takes_apart_fewer_things_than_it_expects_says_so() -> None:
    with pytest.raises(ValueError, match="not enough values") as raised:
        (_one,) = list[int]()
    assert verdict_of(raised.value).is_telling
    assert not verdict_of(ValueError("not enough values to unpack")).is_telling, "it comes from nowhere"


def test_an_edit_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        Edit("coordinator/runtime/offset_table.py", "nothing of the kind", "").apply(ROOT)


def test_the_table_in_the_docs_is_current() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert printed(page) == page, "run: python -m tests.mutants --markdown < docs/testing.md"


def test_the_page_of_rules_is_current() -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    assert rules() == page, "run: python -m tests.mutants --rules > docs/rules.md"

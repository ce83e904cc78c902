import pytest

from partition_log.errors import LogDamaged
from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import verdict_of
from tests.mutants.mutant import OURS, ROOT, Edit, Mutant, Test, Transcript
from tests.mutants.table import printed
from tests.simulation.errors import Broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bug_can_still_be_put_into_the_code(mutant: Mutant) -> None:
    for edit in mutant.edits:
        compile(edit.apply(ROOT), edit.file, "exec")


def test_there_are_thirty_of_them_twelve_of_other_coordinators_and_most_are_found_by_stories() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len({mutant.story for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(mutant.origin != OURS for mutant in MUTANTS) >= 12
    assert sum(not isinstance(mutant.check, Test) for mutant in MUTANTS) >= 24


def test_each_check_is_there() -> None:
    for mutant in MUTANTS:
        check = mutant.check
        if isinstance(check, Test):
            file, _, name = check.node.partition("::")
            assert name.partition("[")[0] in (ROOT / file).read_text(), mutant.name
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


def test_an_edit_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        Edit("coordinator/offsets.py", "nothing of the kind", "").apply(ROOT)


def test_the_table_in_the_docs_is_current() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert printed(page) == page, "run: python -m tests.mutants --markdown < docs/testing.md"

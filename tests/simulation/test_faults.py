"""Each fault of the list alone, by a seed that hits its mark: so every one of them is met in every run of the tests,
the rare ones too."""

from pathlib import Path

import pytest

from tests.simulation.marks import BEGIN, END, FAULTS, Fault, table
from tests.simulation.mishaps import MISHAPS
from tests.simulation.pins import FIRST, PINS, kinds_of, staged
from tests.simulation.plan import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def _on_one_worker(fault: Fault) -> object:
    """Faults that are looked for in the same world go where it has been run."""
    world = f"{PINS.get(fault.name, FIRST)} {' '.join(kinds_of(fault))}"
    return pytest.param(fault, id=fault.name, marks=pytest.mark.xdist_group(f"world {world}"))


@pytest.mark.parametrize("fault", [_on_one_worker(fault) for fault in FAULTS])
def test_the_fault_is_met_and_everything_holds(fault: Fault) -> None:
    seed = PINS.get(fault.name, FIRST)
    assert staged(fault, seed) > 0, f"seed {seed} hits it no longer: python -m tests.simulation.pins finds another"


def test_each_pinned_seed_is_that_of_a_fault() -> None:
    assert PINS.keys() <= {fault.name for fault in FAULTS}


def test_every_kind_of_decision_is_carried_out_and_has_a_mark() -> None:
    assert MISHAPS.keys() == KINDS.keys()
    assert {fault.kind for fault in FAULTS} == KINDS.keys() - {"weather", "member"}


def test_the_table_of_faults_in_the_docs_is_current() -> None:
    page = PAGE.read_text()
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip() == table()

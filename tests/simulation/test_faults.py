"""Each fault of the list alone, until its mark is hit: so every one of them is met in every run of the tests, the rare
ones too."""

from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.marks import BEGIN, END, FAULTS, Fault, table
from tests.simulation.mishaps import MISHAPS
from tests.simulation.plan import KINDS, draw
from tests.simulation.world import World

MOST_WORLDS = 60
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_met_and_everything_holds(fault: Fault) -> None:
    seen = Counter[str]()
    on = [kind for kind in (fault.kind, *fault.beside) if kind not in ("ledger", "weather")]
    for seed in range(1_000, 1_000 + MOST_WORLDS):
        world = World(seed, draw(seed, on=on))
        seen.update(world.run().counts)
        if seen[fault.mark]:
            break
    assert seen[fault.mark] > 0


def test_every_kind_of_decision_is_carried_out_and_has_a_mark() -> None:
    assert MISHAPS.keys() == KINDS.keys()
    assert {fault.kind for fault in FAULTS} == KINDS.keys() - {"weather", "member"}


def test_the_table_of_faults_in_the_docs_is_current() -> None:
    page = PAGE.read_text()
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip() == table()

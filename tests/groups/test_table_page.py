from pathlib import Path

from coordinator.groups.classic.printed import page
from coordinator.groups.client_balanced import printed as balanced

ROOT = Path(__file__).parents[2]


def test_the_printed_table_in_the_docs_is_the_table_that_runs() -> None:
    assert (ROOT / "docs" / "state-table.md").read_text() == page() + "\n" + balanced.page(), "run `make table`"

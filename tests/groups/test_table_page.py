from pathlib import Path

from coordinator.tools.state_table_page import page

ROOT = Path(__file__).parents[2]


def test_the_printed_tables_in_the_docs_are_the_tables_that_run() -> None:
    assert (ROOT / "docs" / "state-table.md").read_text() == page(), "run `make table`"

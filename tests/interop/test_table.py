"""The table as it is printed."""

import pytest

from interop.catalogue import Client
from interop.table import BEGIN, END, Result, Row, Verdict, failures, printed, spliced

CLIENT = Client("x", "1", "C", "./x", capabilities=("configs", "admin_topics"), driven=("mixed",))
RESULTS = (Result("configs", Verdict.PASSED, "seen"), Result("mixed", Verdict.FAILED, "two\nlines"))


def _cells(row: Row) -> dict[str, str]:
    head, _, line = printed([row]).splitlines()[:3]
    names, cells = ([cell.strip() for cell in text.strip("|").split("|")] for text in (head, line))
    return dict(zip(names, cells, strict=True))


def test_a_cell_says_what_came_of_it_or_that_it_was_not_run_or_never_offered() -> None:
    cells = _cells(Row(CLIENT, RESULTS))
    assert [cells[name] for name in ("client", "configs", "mixed", "admin topics", "idempotent")] == [
        "x",
        "ok",
        "**failed**",
        "",
        "-",
    ]


def test_a_client_that_is_not_here_says_for_want_of_what() -> None:
    row = Row(CLIENT, (), ("mvn",))
    assert _cells(row)["configs"] == "not here"
    assert _cells(row)["idempotent"] == "-"
    assert "for want of mvn" in printed([row])
    assert failures([row]) == []


def test_what_failed_is_told_in_one_line() -> None:
    assert failures([Row(CLIENT, RESULTS)]) == ["x mixed: two\nlines"]
    assert "*mixed*: FAILED: two lines" in printed([Row(CLIENT, RESULTS)])


def test_the_table_takes_the_place_of_the_last_one() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = spliced(page, "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert spliced(once, "new\n") == once


def test_a_page_without_a_place_for_it_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="no place"):
        spliced("a page", "new")

"""The page that says what each request needs."""

import pytest

from coordinator.tools.access_page import fill
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()


def test_the_printed_permissions_are_those_in_force() -> None:
    assert fill(PAGE) == PAGE, "run `make table`"


def test_an_outdated_page_is_printed_anew_and_one_without_its_marks_is_refused() -> None:
    assert fill(PAGE.replace("| DESCRIBE on each group |", "| nothing |")) == PAGE
    with pytest.raises(ValueError, match="no marks"):
        fill("a page")

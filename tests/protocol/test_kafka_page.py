"""docs/kafka.md says what is spoken."""

import re
from pathlib import Path

import pytest

from protocol.apis import WIRE_APIS
from protocol.kafka.page import fill

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()


def test_the_table_in_the_docs_is_the_table_of_apis() -> None:
    assert fill(PAGE) == PAGE, "run `make wire`"


def test_what_is_advertised_is_on_the_page_and_nothing_else() -> None:
    keys = {int(key) for key in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert keys == {api.key for api in WIRE_APIS.values() if api.advertised}
    assert WIRE_APIS.keys() - keys == {24, 25, 26, 28, 65}, "spoken, and not offered"


def test_an_outdated_table_is_printed_anew_and_a_page_without_its_marks_is_refused() -> None:
    assert fill(PAGE.replace("| 11 | JoinGroup | 0 to 9 | 6 |", "")) == PAGE
    with pytest.raises(ValueError, match="no marks"):
        fill("# A page")

"""docs/wire.md says what the messages are."""

import re
from pathlib import Path

import pytest

from coordinator.handlers.table import HANDLERS
from protocol.native.methods import METHODS, PUSHES
from protocol.native.page import fill

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()


def test_the_tables_in_the_docs_are_the_messages_that_travel() -> None:
    assert fill(PAGE) == PAGE, "run `make wire`"


def test_every_method_that_is_served_and_every_push_is_on_the_page() -> None:
    titles = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
    assert titles == METHODS.keys() | PUSHES.keys()
    assert {message.__name__ for message in HANDLERS} | {"Hello", "Login"} >= METHODS.keys()


def test_a_field_shows_its_path_its_type_and_what_is_meant_when_it_is_left_out() -> None:
    for row in (
        "| `group_id` | str | *required* |",
        "| `protocols[].metadata` | bin | no bytes |",
        "| `wants_member_id_first` | bool | `true` |",
        "| `topics` | list of map or nil | `nil` |",
        "| `coordinator_keys` | list of str | may be left out |",
        "| `responses[].partition_responses[].error_code` | int, an error code |",
        "| `counters` | map of str to int |",
    ):
        assert f"\n{row}\n" in PAGE


def test_an_outdated_table_is_printed_anew_and_a_page_without_its_marks_is_refused() -> None:
    assert fill(PAGE.replace("| `group_id` | str |", "| `group_id` | int |")) == PAGE
    with pytest.raises(ValueError, match="no marks for the methods"):
        fill("# A page")

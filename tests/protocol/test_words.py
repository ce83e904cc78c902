"""Numbers in words."""

import pytest

from protocol.words import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 members"), (1, "1 member"), (2, "2 members")])
def test_one_is_a_noun_and_any_other_number_its_plural(number: int, text: str) -> None:
    assert counted(number, "member") == text

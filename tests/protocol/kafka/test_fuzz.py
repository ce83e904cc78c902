"""A few thousand broken inputs for each decoder; `make fuzz` runs more of them."""

import pytest

from tests.enumerations import share_of
from tests.protocol.kafka.fuzz import TARGETS, fuzz


@pytest.mark.parametrize("target", TARGETS)
def test_broken_bytes_are_refused_and_nothing_else_happens(target: str) -> None:
    assert fuzz(target, share_of(1_500), seed=11) == []

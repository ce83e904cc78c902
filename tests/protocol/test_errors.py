"""The codes: Kafka's numbers, names and classes, and numbers that nobody has named yet."""

import pickle
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Judge

from protocol.errors import ErrorCode

_KAFKAS = [code for code in ErrorCode if code.value < 400]


@pytest.mark.parametrize("code", _KAFKAS, ids=lambda code: code.name)
def test_a_code_is_what_kafka_says_it_is(code: ErrorCode) -> None:
    judged = Judge(code.value)
    assert judged.name.upper() == code.name
    # Who commits in the middle of a rebalance may try again, once it is over.
    assert judged.retriable == code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("number", [9_999, -2, 32_767, -32_768])
def test_a_number_that_nobody_has_named_is_a_code_all_the_same(number: int) -> None:
    code = ErrorCode(number)
    assert isinstance(code, ErrorCode)
    assert (code, code.value, code.name) == (number, number, f"UNKNOWN_ERROR_{number}")
    assert not (code.is_known or code.retriable)
    assert ErrorCode(number) == code
    assert pickle.loads(pickle.dumps(code)) == code
    assert number not in [one.value for one in ErrorCode]


@pytest.mark.parametrize("what", [32_768, -32_769, "NONE", 1.5])
def test_what_no_wire_could_carry_is_no_code(what: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid ErrorCode"):
        ErrorCode(what)

"""Any message, made from its type: Hypothesis strategies and the smallest sample."""

import types
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.messages import Int8, Int16, Message

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    int: st.integers(-(2**31), 2**31 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
    ErrorCode: st.sampled_from(ErrorCode),
}


def messages(message: type[Message], **fixed: object) -> st.SearchStrategy[Any]:
    if not fixed:
        return values(message)
    return st.builds(message, **(_fields(message) | {name: st.just(value) for name, value in fixed.items()}))


def _fields(message: type[Message]) -> dict[str, st.SearchStrategy[Any]]:
    return {field.name: values(field.type) for field in msgspec.structs.fields(message)}


@cache  # Hypothesis validates each strategy object once, which is slow
def values(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (Int8, Int16):
        most: int = arguments[1].le
        return st.integers(-most - 1, most)
    if origin is Annotated:
        return values(arguments[0])
    if origin in (types.UnionType, Union):
        return st.one_of(*map(values, arguments))
    if origin is tuple:
        assert arguments[1:] == (...,)
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    assert issubclass(annotation, Message), annotation
    return st.builds(annotation, **_fields(annotation))

"""Kafka's wire can carry all values of native requests: in front of brokers some of them are forwarded."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from protocol.apis import WIRE_APIS
from protocol.kafka.fields import FieldGroup, Fixed, Inline, Many, Maybe, Nested

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


def _numbers(group: FieldGroup) -> Iterator[tuple[str, str, Any]]:
    """Each field that holds whole numbers: its name, the width on the wire, and what the message promises."""
    hints = get_type_hints(group.message, include_extras=True)
    for row in group.rows:
        kind: Any = row.type
        if isinstance(kind, Many):
            kind = kind.item
        if isinstance(kind, Inline | Maybe | Nested):
            kind = kind.group
        if isinstance(kind, FieldGroup):
            yield from _numbers(kind)
        elif isinstance(kind, Fixed) and kind.code in _BITS and row.name and not row.write_as:
            yield f"{group.message.__name__}.{row.name}", kind.code, hints[row.name]


def _ranges(hint: Any) -> Iterator[tuple[float, float]]:
    """Yield the range of every kind of number in the type."""
    if get_origin(hint) is Annotated:
        kind, *metas = get_args(hint)
        if kind is int:
            bounds = [meta for meta in metas if isinstance(meta, msgspec.Meta)]
            yield (
                max((one.ge for one in bounds if one.ge is not None), default=float("-inf")),
                min((one.le for one in bounds if one.le is not None), default=float("inf")),
            )
    elif get_origin(hint) in {tuple, Union, UnionType}:
        for part in get_args(hint):
            yield from _ranges(part)
    elif hint is int:
        yield float("-inf"), float("inf")


@pytest.mark.parametrize("api", WIRE_APIS.values(), ids=lambda api: api.request.name)
def test_no_request_holds_a_number_that_is_too_wide(api: Any) -> None:
    too_wide = []
    for name, code, hint in _numbers(api.request.group):
        most = 1 << (_BITS[code] - 1)
        if any(low < -most or high > most - 1 for low, high in _ranges(hint)):
            too_wide.append(f"{name} has {_BITS[code]} bits")
    assert not too_wide

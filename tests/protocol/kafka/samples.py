"""Any message of any version, made from its schema with values from an instance of Choices."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from protocol.apis import WIRE_APIS, WireApi
from protocol.errors import ErrorCode
from protocol.kafka.fields import (
    ERROR,
    UUID,
    Absent,
    Field,
    FieldGroup,
    Fixed,
    Inline,
    Many,
    Maybe,
    Nested,
    SameAs,
    Schema,
    Sized,
)
from protocol.kafka.source import default, present
from protocol.messages import Message

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

KAFKAS = [code for code in ErrorCode if code < ErrorCode.BAD_REQUEST]
"""Kafka's error codes; the others are never sent to Kafka clients."""


class Case(NamedTuple):
    """One side of one version of one API."""

    api: WireApi
    version: int
    schema: Schema

    @property
    def is_request(self) -> bool:
        return self.schema is self.api.request

    @property
    def is_flexible(self) -> bool:
        return self.version >= self.schema.flexible

    def __str__(self) -> str:
        return f"{self.schema.name}-v{self.version}"


CASES = [
    Case(api, version, schema)
    for api in WIRE_APIS.values()
    for version in range(api.request.oldest, api.request.newest + 1)
    for schema in (api.request, api.reply)
]


class Choices(Protocol):
    """Chooses values of fields."""

    def integer(self, bits: int) -> int: ...
    def flag(self) -> bool: ...
    def text(self) -> str: ...
    def data(self) -> bytes: ...
    def error(self) -> ErrorCode: ...
    def count(self) -> int: ...
    def is_null(self) -> bool: ...


class Filled:
    """Chooses different values for neighbouring fields, so that a swap of fields is noticed."""

    def __init__(self, *, entries: int = 2, nulls: bool = False) -> None:
        self._entries = entries
        self._nulls = nulls
        self._last = 0

    def _next(self) -> int:
        self._last += 1
        return self._last

    def integer(self, bits: int) -> int:
        number = self._next()
        # What counts milliseconds since 1970 is a whole second for one of the judges.
        return number % 100 if bits == 8 else number * 1_000 if bits == 64 else number

    def flag(self) -> bool:
        return bool(self._next() % 2)

    def text(self) -> str:
        return f"größe-{self._next()}-日本🙂" if self._entries else ""

    def data(self) -> bytes:
        return b"\x00\xff" + self._next().to_bytes(14, "big") if self._entries else b""

    def error(self) -> ErrorCode:
        known = KAFKAS
        return known[self._next() % len(known)]

    def count(self) -> int:
        return self._entries

    def is_null(self) -> bool:
        return self._nulls


class Chosen:
    """Values chosen by an instance of `random.Random`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def integer(self, bits: int) -> int:
        bound = self._random.choice((1, 100, (1 << (bits - 1)) - 1))
        return self._random.randint(-bound - 1, bound)

    def flag(self) -> bool:
        return self._random.random() < 0.5

    def text(self) -> str:
        return self._random.choice(("", "a", "topic-1", "größe", "x" * 200))

    def data(self) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 5, 130)))

    def error(self) -> ErrorCode:
        return self._random.choice(KAFKAS)

    def count(self) -> int:
        return self._random.choice((0, 1, 1, 2, 3))

    def is_null(self) -> bool:
        return self._random.random() < 0.3


class _Drawn:
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, bits: int) -> int:
        number: int = self._draw(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        return number

    def flag(self) -> bool:
        return bool(self._draw(st.booleans()))

    def text(self) -> str:
        return str(self._draw(_TEXTS))

    def data(self) -> bytes:
        return bytes(self._draw(_DATA))

    def error(self) -> ErrorCode:
        return ErrorCode(self._draw(_ERRORS))

    def count(self) -> int:
        return int(self._draw(_COUNTS))

    def is_null(self) -> bool:
        return bool(self._draw(st.booleans()))


_TEXTS = st.text(max_size=12) | st.sampled_from(["x" * 126, "x" * 127, "x" * 128, "ü" * 4_000])
_DATA = st.binary(max_size=12) | st.sampled_from([bytes(126), bytes(127), bytes(20_000)])
_ERRORS = st.sampled_from(list(ErrorCode))
_COUNTS = st.integers(0, 3)


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Case, Message]:
    """Draw any message of any version, with only what that version can carry."""
    case: Case = draw(st.sampled_from(CASES))
    return case, sample(case, _Drawn(draw))


def sample(case: Case, choices: Choices) -> Message:
    """Return a message as a reader of this version returns it: fields that the version lacks have their defaults."""
    return _group(case.schema.group, case.version, choices)


def _group(group: FieldGroup, version: int, choices: Choices) -> Message:
    values = {row.name: _value(row, version, choices) for row in present(group, version)}
    values.pop("", None)
    return group.message(**(_absent(group, version, values) | values))


def _absent(group: FieldGroup, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of fields that this version lacks, and of its facts."""
    rows = {row.name: row for row in group.rows}
    lacking: dict[str, Any] = {}
    for name in group.message.__struct_fields__:
        if name in group.facts:
            lacking[name] = group.facts[name](version)
        elif name not in values:
            given = rows[name].default if name in rows else Absent
            if isinstance(given, SameAs):
                lacking[name] = values[given.name]
            else:
                lacking[name] = default(group, name) if given is Absent else given
    return lacking


def _value(row: Field, version: int, choices: Choices) -> Any:
    kind = row.type
    value: Any
    if row.nullable <= version and not row.read_as and choices.is_null():
        value = None
    elif isinstance(kind, Inline):
        value = (_group(kind.group, version, choices),)
    elif isinstance(kind, Nested):
        value = _group(kind.group, version, choices)
    elif isinstance(kind, Maybe):
        value = None if choices.is_null() else _group(kind.group, version, choices)
    elif isinstance(kind, Many):
        item = kind.item
        make = (
            (lambda: _group(item, version, choices))
            if isinstance(item, FieldGroup)
            else (lambda: _scalar(item, choices))
        )
        value = tuple(make() for _ in range(choices.count()))
    else:
        value = _scalar(kind, choices)
    return eval(row.read_as.format("value"), {"value": value}) if row.read_as else value


def _scalar(kind: Fixed | Sized, choices: Choices) -> Any:
    if kind is ERROR:
        return choices.error()
    if kind is UUID:
        return (choices.data() + bytes(16))[:16]
    if isinstance(kind, Sized):
        return choices.text() if kind.is_text else choices.data()
    if kind.code == "d":
        return choices.integer(32) / 8
    return choices.flag() if kind.code == "?" else choices.integer(_BITS[kind.code])


def carried(group: FieldGroup, message: Any, version: int) -> Message:
    """Return the message as it is after a trip in this version."""
    values = {
        row.name: _carried_value(row, getattr(message, row.name), version)
        for row in present(group, version)
        if row.name
    }
    return group.message(**(_absent(group, version, values) | values))


def _carried_value(row: Field, value: Any, version: int) -> Any:
    kind = row.type
    if value is None:
        if row.nullable <= version or isinstance(kind, Maybe):
            return None
        if isinstance(kind, Many):
            return eval(row.read_as.format("()")) if row.read_as else ()
        return "" if isinstance(kind, Sized) and kind.is_text else b""
    if isinstance(kind, Inline):
        return (carried(kind.group, value[0], version),)
    if isinstance(kind, Maybe | Nested):
        return carried(kind.group, value, version)
    if isinstance(kind, Many) and isinstance(kind.item, FieldGroup):
        item = kind.item
        return tuple(carried(item, one, version) for one in value)
    if row.read_as and isinstance(kind, Fixed):
        return eval(row.read_as.format(value))
    return value

"""Elements of schemas: a row for each field, with the versions that have it as columns.

A schema describes one typed message on the wire in every version of its API; `reading` and `writing` turn it into
straight-line readers and writers, one for each version. Encodings are those of docs/spec/group-protocol.md#8.2; from
the API's first `flexible` version on lengths are unsigned varints and every struct ends with tagged fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from protocol.messages import Message

NEWEST = 0x7FFF

Facts = Mapping[str, Callable[[int], Any]]
"""Fields of the message that express a version's behaviour, by name, since messages have no version number."""


class Fixed(NamedTuple):
    """A type of fixed width, by its `struct` code."""

    code: str


class Sized(NamedTuple):
    """A type with a length in front. `longest` bounds it in bytes; None: only the frame does."""

    is_text: bool
    longest: int | None
    length_code: str


class SameAs(NamedTuple):
    """Default of a field: the value of another field."""

    name: str


INT8, INT16, INT32, INT64, FLOAT64, BOOL, UUID = map(Fixed, ("b", "h", "i", "q", "d", "?", "16s"))
ERROR = Fixed("h")
"""Type of an `ErrorCode`."""

# Names and ids. A text of 8,000 bytes has at most 8,000 characters, which is what messages promise (`Text`).
STRING = Sized(True, 8_000, "h")
LONG_STRING = Sized(True, None, "h")
GROUP_ID = LONG_STRING
"""See `protocol.messages.GroupId`."""
BYTES = Sized(False, None, "i")

Scalar = Fixed | Sized


class Field(NamedTuple):
    """One field, in versions `since` to `until`, both included; null is allowed from `nullable` on.

    `default` is the value in versions without the field, if that is not the message's own default. `read_as` converts
    the wire's value to the message's: an expression with `{}` for the value; `write_as` is the inverse. `tag` is the
    number of a tagged field.
    """

    name: str
    type: "Scalar | Many | Inline | Maybe | Nested"
    since: int
    until: int
    nullable: int
    default: Any
    read_as: str
    tag: int | None
    write_as: str = ""


class Many(NamedTuple):
    """An array. `item` is a scalar, or the struct of each element; a `bare` struct has no tagged fields."""

    item: "Scalar | FieldGroup"
    bare: bool


class Inline(NamedTuple):
    """The fields of a tuple's only element, inlined: old versions have these where newer ones have a list."""

    group: "FieldGroup"


class Maybe(NamedTuple):
    """A nullable struct; a byte in front says whether it is null."""

    group: "FieldGroup"


class Nested(NamedTuple):
    """A struct that is never null, with tagged fields of its own."""

    group: "FieldGroup"


class FieldGroup(NamedTuple):
    """Fields of one struct."""

    message: type[Message]
    rows: tuple[Field, ...]
    facts: Facts


class Absent:
    """Marker of a row without a default."""


def f(
    name: str,
    kind: "Scalar | Many",
    *,
    since: int = 0,
    until: int = NEWEST,
    nullable: int = NEWEST + 1,
    default: Any = Absent,
    read_as: str = "",
    write_as: str = "",
    tag: int | None = None,
) -> Field:
    """Make the row of a field."""
    return Field(name, kind, since, until, nullable, default, read_as, tag, write_as)


def skip(kind: Scalar, value: Any, *, since: int = 0, until: int = NEWEST) -> Field:
    """Make the row of a field that the message does not have: skipped when read, and always written with this value."""
    return Field("", kind, since, until, NEWEST + 1, value, "", None)


def array(
    name: str,
    message: type[Message],
    *rows: Field,
    since: int = 0,
    until: int = NEWEST,
    nullable: int = NEWEST + 1,
    default: Any = Absent,
    read_as: str = "",
    tag: int | None = None,
    bare: bool = False,
    facts: Facts | None = None,
) -> Field:
    """Make the row of a field that is an array of structs."""
    many = Many(FieldGroup(message, rows, facts or {}), bare)
    return Field(name, many, since, until, nullable, default, read_as, tag)


def each(kind: Scalar) -> Many:
    """Make the type of an array of scalars."""
    return Many(kind, True)


def sole(
    name: str, message: type[Message], *rows: Field, since: int = 0, until: int = NEWEST, facts: Facts | None = None
) -> Field:
    """Make the row of a list's only element, inlined."""
    return Field(name, Inline(FieldGroup(message, rows, facts or {})), since, until, NEWEST + 1, Absent, "", None)


def maybe(name: str, message: type[Message], *rows: Field, since: int = 0) -> Field:
    """Make the row of a nullable struct."""
    return Field(name, Maybe(FieldGroup(message, rows, {})), since, NEWEST, 0, None, "", None)


def nested(name: str, message: type[Message], *rows: Field) -> Field:
    """Make the row of a struct that is never null."""
    return Field(name, Nested(FieldGroup(message, rows, {})), 0, NEWEST, NEWEST + 1, Absent, "", None)


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """Layout of a request or reply in all versions from oldest to newest. Schemas are compared by identity."""

    group: FieldGroup
    oldest: int
    newest: int
    flexible: int

    @property
    def name(self) -> str:
        return self.group.message.__name__


def schema(
    message: type[Message],
    *rows: Field,
    versions: tuple[int, int],
    flexible: int = NEWEST,
    facts: Facts | None = None,
) -> Schema:
    """Make a schema. Raises AssertionError for a row that names no field of its message, or a field that no version
    could read."""
    group = FieldGroup(message, rows, facts or {})
    _check(group, f"{message.__name__}")
    return Schema(group, *versions, flexible)


def _check(group: FieldGroup, path: str) -> None:
    known = group.message.__struct_fields__
    for row in group.rows:
        assert not row.name or row.name in known, f"{path} has no field {row.name}"
        inner = row.type.item if isinstance(row.type, Many) else row.type
        if isinstance(inner, Inline | Maybe | Nested):
            inner = inner.group
        if isinstance(inner, FieldGroup):
            _check(inner, f"{path}.{row.name}")
    for name in group.facts:
        assert name in known, f"{path} has no fact {name}"

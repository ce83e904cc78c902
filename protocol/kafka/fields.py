"""What schemas are made of: a row a field, the versions that have it as columns.

A schema says how one typed message looks on the wire in every version of its API; `reading` and `writing` turn it,
version by version, into straight-line readers and writers. Encodings are those of docs/spec/group-protocol.md#8.2; from
the API's first `flexible` version lengths are unsigned varints and every struct ends with tagged fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from protocol.messages import Message

NEWEST = 0x7FFF

Facts = Mapping[str, Callable[[int], Any]]
"""What a version means, as fields of the message: no version enters the core (architecture, "Dialects")."""


class Fixed(NamedTuple):
    """A type of fixed width, by its `struct` code."""

    code: str


class Sized(NamedTuple):
    """A type with its length before it. `longest` bounds it in bytes, None leaves that to the frame."""

    is_text: bool
    longest: int | None
    length_code: str


class SameAs(NamedTuple):
    """The default of a field is another field's value."""

    name: str


INT8, INT16, INT32, INT64, BOOL, UUID = map(Fixed, ("b", "h", "i", "q", "?", "16s"))
ERROR = Fixed("h")
"""An `ErrorCode`."""

# Names and ids. A text of 8,000 bytes has at most 8,000 characters, which is what messages promise (`Text`).
STRING = Sized(True, 8_000, "h")
LONG_STRING = Sized(True, None, "h")
BYTES = Sized(False, None, "i")

Scalar = Fixed | Sized


class Row(NamedTuple):
    """One field, in versions `since` to `until`, both included; null is allowed from `nullable` on.

    `default` is what a version without the field reads as, where that is not the message's own default. `read_as` turns
    what was read into what the message holds: an expression with `{}` for the value; `write_as` is the way back. `tag`:
    it is a tagged field.
    """

    name: str
    type: "Scalar | Many | Inline | Maybe"
    since: int
    until: int
    nullable: int
    default: Any
    read_as: str
    tag: int | None
    write_as: str = ""


class Many(NamedTuple):
    """An array. `item` is a scalar, or the struct of each element; a `bare` struct has no tagged fields."""

    item: "Scalar | Group"
    bare: bool


class Inline(NamedTuple):
    """The fields of the only element of a tuple, standing among the others: how old versions say what newer ones say
    with a list."""

    group: "Group"


class Maybe(NamedTuple):
    """A struct that may be absent: a byte says which."""

    group: "Group"


class Group(NamedTuple):
    """Fields that make one Struct."""

    message: type[Message]
    rows: tuple[Row, ...]
    facts: Facts


class Absent:
    """No default was given."""


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
) -> Row:
    """A field."""
    return Row(name, kind, since, until, nullable, default, read_as, tag, write_as)


def skip(kind: Scalar, value: Any, *, since: int = 0, until: int = NEWEST) -> Row:
    """A field that no message has: read over, and always written with this value."""
    return Row("", kind, since, until, NEWEST + 1, value, "", None)


def array(
    name: str,
    message: type[Message],
    *rows: Row,
    since: int = 0,
    until: int = NEWEST,
    nullable: int = NEWEST + 1,
    default: Any = Absent,
    read_as: str = "",
    tag: int | None = None,
    bare: bool = False,
    facts: Facts | None = None,
) -> Row:
    """A field that is an array of structs."""
    many = Many(Group(message, rows, facts or {}), bare)
    return Row(name, many, since, until, nullable, default, read_as, tag)


def each(kind: Scalar) -> Many:
    """An array of scalars."""
    return Many(kind, True)


def sole(
    name: str, message: type[Message], *rows: Row, since: int = 0, until: int = NEWEST, facts: Facts | None = None
) -> Row:
    """The fields of a list's only element, inline."""
    return Row(name, Inline(Group(message, rows, facts or {})), since, until, NEWEST + 1, Absent, "", None)


def maybe(name: str, message: type[Message], *rows: Row, since: int = 0) -> Row:
    """A struct or null."""
    return Row(name, Maybe(Group(message, rows, {})), since, NEWEST, 0, None, "", None)


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """How a request or a reply looks in all versions, oldest and newest included. No two are equal."""

    group: Group
    oldest: int
    newest: int
    flexible: int

    @property
    def name(self) -> str:
        return self.group.message.__name__


def schema(
    message: type[Message],
    *rows: Row,
    versions: tuple[int, int],
    flexible: int = NEWEST,
    facts: Facts | None = None,
) -> Schema:
    """Raises AssertionError for a row that names no field of its message, or a field that no version could read."""
    group = Group(message, rows, facts or {})
    _check(group, f"{message.__name__}")
    return Schema(group, *versions, flexible)


def _check(group: Group, path: str) -> None:
    known = group.message.__struct_fields__
    for row in group.rows:
        assert not row.name or row.name in known, f"{path} has no field {row.name}"
        nested = row.type.item if isinstance(row.type, Many) else row.type
        if isinstance(nested, Inline | Maybe):
            nested = nested.group
        if isinstance(nested, Group):
            _check(nested, f"{path}.{row.name}")
    for name in group.facts:
        assert name in known, f"{path} has no fact {name}"

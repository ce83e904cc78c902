"""Builds the source of readers and writers line by line; functions about schemas for both."""

from functools import cache
from typing import Any

import msgspec

from protocol.kafka.fields import Field, FieldGroup, Inline, Many, Sized
from protocol.messages import Message


class Source:
    """Lines of a function, and the objects that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def new(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def keep(self, value: Any, stem: str = "k") -> str:
        name = self.new(stem)
        self.names[name] = value
        return name

    def build(self, signature: str, about: str) -> Any:
        source = f"def {signature}:\n" + "\n".join(self.lines)
        exec(compile(source, f"<{about}>", "exec"), self.names)  # noqa: S102
        return self.names[signature.split("(", maxsplit=1)[0]]


def present(group: FieldGroup, version: int) -> list[Field]:
    """Return the rows of a version."""
    return [row for row in group.rows if row.since <= version <= row.until]


def is_required(group: FieldGroup, name: str) -> bool:
    """Return true if the message has no default for the field."""
    return bool(_field(group, name).required)


def default(group: FieldGroup, name: str) -> Any:
    """Return the message's default, or the empty value of a required field."""
    field = _field(group, name)
    if not field.required:
        return field.default
    rows = [row for row in group.rows if row.name == name]
    kind = rows[0].type if rows else None
    if isinstance(kind, Many | Inline):
        return ()
    if isinstance(kind, Sized) or kind is None:
        return "" if kind is None or kind.is_text else b""
    return 0


def _field(group: FieldGroup, name: str) -> msgspec.structs.FieldInfo:
    return _fields(group.message)[name]


@cache  # msgspec evaluates all annotations at each call
def _fields(message: type[Message]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(message)}

"""Prints the methods: `make wire` writes them into docs/wire.md from the messages, and a test compares the two.

`python -m protocol.native.page` reads docs/wire.md and prints it with the part between its marks replaced.
"""

import sys
import types
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import FieldInfo, fields

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.native.methods import METHODS, PUSHES, Wire
from protocol.native.sentences import sentence

_BEGIN, _END = "<!-- printed by `make wire`: {} -->", "<!-- end -->"
_WIRES: Final = {wire.__name__.removesuffix("Wire"): wire for wire in get_args(Wire)}
_PLAIN: Final = {bytes: "bin", str: "str", bool: "bool", int: "int", float: "float", type(None): "nil"}


def fill(page: str) -> str:
    """Return the page with the part between the marks replaced. Raises ValueError for a page without the marks."""
    for name, lines in (("methods", _methods()), ("pushes", _pushes()), ("errors", _errors())):
        before, begin, rest = page.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END)
        if not end:
            raise ValueError(f"the page has no marks for the {name}")
        page = "\n".join((before + begin, "", *lines, "", end + after))
    return page


def _methods() -> Iterator[str]:
    for number, (name, method) in enumerate(METHODS.items()):
        if number:
            yield ""
        taken = _WIRES.get(name, method.request)
        yield f"### {name}"
        yield ""
        if said := _said(method.request):
            yield said
            yield ""
        yield from _given(taken)
        yield ""
        yield from _received("answer", method.reply)


def _pushes() -> Iterator[str]:
    for number, (name, push) in enumerate(PUSHES.items()):
        if number:
            yield ""
        yield f"### {name}"
        yield ""
        yield _said(push)
        yield ""
        yield from _received("field", push)


def _errors() -> Iterator[str]:
    yield "| code | name | retriable | meaning |"
    yield "|---|---|---|---|"
    for code in ErrorCode:
        meaning = sentence(code)
        spelled = meaning == code.name.lower().replace("_", " ")
        again = "yes" if code.retriable else ""
        yield f"| {code.value} | {code.name} | {again} | {'' if spelled or not code else meaning} |"


def _said(kind: type[Message]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _given(kind: type[Message]) -> Iterator[str]:
    """Print a request's fields, with their types and defaults."""
    rows = list(_rows(kind, ""))
    if not rows:
        yield "No fields."
        return
    yield from ("| field | type | default |", "|---|---|---|")
    for path, name, default in rows:
        yield f"| `{path}` | {name} | {default} |"


def _received(title: str, kind: type[Message]) -> Iterator[str]:
    """Print a reply's fields, which are all always sent."""
    yield from (f"| {title} | type |", "|---|---|")
    for path, name, _ in _rows(kind, ""):
        yield f"| `{path}` | {name} |"


def _rows(kind: type[Message], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, type and default of every field, nested fields below their parent."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        path = prefix + field.encode_name
        hint = hints[field.name]
        yield path, _type(hint), _default(field)
        inner, many = _inner(hint)
        if inner is not None:
            yield from _rows(inner, f"{path}[]." if many else f"{path}.")


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _inner(hint: Any) -> tuple[type[Message] | None, bool]:
    for part in _parts(hint):
        many = get_origin(part) is tuple
        one = get_args(part)[0] if many else part
        if isinstance(one, type) and issubclass(one, Message):
            return one, many
    return None, False


def _type(hint: Any) -> str:
    return " or ".join(_one_type(part) for part in _parts(hint) if part is not UnsetType)


def _one_type(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return f"list of {_one_type(arguments[0])}"
    if origin is dict:
        return f"map of {_one_type(arguments[0])} to {_one_type(arguments[1])}"
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if isinstance(hint, type) and issubclass(hint, Message):
        return "map"
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return "int, an error code"
    return _PLAIN[hint]


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT:
        return "*required*"
    if value is UNSET:
        return "may be left out"
    if isinstance(value, bytes):
        return f"{len(value)} zero bytes" if value else "no bytes"
    return f"`{_shown(value)}`"


def _shown(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return '""' if value == "" else str(int(value) if isinstance(value, int) else value)


if __name__ == "__main__":
    sys.stdout.write(fill(sys.stdin.read()))

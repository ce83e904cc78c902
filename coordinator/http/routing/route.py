"""Rows of the table of HTTP paths: method, parameters, body and answers. Pure."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from coordinator.http.queries import Problem
from coordinator.http.shapes import Json

Names = Mapping[str, str]
BAD_PARAMETER: Final = 40002
_LARGEST: Final = 2**63 - 1
_MOST_DIGITS: Final = 19
_NAME_IN_PATH: Final = re.compile(r"{(\w+)}")

Schema = Json | type
"""JSON Schema, or a Struct that stands for its schema."""


class Parameter(msgspec.Struct, frozen=True):
    """Parameter of a query: a text, one of `choices`, or a whole number if `most` is set."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    default: str | int | None = None

    @property
    def schema(self) -> Json:
        if self.most is not None:
            found: Json = {"type": "integer", "minimum": self.least, "maximum": self.most}
        elif self.choices:
            found = {"type": "string", "enum": list(self.choices)}
        else:
            found = {"type": "string"}
        return found if self.default is None else {**found, "default": self.default}

    def check(self, text: str) -> None:
        """Raise Problem if the text is not a valid value."""
        if self.most is not None:
            whole_number(text, self.name, self.least, self.most)
        elif self.choices and text not in self.choices:
            raise Problem(BAD_PARAMETER, f"{self.name} must be one of {', '.join(self.choices)}, not {text[:40]!r}")

    def number(self, query: Names) -> int:
        """Return the number in the query, or the default."""
        text = query.get(self.name)
        if text is None:
            assert isinstance(self.default, int)
            return self.default
        assert self.most is not None
        return whole_number(text, self.name, self.least, self.most)

    def text(self, query: Names) -> str:
        """Return the text in the query, or the default; empty if there is none."""
        return query.get(self.name, str(self.default or ""))


class HttpRoute(msgspec.Struct, frozen=True):
    """One method of one path. `answer` is the schema of the body with `status`; `refusals` are the statuses of its own
    errors, besides those of every path. `body`: the schema of the request's body; `body_media` and `media`: the content
    types of body and answer."""

    path: str
    page: Callable[..., Any]
    about: str
    answer: Schema
    parameters: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    body: Schema | None = None
    method: str = "GET"
    status: int = 200
    also: Mapping[int, Schema] = {}
    """Other statuses with bodies of their own, and their schemas."""
    media: str = "application/json"
    more_media: tuple[str, ...] = ()
    """Other content types of the same answer, as texts."""
    body_media: str = "application/json"
    is_open: bool = False
    """Served under any host name and without a login."""

    @property
    def pattern(self) -> str:
        """Path as aiohttp takes it. A plain `{group}` would match no name with a brace, which names may have."""
        return _NAME_IN_PATH.sub(r"{\1:[^/]+}", self.path)


def check_query(route: HttpRoute, given: Collection[tuple[str, str]]) -> None:
    """Raise Problem for a parameter that the path does not have, that is given twice, or whose value is invalid."""
    known = {one.name: one for one in route.parameters}
    seen: set[str] = set()
    for name, text in given:
        if name not in known:
            there = f"only {', '.join(known)}" if known else "nor any other"
            raise Problem(BAD_PARAMETER, f"there is no parameter {name[:40]!r} here, {there}")
        if name in seen:
            raise Problem(BAD_PARAMETER, f"the parameter {name!r} is given twice")
        seen.add(name)
        known[name].check(text)


def whole_number(text: str, name: str, least: int = 0, most: int = _LARGEST) -> int:
    """Parse a whole number. Raises Problem if it is invalid or out of bounds."""
    # int() accepts more than decimal digits, and a million of them.
    digits = text.removeprefix("-")
    if len(text) <= _MOST_DIGITS and text.isascii() and digits.isdigit() and least <= int(text) <= most:
        return int(text)
    raise Problem(BAD_PARAMETER, f"{name} must be a whole number from {least} to {most}, not {text[:40]!r}")


def whole(name: str, about: str, least: int = 0, most: int = _LARGEST, default: int | None = None) -> Parameter:
    """Make a parameter that is a whole number."""
    return Parameter(name, about, least=least, most=most, default=default)


MOST_A_PAGE: Final = 1_000
PAGE_SIZE: Final = whole("page_size", "Items a page.", 1, MOST_A_PAGE, MOST_A_PAGE)
PAGE_TOKEN: Final = whole("page_token", "Where the page begins: taken from the page before.", 0, 2**31 - 1, 0)
PAGES: Final = (PAGE_SIZE, PAGE_TOKEN)

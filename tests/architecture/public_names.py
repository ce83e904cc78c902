"""Lists the names that applications may import and call, one line each.

python -m tests.architecture.public_names > tests/architecture/public_names.txt
"""

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import muster
import muster.aio
import muster.balanced
import muster.metrics
import muster.streams
from membership.member import MemberOptions
from tests.client.reference import INTERNAL

MODULES: Final[tuple[ModuleType, ...]] = (muster, muster.aio, muster.balanced, muster.metrics, muster.streams)
_STARS: Final[dict[object, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_SPECIAL: Final = {"__init__", "__iter__", "__next__", "__aiter__", "__await__", "__enter__", "__aenter__"}


def lines() -> Iterator[str]:
    for module in MODULES:
        for name in sorted(module.__all__):
            yield from _thing(f"{module.__name__}.{name}", getattr(module, name))
    yield f"settings of members: {', '.join(sorted(MemberOptions.__annotations__))}"


def _thing(name: str, thing: Any) -> Iterator[str]:
    if not isinstance(thing, type):
        yield f"{name}{_signature(thing)}" if callable(thing) else f"{name} = {thing!r}"
        return
    bases = [
        one.__name__ for one in thing.__mro__[1:-1] if one.__name__ in muster.__all__ or issubclass(one, Exception)
    ]
    yield f"{name} < {', '.join(bases)}" if bases else name
    for attribute in sorted(_attributes(thing)):
        value = inspect.getattr_static(thing, attribute)
        called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_async = "async " if inspect.iscoroutinefunction(called) else ""
        yield f"{is_async}{name}.{attribute}{_signature(called) if inspect.isfunction(called) else ''}"


def _attributes(kind: type) -> set[str]:
    internal = INTERNAL.get(kind.__name__, set())
    own = {name for base in kind.__mro__ if base.__module__.startswith("muster") for name in vars(base)}
    fields = {*getattr(kind, "__struct_fields__", ()), *getattr(kind, "_fields", ()), *getattr(kind, "__members__", ())}
    return {name for name in own | fields if not name.startswith("_") or name in _SPECIAL} - internal


def _signature(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return ""
    return "(" + ", ".join(_parameter(one) for one in parameters if one.name != "self") + ")"


def _parameter(one: inspect.Parameter) -> str:
    stars = _STARS.get(one.kind, "")
    kind = " (by name)" if one.kind is one.KEYWORD_ONLY else ""
    default = "" if one.default is one.empty else f"={'...' if callable(one.default) else repr(one.default)}"
    return f"{stars}{one.name}{default}{kind}"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in lines()))

"""Names of a package that are imported at their first use, since each import delays the start of a program."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_on_demand(package: dict[str, Any], modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, given its globals. `modules`: for each module the names that the package
    takes from it, separated by blanks.
    """
    sources = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        package[name] = found = getattr(import_module(sources[name]), name)
        return found

    return get

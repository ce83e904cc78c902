"""Check that `protocol` is Muster's, since a module of that name in the application's project would be imported
instead."""

from importlib.util import find_spec
from pathlib import PurePath


def check_installation(package_file: str) -> None:
    """Raise ImportError with the file that hides the `protocol` installed beside `package_file`."""
    spec = find_spec("protocol")
    if spec is None:
        raise ImportError("muster is not installed whole: its package `protocol` is missing; install muster again")
    found = spec.origin or next(iter(spec.submodule_search_locations or ()), "?")
    ours = PurePath(package_file).parent.parent / "protocol"
    if PurePath(found).parent != ours:
        raise ImportError(
            f"muster needs its own package `protocol`, in {ours}, but {found} comes first: rename that file, or take "
            "its folder off the import path"
        )

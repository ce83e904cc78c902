"""Compile the modules of the hot path with mypyc: for a platform wheel, or in place.

    python hatch_build.py compile    # libraries beside the sources, which they take precedence of
    python hatch_build.py remove
    python hatch_build.py possible   # exits 1, with a sentence, where nothing can be compiled

hatchling calls the hook, if `HATCH_BUILD_HOOK_ENABLE_CUSTOM` is set; without it the wheel is pure. `pyproject.toml`
lists the modules, below the hook's name.
"""

import os
import shutil
import sys
import sysconfig
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_LIBRARY = "muster"
"""One library has the code; each module's own only loads it."""
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
_TYPES = ("msgpack-types", "sortedcontainers-stubs")
"""Types that mypy must know of, beside those of the libraries themselves."""


class CompiledBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the libraries beside the sources into the wheel, and its platform into the wheel's name."""

    def dependencies(self) -> list[str]:
        """Return what the environment of an isolated build needs."""
        project = _project(Path(self.root))
        checkers = [one for one in project["project"]["optional-dependencies"]["dev"] if one.startswith("mypy==")]
        return [*checkers, "setuptools>=61", *_TYPES, *project["project"]["dependencies"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = folder = Path(self.root)
        if out_of_date(root):
            folder = root / "build" / "wheel"
            compile_into(folder, root)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in [folder / path for path in (f"{_LIBRARY}__mypyc.py", *modules(root))]:
            library = _library_of(path)
            build_data["force_include"][str(library)] = str(library.relative_to(folder))


def modules(root: Path) -> list[str]:
    """Return the paths of the modules to compile."""
    listed: list[str] = _project(root)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return listed


def libraries(root: Path) -> list[Path]:
    """Return the libraries that lie beside the sources, of any interpreter."""
    packages = _project(root)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    beside = [path for package in packages for path in (root / package).rglob("*.so")]
    return sorted([*beside, *root.glob(f"{_LIBRARY}__mypyc*.so")])


def out_of_date(root: Path) -> list[str]:
    """Return the modules that have no library of this interpreter, or one older than the source."""
    found = []
    for path in modules(root):
        source, library = root / path, _library_of(root / path)
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            found.append(path)
    return found


def impossible() -> str | None:
    """Return why nothing can be compiled here; None if it can be."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler (`{compiler}`) is here"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return None if header.exists() else f"{header} is missing: install the headers of this Python"


def compile_into(folder: Path, root: Path) -> None:
    """Compile the modules; the libraries lie in the folder as their sources lie in the root."""
    from mypyc.build import mypycify
    from setuptools import Distribution  # no setup() and no setup.py: it would read pyproject.toml too
    from setuptools.command.build_ext import build_ext

    shutil.rmtree(folder, ignore_errors=True)
    os.chdir(root)  # mypy names modules by their paths
    made = root / "build" / "mypyc"
    extensions = mypycify(
        modules(root), opt_level="2", debug_level="0", group_name=_LIBRARY, target_dir=str(made / "sources")
    )
    command = build_ext(Distribution({"name": _LIBRARY, "ext_modules": extensions, "packages": []}))
    command.build_lib = str(folder)
    command.build_temp = str(made / "objects")
    command.ensure_finalized()
    command.run()


def compile_in_place(root: Path) -> None:
    """Compile the modules beside their sources, unless they are there and newer."""
    if not out_of_date(root):
        return
    remove(root)
    began = time.time()  # a source that changes meanwhile is not what was compiled
    folder = root / "build" / "in-place"
    compile_into(folder, root)
    for path in folder.rglob(f"*{SUFFIX}"):
        library = shutil.copyfile(path, root / path.relative_to(folder))
        os.utime(library, (began, began))


def remove(root: Path) -> None:
    """Remove all libraries beside the sources."""
    for path in libraries(root):
        path.unlink()


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    root = Path(__file__).parent
    match list(arguments):
        case ["possible" | "compile"] if why := impossible():
            print(f"cannot compile: {why}", file=sys.stderr)
            return 1
        case ["possible"]:
            return 0
        case ["compile"]:
            compile_in_place(root)
            return 0
        case ["remove"]:
            remove(root)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def _library_of(source: Path) -> Path:
    return source.with_name(source.stem + SUFFIX)


def _project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

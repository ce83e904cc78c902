"""A file system on a loop device that fills, freezes, loses its power, or its thin volume's room.

Its image stands in memory, in a file system with a limit: what that has no room for, the device cannot write.
"""

import ctypes
import errno
import fcntl
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

MIB: Final = 1 << 20
_SHUTDOWN: Final = 0x8004587D
"""EXT4_IOC_SHUTDOWN: `_IOR('X', 125, __u32)`."""
_WITHOUT_LOG: Final = 2
_UNSYNCED: Final = "unsynced"
_MEMORY_MIB, _IMAGE_MIB = 220, 160
_ONE_PIECE: Final = 64 * 1024


def run(*command: str) -> None:
    """Raise CalledProcessError with what the command said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


class LoopDisk:
    """An ext4 of 160 MiB at `path`. Entered mounted, left unmounted."""

    def __init__(self, folder: Path) -> None:
        self._memory, self.path = folder / "memory", folder / "disk"
        self._image, self._ballast, self._thin = self._memory / "image", self.path / "ballast", self._memory / "ballast"

    def __enter__(self) -> Self:
        self._memory.mkdir()
        self.path.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={_MEMORY_MIB}m", "tmpfs", str(self._memory))
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_MIB * MIB)
        # Small journal, nothing reserved for root, nothing initialized later: what is written is what we write.
        options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "4000", "-J", "size=8", "-E", options, str(self._image))
        self._take_room()
        self._mount()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run("umount", str(self.path))
        run("umount", str(self._memory))

    def _take_room(self) -> None:
        """All of the image is there, holes too: it becomes a thin volume when it is told to."""
        with self._image.open("r+b") as image:
            for start in range(0, _IMAGE_MIB * MIB, MIB):
                piece = image.read(MIB)
                image.seek(start)
                image.write(piece)

    def _mount(self) -> None:
        run("mount", "-o", "loop,noatime,errors=continue", str(self._image), str(self.path))

    def remount(self) -> None:
        """Drop what was in memory alone, and replay the journal."""
        run("umount", str(self.path))
        self._mount()

    def was_cut(self) -> bool:
        """Return whether unsynced bytes are gone after the next mount: else there was no fault."""
        unsynced = self.path / _UNSYNCED
        return not unsynced.exists() or not unsynced.stat().st_size

    def fill(self) -> None:
        """Take all the room there is."""
        _fill(self._ballast)

    def heal(self) -> None:
        """Give the room back."""
        self._ballast.unlink()

    def take_thin_room(self) -> None:
        """Blocks that the file system has not written yet cannot be written, though it believes them its own."""
        run("sync", "-f", str(self.path))
        run("fstrim", str(self.path))
        _fill(self._thin)
        self._canary = os.open(self.path / "canary", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(self._canary, bytes(MIB))

    def give_thin_room(self) -> None:
        self._thin.unlink()

    def has_lost_writes(self) -> bool:
        """Return whether a file of our own has lost its writeback: else there was no fault."""
        try:
            os.fsync(self._canary)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(self._canary)

    def write_back(self) -> None:
        """Have the kernel write what is in the page cache. Errors stay with the files they belong to (syncfs)."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            ctypes.CDLL(None, use_errno=True).syncfs(handle)
        finally:
            os.close(handle)

    def forget_inodes(self) -> None:
        """Evict inodes that no process has open, and their errors with them, as memory pressure does."""
        for file in self.path.rglob("*"):
            if file.is_file():
                handle = os.open(file, os.O_RDONLY)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(handle)
        Path("/proc/sys/vm/drop_caches").write_text("2")

    def freeze(self, seconds: float) -> subprocess.Popen[bytes]:
        """Stand still for so long, as for a backup of the machine. Whatever becomes of us, it thaws."""
        script = 'fsfreeze -f "$1"; sleep "$2"; fsfreeze -u "$1"'
        return subprocess.Popen(["sh", "-c", script, "sh", str(self.path), str(seconds)])

    def cut_power(self) -> None:
        """Nothing that was not synced reaches the disk any more, the journal's end neither."""
        (self.path / _UNSYNCED).write_bytes(bytes(MIB))
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, _WITHOUT_LOG.to_bytes(4, "little"))
        finally:
            os.close(handle)


def _fill(path: Path) -> None:
    """With a file that takes what is left, to the last block."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for size in (_ONE_PIECE, 4096):
            try:
                while True:
                    os.write(handle, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        os.fsync(handle)
    finally:
        os.close(handle)

"""A simulated disk with faults: chosen operations on files whose path contains a given word fail, every time."""

import os

from tests.simulation.disk import SimDisk


class FaultyDisk(SimDisk):
    """`spoil("read_at", EIO, "flights-0")`: from now on that fails there; `mend` ends it."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._paths: dict[int, str] = {}
        self._spoiled: list[tuple[str, int, str]] = []

    def spoil(self, operation: str, code: int, word: str = "") -> None:
        self._spoiled.append((operation, code, word))

    def mend(self) -> None:
        self._spoiled.clear()

    def _open(self, operation: str, path: str, *, make: bool) -> int:
        self._check("open", path)
        handle = super()._open(operation, path, make=make)
        self._paths[handle] = path
        return handle

    def read_at(self, handle: int, position: int, size: int) -> bytes:
        self._check("read_at", self._paths[handle])
        return super().read_at(handle, position, size)

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        self._check("write_at", self._paths[handle])
        super().write_at(handle, position, data)

    def _operation(self, name: str, what: str | int) -> None:
        super()._operation(name, what)
        if name in ("sync", "sync_folder"):
            self._check(name, self._paths[what] if isinstance(what, int) else what)

    def make_folder(self, path: str) -> None:
        self._check("make_folder", path)
        super().make_folder(path)

    def rename(self, old: str, new: str) -> None:
        self._check("rename", new)
        super().rename(old, new)
        self._paths.update({handle: new for handle, path in self._paths.items() if path == old})

    def _check(self, operation: str, path: str) -> None:
        for spoiled, code, word in self._spoiled:
            if spoiled == operation and word in path:
                raise OSError(code, os.strerror(code), path)

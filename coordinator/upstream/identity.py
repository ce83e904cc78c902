"""EDGE: which cluster the groups of a data folder belong to, in a file beside them. Their offsets mean nothing in the
topics of another: at best a group would read records again, at worst it would leave some out."""

import os
from pathlib import Path

_FILE = "upstream-cluster-id"


class Identity:
    """What the file says, read when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._known: str | None = None

    def doubt(self, cluster_id: str | None) -> str:
        """A sentence if this is another cluster than before, else empty; the first one is noted, durably. A broker that
        tells no id is believed. Raises OSError."""
        if not cluster_id:
            return ""
        if self._known is None:
            self._known = self._read() or self._note(cluster_id)
        if self._known == cluster_id:
            return ""
        return (
            f"cluster {cluster_id} is not {self._known}, to whose topics the offsets of this data folder belong: give "
            f"it a data folder of its own, or remove {self._file.name} from this one to go on with these offsets"
        )

    def _read(self) -> str:
        try:
            return self._file.read_text().strip()
        except FileNotFoundError:
            return ""

    def _note(self, cluster_id: str) -> str:
        half = self._file.with_suffix(".new")
        with half.open("w") as file:
            file.write(f"{cluster_id}\n")
            file.flush()
            os.fsync(file.fileno())
        half.rename(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return cluster_id

"""EDGE: which cluster the groups of a data folder belong to, in a file beside them. Their offsets mean nothing in the
topics of another: at best a group would read records again, at worst it would leave some out. Another file is there
while the cluster has an authorizer: a start that does not reach it keeps to what it said last."""

import os
from collections.abc import Sequence
from pathlib import Path

from coordinator.topics.records import TOPICS_LOG, decode_topic
from partition_log.store.log_store import LogStore
from protocol.record_batch import decode_batch

_FILE = "upstream-cluster-id"
_AUTHORIZER_FILE = "upstream-authorizer"
_NAMED = 3


class Identity:
    """What the file says, read when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._authorizer_file = folder / _AUTHORIZER_FILE
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

    @property
    def noted(self) -> str:
        """The cluster's id, or empty. Raises OSError."""
        return self._known or self._read()

    def alone_problem(self) -> str:
        """Why the folder is not to be served without a cluster, or empty: groups would go on in topics of the same
        names, and what they commit there would take the place of what they had. Raises OSError."""
        cluster_id = self.noted
        if not cluster_id:
            return ""
        return (
            f"{self._file.parent} holds offsets of the Kafka cluster {cluster_id} ({self._file.name}): say --upstream, "
            "or remove that file to use the folder without it"
        )

    def beside_problem(self, topics: Sequence[str]) -> str:
        """Why the folder is not to stand beside a cluster, or empty; `topics` are those embedded in it. Once a cluster
        was noted, somebody has decided that they do not matter. Raises OSError."""
        if not topics or self.noted:
            return ""
        named = ", ".join([*topics[:_NAMED], *(["..."] if len(topics) > _NAMED else [])])
        return (
            f"{self._file.parent} has embedded topics of its own ({named}), to which the offsets in it belong, not to "
            "a Kafka cluster: give --upstream a data folder of its own, or delete these topics first without --upstream"
        )

    def _read(self) -> str:
        try:
            return self._file.read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _note(self, cluster_id: str) -> str:
        _write(self._file, cluster_id)
        return cluster_id

    @property
    def had_authorizer(self) -> bool:
        """Return whether the cluster had an authorizer when it was last asked. Raises OSError."""
        return self._authorizer_file.exists()

    def note_authorizer(self, *, has_authorizer: bool) -> None:
        """Keep it for a start that does not reach the cluster. Raises OSError."""
        if has_authorizer:
            _write(self._authorizer_file, "the cluster has an authorizer")
        else:
            self._authorizer_file.unlink(missing_ok=True)


def _write(path: Path, line: str) -> None:
    """Durably."""
    half = path.with_suffix(".new")
    with half.open("w") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def embedded_topics(store: LogStore) -> list[str]:
    """Names of the topics that the folder keeps itself, in order; the node's own logs are none. Raises
    `TopicsCorrupt`, `LogDamaged`."""
    found: dict[str, None] = {}
    log = store.log(TOPICS_LOG)
    for header, data in log.batches_from(log.start_offset):
        for entry in () if header.is_control else decode_batch(bytes(data)):
            name, record = decode_topic(entry.key, entry.value)
            if record is None or record.is_deleted:
                found.pop(name, None)
            else:
                found[name] = None
    return sorted(found)

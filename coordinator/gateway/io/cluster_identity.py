"""EDGE: two files in the data folder: the id of the cluster that its offsets belong to, and whether that cluster has an
authorizer.

Offsets are not valid for the topics of another cluster: a group would read records again or skip some. If the cluster
cannot be reached at a start, the second file says whether to keep the unguarded listeners closed.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from coordinator.topics.records import TOPICS_LOG, decode_topic
from partition_log.store.log_store import LogStore
from protocol.record_batch import decode_batch

_FILE = "upstream-cluster-id"
_AUTHORIZER_FILE = "upstream-authorizer"
_MAX_LISTED_TOPICS = 3


class ClusterIdentity:
    """The recorded identity, read when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._authorizer_file = folder / _AUTHORIZER_FILE
        self._known: str | None = None

    def mismatch(self, cluster_id: str | None) -> str:
        """Return an error message if this is not the recorded cluster, else an empty string. The first id is recorded
        durably; a broker that sends no id is trusted. Raises OSError."""
        if not cluster_id:
            return ""
        if self._known is None:
            self._known = self._read() or self._record(cluster_id)
        if self._known == cluster_id:
            return ""
        return (
            f"cluster {cluster_id} is not {self._known}, to whose topics the offsets of this data folder belong: give "
            f"it a data folder of its own, or remove {self._file.name} from this one to go on with these offsets"
        )

    @property
    def recorded_cluster_id(self) -> str:
        """The cluster's id, or empty. Raises OSError."""
        return self._known or self._read()

    def problem_without_upstream(self) -> str:
        """Return why the folder must not be served without its cluster, or empty. Groups would continue in topics with
        the same names, and their commits would overwrite the cluster's offsets. Raises OSError."""
        cluster_id = self.recorded_cluster_id
        if not cluster_id:
            return ""
        return (
            f"{self._file.parent} holds offsets of the Kafka cluster {cluster_id} ({self._file.name}): say --upstream, "
            "or remove that file to use the folder without it"
        )

    def problem_with_upstream(self, topics: Sequence[str]) -> str:
        """Return why the folder must not be served in front of a cluster, or empty. `topics` are the folder's embedded
        topics. A recorded cluster means that an operator has accepted them. Raises OSError."""
        if not topics or self.recorded_cluster_id:
            return ""
        named = ", ".join([*topics[:_MAX_LISTED_TOPICS], *(["..."] if len(topics) > _MAX_LISTED_TOPICS else [])])
        return (
            f"{self._file.parent} has embedded topics of its own ({named}), to which the offsets in it belong, not to "
            "a Kafka cluster: give --upstream a data folder of its own, or delete these topics first without --upstream"
        )

    def _read(self) -> str:
        try:
            return self._file.read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _record(self, cluster_id: str) -> str:
        _write(self._file, cluster_id)
        return cluster_id

    @property
    def had_authorizer(self) -> bool:
        """Return whether the cluster had an authorizer when it was last asked. Raises OSError."""
        return self._authorizer_file.exists()

    def record_authorizer(self, *, has_authorizer: bool) -> None:
        """Record it for a start that does not reach the cluster. Raises OSError."""
        if has_authorizer:
            _write(self._authorizer_file, "the cluster has an authorizer")
        else:
            self._authorizer_file.unlink(missing_ok=True)


def _write(path: Path, line: str) -> None:
    """Replace the file durably: write, sync, rename, sync the folder."""
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
    """Return the names of the folder's embedded topics, sorted; internal logs excluded. Raises `TopicsCorrupt`,
    `LogDamaged`."""
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

"""A daemon that is stopped leaves a snapshot and begins with it; one that cannot read it says so and reads the log."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from muster.blocking import ClusterClient
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon

PARTITIONS = 200


def commit(daemon: Daemon, offset: int) -> None:
    parts = tuple(OffsetCommitPartition(number, offset) for number in range(PARTITIONS))
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic("orders", PARTITIONS),)), 5)
        reply = connection.ask(OffsetCommit("g", (OffsetCommitTopic("orders", parts),)), 5)
    assert isinstance(reply, OffsetCommitReply)
    assert not any(part.error_code for part in reply.topics[0].partitions)


def committed(daemon: Daemon) -> set[int]:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(OffsetFetch((OffsetFetchGroup("g"),)), 5)
    assert isinstance(reply, OffsetFetchReply)
    parts = reply.groups[0].topics[0].partitions
    assert len(parts) == PARTITIONS
    return {part.committed_offset for part in parts}


def lines(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    text = (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()
    return [said for said in map(json.loads, text.splitlines()) if said["event"].startswith(event)]


def snapshots(daemon: Daemon) -> list[Path]:
    return sorted(daemon.folder.glob("__consumer_offsets-*/*.groups"))


def test_a_start_begins_with_the_snapshot_of_the_stop_before_and_reads_what_came_after(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data", with_http=True).start()
    try:
        commit(daemon, 7)
        assert daemon.stop() == 0
        assert len(snapshots(daemon)) == 1
        daemon.start()
        assert committed(daemon) == {7}
        first = lines(daemon, "loaded")[-1]
        assert (first["from_snapshots"], first["records"]) == (1, PARTITIONS + 1)
        commit(daemon, 8)
        daemon.kill()
        daemon.start()
        assert committed(daemon) == {8}
        again = lines(daemon, "loaded")[-1]
        assert (again["from_snapshots"], again["records"]) == (1, 2 * PARTITIONS + 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert "muster_load_snapshots 1.0" in text and "muster_load_left_ms 0.0" in text
    finally:
        daemon.kill()


def test_a_damaged_snapshot_is_named_in_a_line_and_costs_nothing_but_time(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data").start()
    try:
        commit(daemon, 7)
        assert daemon.stop() == 0
        (path,) = snapshots(daemon)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        daemon.start()
        assert committed(daemon) == {7}
        (note,) = lines(daemon, "snapshot ignored, the whole log is read")
        assert note["level"] == "warning" and path.name in note["event"]
        assert lines(daemon, "loaded")[-1]["from_snapshots"] == 0
    finally:
        daemon.kill()

"""`musterd backup` of a folder that a daemon serves, and the drill: killed, its folder lost, restored in its place;
nothing is lost that was acknowledged before the backup."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crc32c import crc32c

from coordinator.tools import backup, log_command
from coordinator.tools.backup import BackupFailed, back_up
from muster.blocking import ClusterClient
from muster.errors import CannotConnect
from protocol.errors import ErrorCode
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
from tests.edges.musterd import Daemon, running, within

SETTINGS = (
    "offsets.topic.num.partitions=2",
    "offsets.topic.max.message.bytes=524288",
    "wal.segment.bytes=2097152",
    "wal.checkpoint.bytes=1048576",
)
METADATA = "m" * 2_000
PAUSE_S = 0.01
"""Time between commits: a backup has to keep pace with what is written, on a busy machine too."""
PARTITIONS = 20
NO_ROOM_YET = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""Refusals while a slow disk has no room prepared: these segments are small."""


class Committer:
    """Commits ever larger offsets until the daemon is killed, and remembers the last that was acknowledged."""

    def __init__(self, daemon: Daemon, group_id: str) -> None:
        self.acknowledged = -1
        self._group_id = group_id
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(daemon.bootstrap,))
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self, bootstrap: str) -> None:
        offset = 0
        with ClusterClient(bootstrap) as connection, suppress(CannotConnect):
            while not self._is_over.wait(PAUSE_S):
                parts = tuple(OffsetCommitPartition(n, offset, committed_metadata=METADATA) for n in range(PARTITIONS))
                commit = OffsetCommit(self._group_id, (OffsetCommitTopic("orders", parts),))
                reply = connection.ask(commit, 60)
                assert isinstance(reply, OffsetCommitReply)
                refused = {part.error_code for topic in reply.topics for part in topic.partitions} - {ErrorCode.NONE}
                assert refused <= NO_ROOM_YET
                if not refused:
                    self.acknowledged, offset = offset, offset + 1


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", *SETTINGS) as started:
        yield started


@pytest.fixture
def committers(daemon: Daemon) -> Iterator[list[Committer]]:
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic("orders", PARTITIONS),)), 60)
    started = [Committer(daemon, f"group-{number}") for number in range(2)]
    try:
        yield started
    finally:
        for one in started:
            one.stop()


def committed(daemon: Daemon, group_id: str) -> list[int]:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(OffsetFetch((OffsetFetchGroup(group_id),)), 60)
    assert isinstance(reply, OffsetFetchReply)
    return [part.committed_offset for topic in reply.groups[0].topics for part in topic.partitions]


def test_a_drill_loses_nothing_that_was_acknowledged_before_the_backup(
    tmp_path: Path, daemon: Daemon, committers: list[Committer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert within(10, lambda: all(one.acknowledged >= 40 for one in committers))
    copy, before = tmp_path / "copies" / "monday", [one.acknowledged for one in committers]

    assert backup.main([str(daemon.folder), str(copy)]) == 0

    after = [one.acknowledged for one in committers]
    assert "verified: sound" in capsys.readouterr().out
    daemon.kill()  # in the middle of commits
    for one in committers:
        one.stop()
    shutil.rmtree(daemon.folder)
    assert log_command.main(["verify", str(copy)]) == 0
    shutil.copytree(copy, daemon.folder)
    daemon.start()
    for number in range(2):
        offsets = committed(daemon, f"group-{number}")
        assert len(offsets) == PARTITIONS
        assert len(set(offsets)) == 1, "a commit is there whole or not at all"
        assert before[number] <= offsets[0] <= after[number] + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of a daemon that was stopped."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    with running(data, *SETTINGS) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            parts = (OffsetCommitPartition(0, 7),)
            connection.ask(OffsetCommit("g", (OffsetCommitTopic("orders", parts),)), 60)
        assert daemon.stop() == 0
    return data


def test_a_checkpoint_in_between_makes_another_round(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "data"
    shutil.copytree(folder, source)
    body = (source / "wal" / "checkpoint").read_bytes().split(b"\n")[1] + b" "
    other = b"%08x\n" % crc32c(body) + body + b"\n"
    copied: list[str] = []
    backwards = backup._copy_backwards

    def overtaken(read: int, written: int, size: int) -> None:
        backwards(read, written, size)
        if not copied:
            (source / "wal" / "checkpoint").write_bytes(other)
        copied.append("segment")

    monkeypatch.setattr(backup, "_copy_backwards", overtaken)
    segments = len(list((source / "wal").glob("*.wal")))

    assert back_up(source, tmp_path / "copy") == 2
    assert len(copied) == segments, "what did not change is not copied again"
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_folder_that_never_rests_gives_no_backup(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "data"
    shutil.copytree(folder, source)
    checkpoint = source / "wal" / "checkpoint"
    monkeypatch.setattr(
        backup._Copier, "_copy_if_changed", lambda *_: checkpoint.write_bytes(checkpoint.read_bytes() + b" ")
    )
    with pytest.raises(BackupFailed, match="more is written than can be copied"):
        back_up(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_folder_gives_no_backup(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "data"
    shutil.copytree(folder, source)
    (source / "node.toml").write_text("format = ")
    assert backup.main([str(source), str(tmp_path / "copy")]) == 1
    assert "is damaged, and so is" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


def test_a_backup_replaces_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "copy").mkdir()
    assert backup.main([str(folder), str(tmp_path / "copy")]) == 2
    assert backup.main([str(tmp_path / "copy"), str(tmp_path / "other")]) == 2
    told = capsys.readouterr().err
    assert "is there already" in told and "is no data folder" in told


def test_who_cannot_read_the_folder_cannot_read_its_copy(folder: Path, tmp_path: Path) -> None:
    back_up(folder, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    files = [one.relative_to(tmp_path / "copy") for one in (tmp_path / "copy").rglob("*") if one.is_file()]
    assert files
    assert all((tmp_path / "copy" / one).stat().st_mode == (folder / one).stat().st_mode for one in files)

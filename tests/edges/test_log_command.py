"""`musterd log`: a real data folder read by the command, in use or not."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.node import build
from coordinator.records.codec import encode
from coordinator.records.records import CommittedOffset, GroupTombstone, MemberReplaced, OffsetTombstone
from coordinator.tools import log_command, log_dump
from coordinator.topics import rules
from muster.blocking import ClusterClient
from partition_log.disk.disk import OsDisk, ReadOnlyDisk
from partition_log.inspection.batch_scan import ScannedBatch, checked
from partition_log.inspection.inspector import Inspector
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup, SyncGroupAssignment
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import encode_batch
from tests.edges.musterd import running

SHARDS = "offsets.topic.num.partitions=1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of a daemon that was stopped cleanly."""
    data = tmp_path_factory.mktemp("served") / "data"
    with running(data, SHARDS, "group.initial.rebalance.delay.ms=0") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 5)
            commit(connection, 42)
            join = JoinGroup(
                "team", 10_000, "", "consumer", (JoinProtocol("range", b"s"),), wants_member_id_first=False
            )
            joined = connection.ask(join, 5)
            assert isinstance(joined, JoinGroupReply)
            share = (SyncGroupAssignment(joined.member_id, b"share"),)
            connection.ask(SyncGroup("team", joined.generation_id, joined.member_id, assignments=share), 5)
        assert daemon.stop() == 0
    return data


def commit(connection: ClusterClient, offset: int) -> None:
    partitions = (OffsetCommitPartition(0, offset, committed_metadata="tagged"),)
    connection.ask(OffsetCommit("simple", (OffsetCommitTopic("orders", partitions),)), 5)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = log_command.main(arguments)
    told = capsys.readouterr()
    return code, told.out, told.err


def entries(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    code, out, _err = run(capsys, "dump", *arguments, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_a_folder_of_a_clean_stop_is_sound_and_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "verify", str(folder))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "0 damaged, 0 warnings, 0 notes: sound"
    code, out, _err = run(capsys, "verify", str(folder), "--json")
    summary = json.loads(out)["summary"]
    assert summary["damage"] == 0
    assert summary["records"] >= 4
    assert summary["frames"] == 0


def test_commits_groups_notes_and_topics_are_decoded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = entries(capsys, str(folder), "__consumer_offsets-0")
    (offset,) = [entry for entry in told if entry["type"] == "offset"]
    assert (offset["group"], offset["topic"], offset["partition"]) == ("simple", "orders", 0)
    assert (offset["committed_offset"], offset["metadata"]) == (42, "tagged")
    group = [entry for entry in told if entry["type"] == "group"][-1]
    assert (group["group"], group["generation"], group["protocol"]) == ("team", 1, "range")
    assert [member["assignment_bytes"] for member in group["members"]] == [5]
    (topic,) = entries(capsys, str(folder), "__muster_topics-0")
    assert (topic["type"], topic["topic"], topic["partitions"]) == ("topic", "orders", 2)
    notes = entries(capsys, str(folder), "__muster_notes-0")
    assert next(note["cause"] for note in notes if note["group"] == "team") == "member joined"


def test_text_has_a_line_a_record_and_a_heading_a_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _err = run(capsys, "dump", str(folder))
    assert code == 0
    headings = [line for line in out.splitlines() if line.startswith("--- ")]
    assert headings == ["--- __consumer_offsets-0", "--- __muster_notes-0", "--- __muster_topics-0"]
    assert " offset group='simple' topic='orders' partition=0 committed_offset=42 " in out
    _code, out, _err = run(capsys, "dump", str(folder), "__consumer_offsets-0", "--from", "1", "--limit", "1")
    (line,) = out.splitlines()
    assert line.startswith("offset=1 timestamp=20")


def test_a_folder_in_use_is_read_and_said_to_be_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with running(data, SHARDS) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 5)
            commit(connection, 7)
            code, _out, err = run(capsys, "verify", str(data))
            assert code == 0
            assert "in use by another process" in err
            frames = entries(capsys, str(data), "wal")
            assert {frame["log"] for frame in frames} >= {"__consumer_offsets-0", "__muster_topics-0"}
            told = entries(capsys, str(data), "__consumer_offsets-0")
            assert [entry["committed_offset"] for entry in told if entry["type"] == "offset"] == [7]
            commit(connection, 8)  # it still serves
        assert daemon.stop() == 0


def test_damage_is_told_with_its_place_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with running(data, SHARDS) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 5)
            commit(connection, 7)
            commit(connection, 9)
        assert daemon.stop() == 0
    path = data / "__consumer_offsets-0" / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[70] ^= 1
    path.write_bytes(damaged)
    code, out, _err = run(capsys, "verify", str(data))
    assert code == 1
    assert f"damage: {path} at position 0 (offset 0): crc " in out
    assert "1 damaged" in out
    code, out, _err = run(capsys, "dump", str(data), "__consumer_offsets-0")
    assert code == 1
    assert out.startswith("offset=0 damaged file=")
    assert "committed_offset=9" in out, "what is behind it is told too"
    (data / "wal" / "checkpoint").write_bytes(b"nothing of the kind")
    code, _out, err = run(capsys, "dump", str(data))
    assert code == 1
    assert err.startswith(f"musterd log: {data}/wal/checkpoint is damaged at position 0: its checksum does not hold. ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("dump", "DATA", "orders-7"), "there is no log orders-7 with records here\n"),
        (("dump", "DATA", "__consumer_offsets"), "with records here; there is __consumer_offsets-0\n"),
    ],
)
def test_a_log_that_is_not_there_is_named_and_the_exit_code_is_1(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(capsys, *(str(folder) if word == "DATA" else word for word in arguments))
    assert (code, out) == (1, "")
    assert err.endswith(sentence)


def test_a_folder_that_is_no_data_folder_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "verify", "nowhere")
    assert (code, out) == (2, "")
    assert "nowhere is no data folder" in err


def test_a_log_that_is_not_there_keeps_nobody_from_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("__muster_topics-0", "orders-7", "__consumer_offsets-0")
    code, out, err = run(capsys, "dump", str(folder), *names, "--limit", "1")
    assert code == 1
    assert [line for line in out.splitlines() if line.startswith("--- ")] == [f"--- {names[0]}", f"--- {names[2]}"]
    assert err == "musterd log: there is no log orders-7 with records here\n"


def test_a_log_that_cannot_be_read_keeps_nobody_from_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Inspector.batches

    def batches(self: Inspector, name: str) -> Iterator[ScannedBatch]:
        if name == "__muster_notes-0":
            raise OSError(errno.EIO, os.strerror(errno.EIO), "notes.log")
        return read(self, name)

    monkeypatch.setattr(Inspector, "batches", batches)
    code, out, err = run(capsys, "dump", str(folder))
    assert (code, err) == (1, "musterd log: cannot read notes.log: Input/output error\n")
    assert "--- __muster_topics-0" in out


def test_names_of_logs_may_stand_behind_flags(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "__muster_topics-0"
    assert entries(capsys, str(folder), "--limit", "1", name) == entries(capsys, str(folder), name)
    for wrong in (("verify", str(folder), "more"), ("dump", str(folder), "--sizes")):
        with pytest.raises(SystemExit, match="2"):
            log_command.main(wrong)
        assert "unrecognized arguments" in capsys.readouterr().err


def test_the_files_alone_are_read_where_the_checkpoint_is_damaged(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "copy"
    shutil.copytree(folder, data)
    whole = entries(capsys, str(data))
    (data / "wal" / "checkpoint").write_bytes(b"nothing of the kind")
    code, out, _err = run(capsys, "dump", str(data))
    assert (code, out) == (1, "")
    assert entries(capsys, str(data), "--files-only") == whole
    code, _out, err = run(capsys, "dump", str(data), "wal", "--files-only")
    assert (code, err) == (1, "musterd log: there is no log wal with records here\n")


def test_after_a_kill_the_folder_is_said_to_be_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with running(data, SHARDS) as daemon, ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 5)
        commit(connection, 7)
        daemon.kill()
    code, out, _err = run(capsys, "verify", str(data))
    assert code == 0
    *_, counted, last = out.splitlines()
    assert counted == "0 damaged, 0 warnings, 0 notes: sound"
    assert last.startswith("The folder is in order, as after a kill or a power cut: ")
    assert last.endswith("the next start brings them into their logs by itself. There is nothing to do.")


def test_the_daemons_command_has_it_and_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m coordinator log dump {folder} | head -n 1"
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, timeout=100, check=True)
    assert ended.stdout == "--- __consumer_offsets-0\n"
    assert ended.stderr == ""


def test_tombstones_markers_and_what_nobody_knows_are_told() -> None:
    deleted = encode(OffsetTombstone("g", "t", 3)), encode(GroupTombstone("g"))
    replaced = encode(MemberReplaced("g", "i", 3, "i-2", "c", "/h", 60_000, 10_000, b"subscription"))
    pending = [encode(CommittedOffset("g", "t", 3, 9, -1, "", 1_000))]
    marker = (b"\0\0\0\x01", b"\0\0\0\0\0\x05")
    batches = [
        encode_batch(list(deleted), timestamp_ms=5),
        encode_batch(pending, timestamp_ms=5, producer_id=7, producer_epoch=1, transactional=True),
        encode_batch([marker], timestamp_ms=5, producer_id=7, producer_epoch=1, transactional=True, control=True),
        encode_batch([(b"\0\x63key", b"value"), (b"\0\x01", b""), replaced], timestamp_ms=5),
    ]
    log = "__consumer_offsets-3"
    told = [one for batch in batches for one in log_dump.entries_of(log, checked("x.log", 0, batch))]
    types = [one["type"] for one in told]
    assert types[:4] == ["offset_tombstone", "group_tombstone", "offset", "commit_marker"]
    assert types[4:] == ["unknown", "unreadable", "member_replaced"]
    assert told[2]["producer_id"] == 7
    assert (told[6]["instance_id"], told[6]["member_id"], told[6]["subscription_bytes"]) == ("i", "i-2", 12)
    (plain,) = log_dump.entries_of(
        "t-0", checked("x", 0, encode_batch([(None, b"\xffx")], timestamp_ms=5)), with_values=True
    )
    assert (plain["key_bytes"], plain["value_bytes"], plain["key"], plain["value"]) == (None, 2, None, "\\xffx")


def test_the_names_it_goes_by_are_those_of_the_node() -> None:
    assert (log_dump.NOTES_LOG, log_dump.OFFSETS) == (build._NOTES_LOG, rules.OFFSETS_TOPIC)


def test_a_disk_for_looking_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    disk = ReadOnlyDisk()
    handle = disk.open(str(file))
    assert disk.read_at(handle, 0, 9) == b"content"
    refused: list[Callable[[], object]] = [
        lambda: disk.write_at(handle, 0, b"x"),
        lambda: disk.truncate(handle, 0),
        lambda: disk.rename(str(file), str(file) + "2"),
        lambda: disk.remove(str(file)),
        lambda: disk.make_folder(str(tmp_path / "new")),
        lambda: disk.remove_folder(str(tmp_path)),
        lambda: disk.open(str(tmp_path / "new")),
    ]
    for attempt in refused:
        with pytest.raises(OSError, match=r"Read-only|No such"):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert not disk.is_locked(str(tmp_path / "LOCK"))
    lock = OsDisk().lock(str(tmp_path / "LOCK"))
    assert disk.is_locked(str(tmp_path / "LOCK"))
    OsDisk().close(lock)
    assert not disk.is_locked(str(tmp_path / "LOCK"))

"""A real daemon whose disk fails: it serves on, refuses, or ends with an error message and an exit code."""

import errno
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator.io.exit import DISK_FAILED, STATE_UNKNOWN
from muster.blocking import ClusterClient
from muster.errors import CannotConnect
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceTopic,
)
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
from protocol.record_batch import encode_batch
from tests.edges.musterd import READY_WITHIN_S, running
from tests.enumerations import some

ROOT = Path(__file__).parents[2]
SHARDS = "offsets.topic.num.partitions=2"

# A daemon on a disk that fails: what `os` does with a file of that path, once the file `armed` is there.
FAILING = """
import os, sys
from coordinator.io import job_runners
from coordinator.__main__ import main

name, code, word, armed = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
del sys.argv[1:5]
real = getattr(os, name)

def failing(handle, *arguments):
    path = os.readlink(f"/proc/self/fd/{handle}")
    if word in path and os.path.exists(armed):
        raise OSError(code, os.strerror(code))
    return real(handle, *arguments)

setattr(os, name, failing)
job_runners.kernel_flush = lambda loop: None
main()
"""


class Failing:
    """A daemon on such a disk."""

    def __init__(self, folder: Path, operation: str, code: int, word: str) -> None:
        self.armed, self.log = folder / "armed", folder / "log"
        command = [sys.executable, "-c", FAILING, operation, str(code), word, str(self.armed)]
        command += ["--native", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "off"]
        command += ["--data-dir", str(folder / "data"), "--set", SHARDS]
        with self.log.open("w") as written:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=written, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
        assert self.process.stdout is not None
        bound = dict(word.split("=") for word in self.process.stdout.readline().split()[1:])
        self.bootstrap, self.http = bound.get("native", ""), bound.get("http", "")

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def ends(self) -> dict[str, Any]:
        """With the code for it and one sentence, which is returned."""
        assert self.process.wait(READY_WITHIN_S) == DISK_FAILED
        (line,) = [line for line in self.said() if line["level"] == "critical"]
        assert "Traceback" not in self.log.read_text()
        return line


@contextmanager
def failing(folder: Path, operation: str, code: int, word: str) -> Iterator[Failing]:
    daemon = Failing(folder, operation, code, word)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.wait()
        assert daemon.process.stdout is not None
        daemon.process.stdout.close()


def commit(connection: ClusterClient, group_id: str = "simple", offset: int = 7) -> Message:
    partitions = (OffsetCommitPartition(0, offset),)
    return connection.ask(OffsetCommit(group_id, (OffsetCommitTopic("orders", partitions),)), 10)


def make_topic(connection: ClusterClient) -> None:
    connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 5)


def test_the_exit_codes_are_those_of_sysexits() -> None:
    assert (DISK_FAILED, STATE_UNKNOWN) == (os.EX_IOERR, os.EX_SOFTWARE)


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", "--data-dir", str(folder), "--native", "127.0.0.1:0"]
    command += ["--http", "off", "--kafka", "off", "--set", SHARDS]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with commits of two groups, one in each shard, and records; after a clean stop."""
    folder = tmp_path_factory.mktemp("written") / "data"
    with running(folder, SHARDS) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            make_topic(connection)
            for group_id in ("a", "b", "c", "d"):
                commit(connection, group_id)
            part = ProducePartition(0, encode_batch([(None, b"x" * 100)], timestamp_ms=1))
            connection.ask(Produce((ProduceTopic("orders", (part,)),)), 5)
        assert daemon.stop() == 0
    return folder


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "data"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


# ------------------------------------------------------------------------------------------------------- at the start


@pytest.mark.parametrize(
    ("file", "position"),
    [("wal/checkpoint", 30), ("node.toml", 0), ("__muster_topics-0/00000000000000000000.log", 70)],
)
def test_a_flipped_bit_stops_the_start_with_a_sentence(data: Path, file: str, position: int) -> None:
    flip(data / file, position)
    ended = start(data)
    assert ended.returncode == 1
    sentence = ended.stderr.splitlines()[-1]
    assert sentence.startswith(f"musterd: {data}/{file} is damaged at position 0")
    assert "estore" in sentence
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("gone", ["__consumer_offsets-0", "wal", "wal/checkpoint", "node.toml"])
def test_what_is_gone_stops_the_start_with_a_sentence(data: Path, gone: str) -> None:
    path = data / gone
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    else:
        path.unlink()
    ended = start(data)
    assert ended.returncode == 1
    assert " is missing" in ended.stderr.splitlines()[-1]
    assert "damaged at position 0" not in ended.stderr
    assert str(data) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not path.exists() or not list(path.iterdir()), "nothing is made up"


def test_a_changed_byte_of_node_toml_is_told_as_that_whatever_toml_makes_of_it(data: Path) -> None:
    path = data / "node.toml"
    for position in (0, path.read_bytes().index(b"format ="), path.read_bytes().index(b"= 1\n")):
        flip(path, position)
        assert f"{path} is damaged at position 0: its checksum does not hold. Keep a copy" in start(data).stderr
        flip(path, position)


def test_a_second_daemon_on_a_folder_ends_with_what_to_do(data: Path) -> None:
    with running(data, SHARDS):
        ended = start(data)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"musterd: another daemon serves the data folder {data}: stop that daemon first, or give this one a folder of "
        "its own (--data-dir)"
    )


def test_a_shard_whose_log_is_damaged_fails_alone_and_readyz_tells_where(data: Path) -> None:
    path = data / "__consumer_offsets-0" / f"{0:020d}.log"
    flip(path, 70)
    for snapshot in (data / "__consumer_offsets-0").glob("*.groups"):
        snapshot.unlink()
    with running(data, SHARDS, with_http=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            told = {group_id: commit(connection, group_id) for group_id in ("a", "b", "c", "d")}
        codes = [code_of(reply) for reply in told.values()]
        assert sorted(set(codes)) == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/readyz", timeout=5)
        with caught.value as answer:
            assert answer.code == 503
            body = answer.read().decode()
    log = (data.parent / "data.log").read_text()
    where = f"{path} is damaged at position 0 (offset 0)"
    assert where in log
    assert where in body


def code_of(reply: Message) -> ErrorCode:
    assert isinstance(reply, OffsetCommitReply), reply
    return reply.topics[0].partitions[0].error_code


# ------------------------------------------------------------------------------------------------------ while it serves


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_flush_that_fails_ends_the_process_with_one_sentence(tmp_path: Path, operation: str) -> None:
    with failing(tmp_path, operation, errno.EIO, "/wal/") as daemon, ClusterClient(daemon.bootstrap) as connection:
        make_topic(connection)
        daemon.armed.touch()
        with pytest.raises(CannotConnect):
            commit(connection)
        line = daemon.ends()
    assert line["event"] == "the disk failed; stopping"
    assert line["error"].startswith("[Errno 5] Input/output error: '")
    assert "/wal/" in line["error"]


@pytest.mark.parametrize(
    ("operation", "code"), some(itertools.product(("fdatasync", "fsync"), (errno.ENOSPC, errno.EDQUOT)))
)
def test_a_sync_that_finds_no_room_is_no_full_disk_and_ends_the_process(
    tmp_path: Path, operation: str, code: int
) -> None:
    with failing(tmp_path, operation, code, "/data/") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            make_topic(connection)
            assert code_of(commit(connection)) is ErrorCode.NONE
        daemon.armed.touch()
        daemon.process.terminate()
        assert "a sync failed" in daemon.ends()["error"]
    with failing(tmp_path, operation, code, "/data/") as daemon:
        assert daemon.process.wait(READY_WITHIN_S) == DISK_FAILED, "at the start too"
        assert "a sync failed" in daemon.log.read_text().splitlines()[-1]
    with running(tmp_path / "data", SHARDS) as again, ClusterClient(again.bootstrap) as connection:
        fetched = connection.ask(OffsetFetch((OffsetFetchGroup("simple"),)), 5)
        assert isinstance(fetched, OffsetFetchReply)
        assert fetched.groups[0].topics[0].partitions[0].committed_offset == 7


def test_a_file_that_cannot_be_read_is_a_storage_error_for_its_partition_and_nobody_elses(data: Path) -> None:
    fetch = Fetch((FetchTopic("orders", (FetchPartition(0, 0), FetchPartition(1, 0))),))
    with failing(data.parent, "pread", errno.EIO, "orders-0") as daemon, ClusterClient(daemon.bootstrap) as connection:
        daemon.armed.touch()
        reply = connection.ask(fetch, 5)
        assert isinstance(reply, FetchReply)
        codes = [part.error_code for part in reply.responses[0].partitions]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert code_of(commit(connection)) is ErrorCode.NONE
        daemon.armed.unlink()
        reply = connection.ask(fetch, 5)
        assert isinstance(reply, FetchReply)
        assert reply.responses[0].partitions[0].records


@pytest.mark.long
@pytest.mark.parametrize("how", [("--from-beginning",), ("--group", "readers")])
def test_muster_consume_reads_the_sound_partitions_on_and_names_the_one_that_cannot_be_read(
    data: Path, how: tuple[str, ...]
) -> None:
    with failing(data.parent, "pread", errno.EIO, "orders-0") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            part = ProducePartition(1, encode_batch([(None, b"sound")], timestamp_ms=1))
            connection.ask(Produce((ProduceTopic("orders", (part,)),)), 5)
        daemon.armed.touch()
        command = [sys.executable, "-m", "muster.cli", "consume", "orders", "--timeout", "4", *how]
        ended = subprocess.run(
            [*command, "--bootstrap", daemon.bootstrap], capture_output=True, text=True, timeout=25, check=False
        )
        daemon.armed.unlink()
    assert (ended.returncode, ended.stdout) == (1, "sound\n")
    assert ended.stderr == (
        "muster: orders-0 at offset 0: KAFKA_STORAGE_ERROR: the daemon cannot read its file; its log says where\n"
    )


def test_any_other_error_of_the_disk_in_a_step_ends_the_process_with_one_sentence(data: Path) -> None:
    with (
        failing(data.parent, "pread", errno.ENXIO, "orders-0") as daemon,
        ClusterClient(daemon.bootstrap) as connection,
    ):
        daemon.armed.touch()
        with pytest.raises(CannotConnect):
            connection.ask(Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),)), 5)
        line = daemon.ends()
    assert line["happened"] == "Received"
    assert "orders-0" in line["error"]


def test_a_start_on_a_full_disk_says_so_serves_what_is_there_and_heals(data: Path) -> None:
    (data.parent / "armed").touch()
    with failing(data.parent, "pwrite", errno.ENOSPC, "checkpoint") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            assert code_of(commit(connection, "a")) is ErrorCode.NOT_COORDINATOR
            reply = connection.ask(Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),)), 5)
            assert isinstance(reply, FetchReply)
            assert reply.responses[0].partitions[0].records
            with urllib.request.urlopen(f"http://{daemon.http}/readyz") as answer:
                assert json.load(answer) == {"ready": True, "shards_loaded": 2, "shards_total": 2, "disk_full": True}
            daemon.armed.unlink()
            for _ in range(200):
                if code_of(commit(connection, "a")) is ErrorCode.NONE:
                    break
                connection.ask(Fetch((FetchTopic("orders", (FetchPartition(1, 0),)),), max_wait_ms=50), 5)
            else:
                pytest.fail("it did not heal")
        warnings = [line["event"] for line in daemon.said() if line["level"] == "warning"]
        assert sum(warning.startswith("the disk is full") for warning in warnings) == 1
        assert [line["level"] for line in daemon.said() if line["event"].startswith("the disk has room")] == ["info"]


def test_where_few_files_may_be_open_fewer_connections_are_taken_and_a_warning_says_so(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = [sys.executable, "-m", "coordinator", "--data-dir", str(tmp_path / "data"), "--native", "127.0.0.1:0"]
    command += ["--http", "off", "--kafka", "off"]
    with subprocess.Popen(
        ["sh", "-c", 'ulimit -n 1000; exec "$@"', "sh", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("ready ")
        process.terminate()
        told = [json.loads(line) for line in process.stderr]
    (warning,) = [line for line in told if line["level"] == "warning"]
    assert (warning["allowed"], warning["max_connections"]) == (1000, 680)
    assert limits == resource.getrlimit(resource.RLIMIT_NOFILE)

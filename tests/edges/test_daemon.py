"""`musterd` as a process: how it starts, refuses to start, stops, and comes back."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from coordinator import __version__
from coordinator.build_info import build, interpreter
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DescribeGroups,
    DescribeGroupsReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running

ROOT = Path(__file__).parents[2]

_ALONE = ("--native", "127.0.0.1:0", "--http", "off", "--kafka", "off")


def _start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "group.max.size=none"), "group.max.size"),
        (("--set", "group.initial.rebalance.delay=0"), "group.initial.rebalance.delay.ms"),
        (("--native", "0.0.0.0:9390"), "--open-to-network"),
        (("--kafka", "127.0.0.1:99999"), "kafka"),
        (("--config", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_a_wrong_value_stops_the_start_with_a_sentence_that_names_it(arguments: tuple[str, ...], sentence: str) -> None:
    ended = _start(*arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("musterd: ")
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_and_version_are_answered_without_a_start() -> None:
    assert _start("--help").stdout.startswith("usage: musterd")
    assert _start("--version").stdout == f"musterd {__version__} ({build()}, {interpreter()})\n"
    reader, writer = os.pipe()
    os.close(reader)  # a pager that has seen enough
    command = [sys.executable, "-m", "coordinator", "--help"]
    ended = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=100, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_second_daemon_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "data"):
        ended = _start("--data-dir", str(tmp_path / "data"), *_ALONE)
    assert ended.returncode == 1
    assert "another daemon serves the data folder" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_folder_made_with_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "data", "offsets.topic.num.partitions=5") as daemon:
        assert daemon.stop() == 0
    ended = _start("--data-dir", str(tmp_path / "data"), *_ALONE)
    assert ended.returncode == 2
    assert "offsets.topic.num.partitions is 50" in ended.stderr
    assert "was made with 5" in ended.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with running(tmp_path / "one") as daemon:
        ended = _start("--data-dir", str(tmp_path / "two"), "--native", daemon.bootstrap, *_ALONE[2:])
    assert ended.returncode == 1
    assert str(daemon.port) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_of_http_that_is_taken_is_named_with_its_flag(tmp_path: Path) -> None:
    with running(tmp_path / "one") as daemon:
        free = ("--native", "127.0.0.1:0", "--kafka", "off", "--http", daemon.bootstrap)
        ended = _start("--data-dir", str(tmp_path / "two"), *free)
    assert ended.returncode == 1
    assert f"http = {daemon.bootstrap}: " in ended.stderr
    assert "(--http HOST:PORT chooses another address, --http off does without)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_sigterm_answers_who_waits_keeps_what_was_committed_and_exits_0(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 1),)), 5)
            commit = OffsetCommit("simple", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 42),)),))
            connection.ask(commit, 5)
        assert daemon.stop() == 0
        daemon.start()
        with ClusterClient(daemon.bootstrap) as connection:
            fetched = connection.ask(OffsetFetch((OffsetFetchGroup("simple"),)), 5)
            assert fetched.groups[0].topics[0].partitions[0].committed_offset == 42  # type: ignore[attr-defined]


def test_a_join_that_waits_is_told_to_look_elsewhere_when_the_daemon_stops(tmp_path: Path) -> None:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=60000") as daemon:
        code = f"import sys\nfrom tests.edges.test_daemon import join_and_tell\njoin_and_tell({daemon.bootstrap!r})\n"
        waiting = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waiting\n"
        _until_joining(daemon.bootstrap)
        assert daemon.stop() == 0
        assert waiting.communicate(timeout=100)[0].strip() == "NOT_COORDINATOR"


def _until_joining(bootstrap: str) -> None:
    deadline_s = time.monotonic() + 60
    with ClusterClient(bootstrap) as connection:
        while time.monotonic() < deadline_s:
            described = connection.ask(DescribeGroups(("g",)), 5)
            assert isinstance(described, DescribeGroupsReply)
            if described.groups[0].group_state == "PreparingRebalance":
                return
            time.sleep(0.02)
    raise AssertionError("the join never arrived")


def join_and_tell(bootstrap: str) -> None:
    """For the test above, in a process of its own: joins, and prints how that ended."""
    join = JoinGroup("g", 10_000, "", "consumer", (JoinProtocol("range", b""),), wants_member_id_first=False)
    with ClusterClient(bootstrap) as connection:
        connection.ask(CreateTopics(()), 5)
        print("waiting", flush=True)
        reply = connection.ask(join, 30)
        assert isinstance(reply, JoinGroupReply)
        print(ErrorCode(reply.error_code).name, flush=True)


def test_ready_names_what_is_served_and_http_says_so(tmp_path: Path) -> None:
    with running(tmp_path / "data", with_http=True) as daemon:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/readyz", timeout=5) as answer:
            assert json.load(answer)["ready"] is True
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(10) == 0


def test_logs_are_json_where_nobody_watches(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data").start()
    assert daemon.stop() == 0
    lines = (tmp_path / "data.log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert [event for event in events if "stood still" not in event] == [  # as on a busy machine
        "data folder recovered",
        "loading",
        "loaded",
        "serving",
        "stopping",
        "stopped",
    ]

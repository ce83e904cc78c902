"""A file system that stands still, as while a backup freezes it: what is written waits, and everything else goes on."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics

ROOT = Path(__file__).parents[2]

# A daemon whose files take no change, from whichever thread, while the file `frozen` is there.
STANDS_STILL = """
import os, sys, time
from coordinator.io import job_runners
from coordinator.io.kernel_flush import KernelFlush
from coordinator.__main__ import main

frozen, by_kernel = sys.argv[1], sys.argv[2] == "kernel"
del sys.argv[1:3]

def waits(real, concerns=lambda *arguments: True):
    def wait(*arguments, **named):
        while concerns(*arguments) and os.path.exists(frozen):
            time.sleep(0.01)
        return real(*arguments, **named)
    return wait

for name in ("pwrite", "ftruncate", "fdatasync", "fsync", "replace", "remove", "makedirs"):
    setattr(os, name, waits(getattr(os, name)))
os.open = waits(os.open, lambda path, flags, *mode: flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY))

def begin(kernel, write, ended, real=KernelFlush.begin):  # the kernel's worker waits, the loop goes on
    if os.path.exists(frozen):
        kernel._loop.call_later(0.01, begin, kernel, write, ended)
    else:
        real(kernel, write, ended)

KernelFlush.begin = begin
if not by_kernel:
    job_runners.kernel_flush = lambda loop: None
main()
"""


def commit(bootstrap: str) -> ErrorCode:
    with ClusterClient(bootstrap) as connection:
        topic = OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),))
        reply = connection.ask(OffsetCommit("simple", (topic,)), 30)
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


@pytest.mark.parametrize("how", ["kernel", "thread"])
def test_heartbeats_are_answered_while_the_file_system_stands_still_and_commits_when_it_goes_on(
    tmp_path: Path, how: str
) -> None:
    frozen = tmp_path / "frozen"
    command = [sys.executable, "-c", STANDS_STILL, str(frozen), how, "--native", "127.0.0.1:0", "--http", "off"]
    command += ["--kafka", "off", "--data-dir", str(tmp_path / "data"), "--set", "offsets.topic.num.partitions=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as daemon,
        ThreadPoolExecutor(1) as pool,
    ):
        try:
            assert daemon.stdout is not None
            bootstrap = dict(word.split("=") for word in daemon.stdout.readline().split()[1:])["native"]
            with ClusterClient(bootstrap) as connection:
                connection.ask(CreateTopics((CreatableTopic("orders", 1),)), 10)
                assert commit(bootstrap) is ErrorCode.NONE
                frozen.touch()
                waiting = pool.submit(commit, bootstrap)
                until = time.monotonic() + 1.5
                while time.monotonic() < until:
                    assert isinstance(connection.ask(Heartbeat("none", 1, "nobody"), 10.0), HeartbeatReply)
                assert not waiting.done(), "it is not durable"
                frozen.unlink()
                assert waiting.result(20) is ErrorCode.NONE
        finally:
            daemon.kill()

"""A step that fails ends the daemon at once: one that went on would hold its ports and lose a flush."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgpack
import pytest

from tests.edges.musterd import READY_WITHIN_S

POISONED = """
import sys
from coordinator.node import events
from coordinator.__main__ import main
from coordinator.node.node import Node

step_many, left, kind = Node.step_many, [1], getattr(events, sys.argv.pop(1))

def poisoned(self, happened, moment):
    if kind in map(type, happened) and self.is_loaded and left[0]:
        left[0] -= 1
        raise LookupError("foreseen by nobody")
    return step_many(self, happened, moment)

Node.step_many = poisoned
main()
"""
UNFORESEEN = 70


def _ask(port: int) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(msgpack.packb([0, 1, "CreateTopics", [{"topics": [topic]}]]))
        wire.recv(1)


def _ask_over_http(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.recv(1)


@pytest.mark.parametrize("event", ["Opened", "Received", "Flushed", "Woke", "Call"])
def test_a_step_that_fails_ends_the_process_with_a_code_of_its_own_and_says_where(tmp_path: Path, event: str) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", POISONED, event, "--native", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--kafka", "off", "--data-dir", str(tmp_path / "data")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with log.open("w") as written:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, text=True, env=environment)
    assert process.stdout is not None
    bound = dict(part.split("=") for part in process.stdout.readline().split()[1:])
    began = time.monotonic()
    try:
        if bound:  # waking may end it before
            kind, ask = ("http", _ask_over_http) if event == "Call" else ("native", _ask)
            _try(ask, int(bound[kind].rpartition(":")[2]))
        assert process.wait(READY_WITHIN_S) == UNFORESEEN
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert time.monotonic() - began < 30
    said = [json.loads(line) for line in log.read_text().splitlines()]
    (critical,) = [line for line in said if line["level"] == "critical"]
    assert critical["happened"] == event
    assert "LookupError: foreseen by nobody" in critical["traceback"]


def _try(ask: object, port: int) -> None:
    assert callable(ask)
    try:
        ask(port)
    except ConnectionError:
        return  # gone, which is what is wanted

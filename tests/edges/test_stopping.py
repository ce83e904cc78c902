"""A daemon that is told to stop stops, whoever goes on talking; a connection that is closed is gone."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgpack

from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import encode_batch
from tests.edges.musterd import Daemon, running, within


def _connect(daemon: Daemon) -> socket.socket:
    return socket.create_connection(("127.0.0.1", daemon.port), 10)


def _produce(number: int) -> bytes:
    batch = encode_batch([(None, bytes(1_000))], timestamp_ms=1)
    topic = {"name": "flood", "partition_data": [{"index": 0, "records": batch}]}
    data: bytes = msgpack.packb([0, number, "Produce", [{"topic_data": [topic]}]])
    return data


def _flood(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for number in range(1_000_000):
            wire.sendall(_produce(number))


def _read_all(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while wire.recv(65_536):
            pass


def test_producers_that_never_pause_do_not_keep_the_daemon_from_stopping(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("flood", 1),)), 5)
        wires = [_connect(daemon) for _ in range(3)]
        for wire in wires:
            for work in (_flood, _read_all):
                threading.Thread(target=work, args=(wire,), daemon=True).start()
        time.sleep(0.5)
        began = time.monotonic()
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.stop() == 0, "told twice"
        assert time.monotonic() - began < 40
        for wire in wires:
            wire.close()
        daemon.start()


def test_sighup_stops_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        assert daemon.process is not None
        with ClusterClient(daemon.bootstrap) as client:
            for _ in range(3):
                daemon.process.send_signal(signal.SIGHUP)
                client.ask(CreateTopics((CreatableTopic("made-before", 1),)))
        log = tmp_path / "data.log"
        assert within(10, lambda: "SIGHUP is ignored: there are no certificates to read anew" in log.read_text())
        assert daemon.stop() == 0


SLOW = """
import sys, coordinator.start.daemon as daemon
from coordinator.__main__ import main

opens = daemon.open_store

def slowly(*given):
    print("opening", flush=True)
    sys.stdin.readline()
    return opens(*given)

daemon.open_store = slowly
main()
"""


def test_sighup_while_a_start_recovers_does_not_end_it(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        with ClusterClient(daemon.bootstrap) as client:
            client.ask(CreateTopics((CreatableTopic("flood", 1),)))
        daemon.kill()
        arguments = ["--data-dir", str(daemon.folder), "--native", "127.0.0.1:0", "--kafka", "off", "--http", "off"]
        command = [sys.executable, "-c", SLOW, *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "opening\n"
            process.send_signal(signal.SIGHUP)
            print("go on", file=process.stdin, flush=True)
            assert process.stdout.readline().startswith("ready ")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


def test_one_that_is_closed_for_nonsense_and_reads_nothing_loses_its_socket(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        wire = _connect(daemon)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with contextlib.suppress(OSError):
            wire.settimeout(3)
            # More answers than the kernel takes, and fewer than make the daemon stop reading before the nonsense.
            asked = b"".join(msgpack.packb([0, number, "DescribeNode", [{}]]) for number in range(1_000))
            wire.sendall(asked + b"\xc1")
        assert within(10, lambda: _sockets(daemon) == 0, every_s=0.1)
        wire.close()


def _sockets(daemon: Daemon) -> int:
    """Connections that the daemon holds open."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    mine = f"0100007F:{daemon.port:04X}"
    held = [line.split() for line in lines]
    return sum(line[1] == mine and line[3] in ("01", "08", "04", "05", "0B", "09") and line[9] != "0" for line in held)

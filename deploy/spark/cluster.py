"""A standalone Spark cluster on this machine, from the pip install: `python deploy/spark/cluster.py --connect 15002`.

A master and its workers are processes of their own, as on machines of their own (the units beside this file); with
`--connect` a Spark Connect server runs on them. The first line of output says where they are. The cluster ends with
SIGTERM, with Ctrl-C, or with any of its processes.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Self
from urllib.request import urlopen

import pyspark

from pyspark_muster.java import use_java

HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
_START_S = 300.0


class Ended(Exception):
    """Raised if a process of the cluster has ended."""


class Cluster:
    """Spark's processes on this machine. They are killed when the cluster is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, name: str, program: str, *arguments: str | int) -> None:
        """Start a program of Spark's; what it prints is in a file of its name."""
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        command = [str(HOME / "bin" / program), *map(str, arguments)]
        process = subprocess.Popen(  # noqa: S603  (Spark's own program)
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, start_new_session=True
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._running[name] = process

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Raises `Ended`, and TimeoutError after some minutes."""
        deadline = time.monotonic() + _START_S
        while not holds():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster has not started in {_START_S:g} s: see {self._folder}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises `Ended`."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise Ended(f"the {name} has ended: see {self._folder / name}.log")


def serve(options: argparse.Namespace) -> NoReturn:
    """Run the cluster until one of its processes ends."""
    master = f"spark://{LOOPBACK}:{options.port}"
    addresses = [f"master={master}"]
    with Cluster(options.folder) as cluster:
        where = ["--host", LOOPBACK, "--port", options.port, "--webui-port", options.web_port]
        cluster.start("master", "spark-class", "org.apache.spark.deploy.master.Master", *where)
        cluster.wait_until(lambda: _workers(options.web_port) is not None)
        for number in range(options.workers):
            size = ["--cores", options.cores, "--memory", options.memory, "--work-dir", options.folder]
            where = ["--host", LOOPBACK, "--webui-port", 0, *size, master]
            cluster.start(f"worker-{number}", "spark-class", "org.apache.spark.deploy.worker.Worker", *where)
        cluster.wait_until(lambda: _workers(options.web_port) == options.workers)
        if options.connect:
            _start_connect(cluster, master, options)
            addresses.append(f"connect=sc://{LOOPBACK}:{options.connect}")
        print("ready", *addresses, flush=True)
        while True:
            cluster.check()
            time.sleep(1)


def _start_connect(cluster: Cluster, master: str, options: argparse.Namespace) -> None:
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": options.connect,
        "spark.cores.max": options.workers,  # else it takes all cores, and no other application begins
        "spark.python.unix.domain.socket.enabled": "true",  # else each task waits 40 ms for an ACK of TCP
        "spark.ui.enabled": "false",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    cluster.start("connect", "spark-submit", "--master", master, *given, "--class", server)
    cluster.wait_until(lambda: _listens(options.connect))


def _workers(web_port: int) -> int | None:
    """Return how many workers the master has; None if it does not answer yet."""
    try:
        with urlopen(f"http://{LOOPBACK}:{web_port}/json/", timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
            return int(told["aliveworkers"])
    except (OSError, ValueError):  # its page has no JSON yet while the master becomes leader
        return None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _end(*_: object) -> NoReturn:
    raise SystemExit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description="A standalone Spark cluster on this machine.")
    parser.add_argument("--port", type=int, default=7077, help="of the master (7077)")
    parser.add_argument("--web-port", type=int, default=8080, help="of the master's page (8080)")
    parser.add_argument("--workers", type=int, default=2, help="how many (2)")
    parser.add_argument("--cores", type=int, default=2, help="of each worker (2)")
    parser.add_argument("--memory", default="2g", help="of each worker (2g)")
    parser.add_argument("--connect", type=int, help="the port of a Spark Connect server, 15002 as a rule; else none")
    parser.add_argument("--folder", type=Path, default=Path("spark-cluster"), help="for logs and work (spark-cluster)")
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    options.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _end)
    use_java()
    try:
        serve(options)
    except Ended as why:
        print(f"cluster: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())

"""Distributed workers of Kafka Connect: a file goes through a topic into another file, whatever happens to them.

With the verb `transform` a worker copies a topic to another one, exactly once."""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from interop.program import Options, answer, check, tell, told_to_copy, told_to_stop, until

_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO", "-cp", "lib/*")
_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
_START_S, _STOP_S = 60.0, 60.0
_MOVE_S = 40.0
_NOT_NOW = (409, 500)
"""Replies of a worker in a rebalance, and of one whose leader does not answer."""
_CONNECT = "org.apache.kafka.connect"
_FILES = f"{_CONNECT}.file.FileStream"
_EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    "producer.transaction.timeout.ms": "30000",
    **{f"{kind}.storage.replication.factor": "-1" for kind in ("offset", "config", "status")},
}


class Worker:
    """One worker process and its REST address."""

    def __init__(self, options: Options, folder: Path, name: str, more: Mapping[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        self._log = (folder / f"{name}.log").open("ab")
        settings = folder / f"{name}.properties"
        told = {**_settings(options, self.address), **(more or {})}
        settings.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        self._process = subprocess.Popen([*_JAVA, _WORKER, str(settings)], stdout=self._log, stderr=self._log)

    def wait(self) -> None:
        """Returns once it is in its group and answers."""
        until(lambda: self.has_ended or self._answers(), f"{self.address} answers", _START_S)
        check(not self.has_ended, f"the worker ended: {Path(self._log.name).read_text()[-800:]}")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)
        self._log.close()

    def stop(self) -> None:
        """SIGTERM: it leaves its group first."""
        self._process.terminate()
        self._process.wait(_STOP_S)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the worker's answer. Raises urllib's errors: a worker in a rebalance answers 409."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read() or b"null")

    def running(self, connector: str) -> dict[str, str]:
        """Return the workers of a connector's running parts: "connector" and the numbers of its tasks -> worker."""
        parts = self._parts(connector)
        return {name: part["worker_id"] for name, part in parts.items() if part["state"] == "RUNNING"}

    def has_failed(self, connector: str) -> bool:
        """Tell whether a part of the connector has ended with an error; workers do not start it again."""
        return any(part["state"] == "FAILED" for part in self._parts(connector).values())

    def offsets(self, connector: str) -> list[int]:
        """The numbers among the offsets that a connector has stored."""
        found = self.ask("GET", f"/connectors/{connector}/offsets")["offsets"]
        return [value for each in found for value in each["offset"].values() if isinstance(value, int)]

    def start(self, connector: str, config: dict[str, str]) -> None:
        def started() -> bool:
            try:
                self.ask("PUT", f"/connectors/{connector}/config", config)
            except urllib.error.HTTPError as error:
                if error.code in _NOT_NOW:
                    return False
                raise
            except TimeoutError:
                return False
            return True

        until(started, f"{connector} is taken", _START_S)

    def _parts(self, connector: str) -> dict[str, dict[str, str]]:
        """Return what it knows of a connector's parts, nothing if it does not answer."""
        try:
            status = self.ask("GET", f"/connectors/{connector}/status")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}
        return {"connector": status["connector"], **{str(task["id"]): task for task in status["tasks"]}}

    def _answers(self) -> bool:
        try:
            return isinstance(self.ask("GET", "/connectors"), list)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


class Pipe:
    """A file that a source reads into a topic, and the file that a sink writes from it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.source, self.sink = f"{name}-source", f"{name}-sink"
        self.written = 0
        self._name = name
        self._into, self._out = folder / f"{name}-in.txt", folder / f"{name}-out.txt"
        self._into.touch()

    def start(self, worker: Worker) -> None:
        source = {"connector.class": f"{_FILES}SourceConnector", "file": str(self._into), "topic": self._name}
        worker.start(self.source, {**source, "tasks.max": "1"})
        sink = {"connector.class": f"{_FILES}SinkConnector", "file": str(self._out), "topics": self._name}
        worker.start(self.sink, {**sink, "tasks.max": "1"})

    def write(self, count: int) -> None:
        with self._into.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.written, self.written + count))
        self.written += count

    def read(self) -> list[str]:
        return self._out.read_text().splitlines() if self._out.exists() else []

    def wait(self) -> None:
        """Returns once every line has come through, in order; a line that came twice is an error as well."""
        expected = [f"line {number}" for number in range(self.written)]
        until(lambda: len(self.read()) >= self.written, f"{self.written} lines in {self._name}", _MOVE_S)
        check(self.read() == expected, f"{len(self.read())} lines came through, {self.written} were written")

    def wait_at_least_once(self) -> None:
        """Returns once every line has come through; those that a dead worker had not stored may have come again."""
        expected = {f"line {number}" for number in range(self.written)}
        until(lambda: set(self.read()) >= expected, f"{self.written} lines in {self._name}", _MOVE_S)

    def wait_stored(self, worker: Worker) -> None:
        """Returns once both connectors have stored that they are done with all that was written."""
        size = self._into.stat().st_size
        until(lambda: worker.offsets(self.source) == [size], "the source's offset is stored", _MOVE_S)
        until(lambda: self.written in worker.offsets(self.sink), "the sink's offset is stored", _MOVE_S)


def produce_consume(options: Options) -> str:
    with _group(options) as (folder, workers):
        workers.append(Worker(options, folder, "worker"))
        workers[0].wait()
        pipe = Pipe(folder, options.topic)
        pipe.write(200)
        pipe.start(workers[0])
        pipe.wait()
        pipe.wait_stored(workers[0])
        return "a FileStream source and sink: 200 lines through a topic, both offsets stored"


def commit_resume(options: Options) -> str:
    with _group(options) as (folder, workers):
        workers.append(Worker(options, folder, "first"))
        workers[0].wait()
        pipe = Pipe(folder, options.topic)
        pipe.start(workers[0])
        pipe.write(100)
        pipe.wait()
        pipe.wait_stored(workers[0])
        workers[0].kill()
        pipe.write(100)
        workers.append(Worker(options, folder, "second"))
        workers[1].wait()
        until(lambda: len(workers[1].running(pipe.sink)) == 2, "the sink runs again", _START_S)
        pipe.wait()
        return "kill -9 of the worker after 100 lines; the next one knew the connectors and went on with line 101"


def rebalance_cooperative(options: Options) -> str:
    with _group(options) as (folder, workers):
        workers.append(Worker(options, folder, "one"))
        workers[0].wait()
        pipes = [Pipe(folder, f"{options.topic}-{name}") for name in ("a", "b")]
        for pipe in pipes:
            pipe.start(workers[0])
        _flow(pipes)
        workers.append(Worker(options, folder, "two"))
        workers[1].wait()
        _settled(workers[0], pipes, {worker.address for worker in workers})
        _flow(pipes)
        workers[0].kill()
        _settled(workers[1], pipes, {workers[1].address})
        for pipe in pipes:
            pipe.write(50)
            pipe.wait_at_least_once()
        return "2 workers share 4 connectors and 4 tasks; one is killed, the other has them all; no line is missing"


def _flow(pipes: list[Pipe]) -> None:
    for pipe in pipes:
        pipe.write(50)
    for pipe in pipes:
        pipe.wait()


def _settled(worker: Worker, pipes: list[Pipe], addresses: set[str]) -> None:
    """Returns once every connector and task runs, on just these workers."""

    def settled() -> bool:
        running = [worker.running(name) for pipe in pipes for name in (pipe.source, pipe.sink)]
        places = {place for parts in running for place in parts.values()}
        return all(len(parts) == 2 for parts in running) and places == addresses

    until(settled, f"all of it runs on {sorted(addresses)}", _START_S)


@contextmanager
def _group(options: Options) -> Iterator[tuple[Path, list[Worker]]]:
    """A folder, and a list of workers to be ended."""
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield Path(folder), workers
        except Exception:
            for log in sorted(Path(folder).glob("*.log")):
                print(log.name, log.read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            for worker in workers:
                worker.kill()


def _settings(options: Options, address: str) -> dict[str, str]:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "listeners": f"http://{address}",
        "rest.advertised.port": address.rpartition(":")[2],
        "rest.advertised.host.name": "127.0.0.1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "2000",
        "plugin.discovery": "service_load",
        "consumer.auto.offset.reset": "earliest",
        "consumer.session.timeout.ms": "6000",  # what a killed worker's sink owned is free after it
        "consumer.heartbeat.interval.ms": "1000",
    }
    for kind in ("offset", "config", "status"):
        settings[f"{kind}.storage.topic"] = f"{options.topic}-{kind}s"
        settings[f"{kind}.storage.replication.factor"] = "1"
    return settings


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


STORIES = {
    "produce_consume": produce_consume,
    "rebalance_cooperative": rebalance_cooperative,
    "commit_resume": commit_resume,
}


def transform() -> int:
    """Run a worker of a connector that copies a topic until told to stop. Parts that failed are started again."""
    given = told_to_copy()
    stopped = told_to_stop()
    folder = Path(given.folder)
    folder.mkdir(exist_ok=True)
    worker = Worker(Options(given.bootstrap, given.to, given.group), folder, "worker", _EXACTLY_ONCE)
    worker.wait()
    if given.to not in worker.ask("GET", "/connectors"):
        worker.start(given.to, _mirror(given))
    while not stopped.wait(1):
        check(not worker.has_ended, "the worker ended")
        if worker.has_failed(given.to):
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                worker.ask("POST", f"/connectors/{given.to}/restart?includeTasks=true&onlyFailed=true")
                tell({"event": "anew", "records": 0})
    worker.stop()
    return 0


def _mirror(given: argparse.Namespace) -> dict[str, str]:
    """Return the configuration of a connector of MirrorMaker that copies a topic within one cluster."""
    return {
        "connector.class": f"{_CONNECT}.mirror.MirrorSourceConnector",
        "exactly.once.support": "required",
        "tasks.max": "2",
        "topics": given.topic,
        "source.cluster.alias": "source",
        "source.cluster.bootstrap.servers": given.bootstrap,
        "source.consumer.isolation.level": "read_committed",
        "target.cluster.alias": "target",
        "target.cluster.bootstrap.servers": given.bootstrap,
        "replication.policy.class": f"{_CONNECT}.mirror.IdentityReplicationPolicy",
        "transforms": "rename",
        "transforms.rename.type": f"{_CONNECT}.transforms.RegexRouter",
        "transforms.rename.regex": given.topic,
        "transforms.rename.replacement": given.to,
        "key.converter": f"{_CONNECT}.converters.ByteArrayConverter",
        "value.converter": f"{_CONNECT}.converters.ByteArrayConverter",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["transform"]:
        sys.exit(transform())
    sys.exit(answer(STORIES))

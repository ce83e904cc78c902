"""Seven incidents with real clients. During each of them the culprit's client id, host and port stand in the first five
lines of `muster groups describe`, in `muster doctor` and in `/v1/problems`, and the alert's expression is true."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from muster.blocking import ClusterClient
from muster.cli.command import app
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import PATIENCE, Daemon, running, within
from tests.edges.prometheus import PROMETHEUS, Prometheus, scraping

NAMED_WITHIN_S = 2
SESSION_MS = 6_000
SLOW_POLL_MS = 12_000
"""`max.poll.interval.ms` of a member that does not rejoin: a quarter of it makes a join held up."""
ALERT_OF = {
    "silent_member": "MusterSilentMember",
    "join_held_up": "MusterRebalanceHeldUp",
    "instance_fought_over": "MusterInstanceFoughtOver",
    "rebalance_loop": "MusterRebalanceLoop",
    "join_refused": "MusterJoinRefused",
    "consumption_rewound": "MusterConsumptionRewound",
}


class Member:
    """A consumer of librdkafka in a process of its own."""

    def __init__(self, daemon: Daemon, group: str, client: str, **settings: object) -> None:
        self.client_id = client
        self._kafka_port = daemon.kafka_port
        consumer = {
            "bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}",
            "group.id": group,
            "client.id": client,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.edges.incident_member", json.dumps(consumer), "t"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def tell(self, command: str) -> None:
        """Give a command, and wait until it was done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().split()[:1] == ["done"], self.process.poll()

    def ports(self) -> set[int]:
        """Return the ports of its connections to the daemon, as the kernel has them."""
        sockets = set()
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                sockets.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
            except FileNotFoundError:  # closed meanwhile
                continue
        ports = set()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _number, local, remote, *_more, inode = line.split()[:10]
            if inode in sockets and _port(remote) == self._kafka_port:
                ports.add(_port(local))
        return ports

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


class Scene:
    """A group of its own: its members, and everything that names a culprit."""

    def __init__(self, daemon: Daemon, prometheus: Prometheus | None, group: str, members: ExitStack) -> None:
        self.daemon, self.prometheus, self.group, self._members = daemon, prometheus, group, members

    def member(self, client: str, **settings: object) -> Member:
        member = Member(self.daemon, self.group, client, **settings)
        self._members.callback(member.kill)
        return member

    def page(self) -> dict[str, Any]:
        found: dict[str, Any] = self._json(f"/v1/groups/{self.group}")
        return found

    def settle(self, *members: Member) -> None:
        """Wait until the group is Stable with these members."""
        names = sorted(member.client_id for member in members)

        def is_there() -> bool:
            try:
                page = self.page()
            except OSError:  # not there yet
                return False
            return page["state"] == "Stable" and sorted(one["client_id"] for one in page["members"]) == names

        assert within(20, is_there), self.describe()

    def describe(self) -> list[str]:
        return self._muster("groups", "describe", self.group)

    def names(self, kind: str, culprit: Member, ports: set[int]) -> None:
        """Check that everything names the culprit within two seconds from now."""
        started = time.monotonic()
        wanted = {f"{culprit.client_id} at 127.0.0.1:{port}" for port in ports}
        assert wanted

        def is_in(lines: list[str]) -> bool:
            return any(one in line for line in lines for one in wanted)

        assert within(NAMED_WITHIN_S, lambda: is_in(self.describe()[:5])), self.describe()
        assert within(NAMED_WITHIN_S, lambda: is_in(self._muster("doctor", self.group))), self._muster("doctor")
        assert within(NAMED_WITHIN_S, lambda: self._problem_ports(kind, culprit) & ports), self._json("/v1/problems")
        assert time.monotonic() - started < PATIENCE * NAMED_WITHIN_S
        if self.prometheus is not None:
            self._is_alerted(self.prometheus, ALERT_OF[kind])

    def _is_alerted(self, prometheus: Prometheus, name: str) -> None:
        """Check that the alert's expression comes true, and that it leads to the group's page."""

        def raised() -> list[dict[str, Any]]:
            return [one for one in prometheus.alerts(name) if one["labels"]["group"] == self.group]

        assert within(5, raised), prometheus.query("muster_group_problem")
        page = raised()[0]["annotations"]["page"]
        assert page == f"http://127.0.0.1:{self.daemon.http_port}/console/group?id={self.group}"
        with urlopen(page, timeout=60) as answer:
            assert self.group in answer.read().decode()

    def _problem_ports(self, kind: str, culprit: Member) -> set[int]:
        found = self._json(f"/v1/problems?group={self.group}&kind={kind}")["problems"]
        told = (culprit.client_id, "127.0.0.1")
        return {one["client_port"] for one in found if (one["client_id"], one["client_host"]) == told}

    def _json(self, path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{self.daemon.http_port}{path}", timeout=60) as answer:
            return json.load(answer)

    def _muster(self, *arguments: str) -> list[str]:
        done = CliRunner().invoke(app, [*arguments, "--bootstrap", self.daemon.bootstrap])
        return done.output.splitlines()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("incidents") / "data"
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    with running(folder, *settings, with_http=True, with_kafka=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 4),)))
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}"})
        for number in range(40):
            producer.produce("t", b"record", partition=number % 4)
        assert producer.flush(60) == 0
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus | None]:
    """Alerts are looked at where Prometheus is installed."""
    if PROMETHEUS is None:
        yield None
        return
    with scraping(daemon, tmp_path_factory.mktemp("prometheus")) as prometheus:
        yield prometheus


@pytest.fixture
def scene(daemon: Daemon, prometheus: Prometheus | None, name: str) -> Iterator[Scene]:
    with ExitStack() as members:
        yield Scene(daemon, prometheus, name, members)


def test_a_killed_member_is_named_within_its_session(scene: Scene) -> None:
    first, second = (scene.member(client, session_timeout_ms=45_000) for client in ("app-1", "app-2"))
    scene.settle(first, second)
    ports = second.ports()

    second.process.send_signal(signal.SIGKILL)

    scene.names("silent_member", second, ports)
    assert len(scene.page()["members"]) == 2, "its session is not over"


@pytest.mark.long
def test_a_stopped_member_is_named_after_half_its_session(scene: Scene) -> None:
    first, second = (scene.member(client, session_timeout_ms=3 * SESSION_MS) for client in ("app-1", "app-2"))
    scene.settle(first, second)
    ports = second.ports()

    second.process.send_signal(signal.SIGSTOP)

    def heard_ago_ms() -> int:
        (found,) = (one["heard_ago_ms"] for one in scene.page()["members"] if one["client_id"] == "app-2")
        return int(found)

    assert within(10, lambda: heard_ago_ms() > 3 * SESSION_MS // 2)
    scene.names("silent_member", second, ports)


def test_a_member_that_does_not_rejoin_is_named(scene: Scene) -> None:
    busy = scene.member("busy", max_poll_interval_ms=SLOW_POLL_MS)
    scene.settle(busy)
    ports = busy.ports()
    busy.tell("stop")
    scene.member("new", max_poll_interval_ms=SLOW_POLL_MS)
    assert within(10, lambda: scene.page()["phase"] == "join")
    assert any(f"busy at 127.0.0.1:{port}" in line for line in scene.describe()[:5] for port in ports), "at once"
    assert within(5, lambda: scene.page()["phase_ms"] >= SLOW_POLL_MS // 4)

    scene.names("join_held_up", busy, ports)


def test_two_processes_with_one_instance_id_are_named(scene: Scene) -> None:
    first = scene.member("old-process", group_instance_id="box")
    scene.settle(first)
    ports = first.ports()
    second = scene.member("new-process", group_instance_id="box")
    scene.settle(second)

    scene.names("instance_fought_over", first, ports)


@pytest.mark.long
def test_a_loop_by_max_poll_is_named(scene: Scene) -> None:
    slow, steady = scene.member("slow", max_poll_interval_ms=SESSION_MS), scene.member("steady")
    scene.settle(slow, steady)
    for _ in range(2):
        slow.tell("stop")
        scene.settle(steady)
        slow.tell("go")
        scene.settle(slow, steady)

    scene.names("rebalance_loop", slow, slow.ports())


def test_a_refused_assignor_is_named(scene: Scene) -> None:
    scene.settle(scene.member("good"))

    odd = scene.member("odd", partition_assignment_strategy="cooperative-sticky")

    ports: set[int] = set()

    def has_asked_the_coordinator() -> bool:
        ports.update(odd.ports())  # each may be closed at the next look
        return len(ports) > 1  # the first is that of the bootstrap

    assert within(10, has_asked_the_coordinator)
    scene.names("join_refused", odd, ports)


def test_a_rewind_is_named(scene: Scene) -> None:
    reader = scene.member("reader")
    scene.settle(reader)
    reader.tell("commit 10")

    reader.tell("commit 3")

    scene.names("consumption_rewound", reader, reader.ports())

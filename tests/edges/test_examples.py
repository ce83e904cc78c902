"""Examples of the docs, run against a real daemon."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from muster import Consumer, ConsumerRecord, Producer, TopicPartition
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, forget, running, within

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fifty_lines.py"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    folder = tmp_path_factory.mktemp("examples") / "data"
    with running(folder, *settings, with_http=True, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture
def daemon(served: Daemon) -> Iterator[Daemon]:
    """The module's, without a topic; each example has a group of its own."""
    yield served
    forget(served, ["orders", "receipts"])


def _start(daemon: Daemon, seconds: float, said: Path) -> "subprocess.Popen[bytes]":
    with said.open("wb") as out:
        command = [sys.executable, str(EXAMPLE), daemon.bootstrap, "fifty", str(seconds)]
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)


def _says(said: Path) -> list[str]:
    return said.read_text().splitlines()


def test_a_member_of_fifty_lines_shares_its_group_and_goes_on_from_what_was_committed(
    daemon: Daemon, tmp_path: Path
) -> None:
    first_said, second_said = tmp_path / "first", tmp_path / "second"
    with _start(daemon, 8, first_said) as first:
        assert within(10, lambda: "generation 1 partitions [0, 1, 2, 3, 4, 5, 6, 7]" in _says(first_said))
        with _start(daemon, 2, second_said) as second:
            assert second.wait(20) == 0, _says(second_said)
        assert first.wait(20) == 0, _says(first_said)
    second_lines, first_lines = _says(second_said), _says(first_said)
    assert second_lines[0] == "generation 2 partitions [1, 3, 5, 7]"
    assert "told: RebalanceStarted member joined" in first_lines
    assert "generation 2 partitions [0, 2, 4, 6]" in first_lines
    assert "generation 3 partitions [0, 1, 2, 3, 4, 5, 6, 7]" in first_lines
    ended_at = ast.literal_eval(second_lines[-1].removeprefix("done "))
    went_on_to = ast.literal_eval(next(line for line in first_lines if line.startswith("done ")).removeprefix("done "))
    assert all(went_on_to[partition] > count > 0 for partition, count in ended_at.items())


def test_the_example_says_what_it_wants() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python fifty_lines.py HOST:PORT GROUP SECONDS\n")


def test_the_example_needs_msgpack_alone_and_is_as_long_as_it_says() -> None:
    text = EXAMPLE.read_text()
    imported = {
        name.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for name in node.names
    } - sys.stdlib_module_names
    assert imported == {"msgpack"}
    assert 45 <= sum(1 for line in text.splitlines() if line.strip()) <= 59


def test_every_path_and_every_metric_is_in_the_operators_page(daemon: Daemon) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    address = f"http://127.0.0.1:{daemon.http_port}"
    with urlopen(f"{address}/", timeout=10) as answer:
        paths = json.load(answer)["paths"]
    with urlopen(f"{address}/metrics", timeout=10) as answer:
        metrics = re.findall(r"^# TYPE (\w+)", answer.read().decode(), re.MULTILINE)
    assert [path for path in paths if f"`{path}`" not in page and f"`GET {path}`" not in page] == []
    assert [name for name in metrics if f"`{name}`" not in page] == []


def test_the_python_of_the_readme_prints_the_record_that_it_sends(daemon: Daemon, tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(from muster .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    create = [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, "topics", "create", "orders"]
    subprocess.run([*create, "--partitions", "4"], cwd=ROOT, capture_output=True, timeout=100, check=True)
    script = tmp_path / "snippet.py"
    script.write_text(snippet.replace("127.0.0.1:9390", daemon.bootstrap))
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"orders \d+ 0 b'one coffee'\n", done.stdout)


def test_members_in_an_event_loop_go_on_from_what_was_committed(daemon: Daemon) -> None:
    create = [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, "topics", "create", "orders"]
    subprocess.run([*create, "--partitions", "4"], cwd=ROOT, capture_output=True, timeout=100, check=True)
    said = []
    for first in (0, 5):
        with Producer(daemon.bootstrap) as producer:
            for number in range(first, first + 5):
                producer.send("orders", b"%d" % number, partition=number % 4)
        command = [sys.executable, str(ROOT / "examples" / "consume_asyncio.py"), daemon.bootstrap, "3"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.splitlines())
    for lines, values in zip(said, (range(5), range(5, 10)), strict=True):
        assert lines[0] == "was given [0, 1, 2, 3]"
        assert sorted(line.split()[2] for line in lines[1:6]) == [f"b'{number}'" for number in values]
        assert lines[6:] == ["read 5 records", "gave up [0, 1, 2, 3]"]


# ------------------------------------------------------------------------------------------- a program for each way


@pytest.fixture
def orders(daemon: Daemon) -> Daemon:
    """A daemon with the README's topic and forty orders, ten in each partition."""
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic("orders", 4), CreatableTopic("receipts", 4))))
    order(daemon, range(40))
    return daemon


def order(daemon: Daemon, numbers: range) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number, partition=number % 4)


class Running:
    """An example in a process of its own, and what it has said so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path) -> None:
        self.process = process
        self._said = said

    @property
    def lines(self) -> list[str]:
        return _says(self._said)

    def says(self, holds: Callable[[list[str]], object], seconds: float = 20.0) -> None:
        assert within(seconds, lambda: holds(self.lines)), self.lines

    def interrupted(self) -> list[str]:
        """Interrupt the process as Ctrl-C would; return all its output."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> list[str]:
        assert self.process.wait(30) == 0, self.lines
        return self.lines


@contextmanager
def example(name: str, tmp_path: Path, *arguments: str) -> Iterator[Running]:
    number = len(list(tmp_path.glob("said-*")))
    said = tmp_path / f"said-{number}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        yield Running(process, said)
    finally:
        process.kill()
        process.wait()


def numbers_in(lines: list[str]) -> list[int]:
    """The orders in lines of partition, offset, value."""
    return sorted(int(one[1]) for line in lines if (one := re.fullmatch(r"\d+ \d+ b'(\d+)'", line)))


def committed(daemon: Daemon, group: str, topic: str = "orders") -> list[int | None]:
    partitions = [TopicPartition(topic, number) for number in range(4)]
    with Consumer(daemon.bootstrap, group) as consumer:
        return list(consumer.committed(partitions).values())


def test_a_poll_loop_interrupted_leaves_its_group_and_the_next_goes_on(orders: Daemon, tmp_path: Path) -> None:
    with example("poll_loop", tmp_path, orders.bootstrap) as first:
        first.says(lambda lines: numbers_in(lines) == list(range(40)))
        assert within(20.0, lambda: committed(orders, "poll-loop") == [10] * 4)
        assert numbers_in(first.interrupted()) == list(range(40))
    order(orders, range(40, 44))
    with example("poll_loop", tmp_path, orders.bootstrap) as second:
        second.says(lambda lines: numbers_in(lines) == list(range(40, 44)))
        second.interrupted()


def test_iterating_goes_on_behind_what_was_printed(orders: Daemon, tmp_path: Path) -> None:
    with Producer(orders.bootstrap) as producer:
        producer.send("orders", b"no number", partition=0)
    seen: list[int] = []
    for _ in range(4):
        with example("iterate", tmp_path, orders.bootstrap) as ten:
            lines = ten.ended()
            printed = [line for line in lines if not line.startswith("passed over: the value of orders-0 at offset 10")]
            assert len(printed) == 10
            seen += [int(line.split()[2]) for line in printed]
    assert sorted(seen) == list(range(40))


def test_the_last_three_of_each_partition_are_read_by_hand(orders: Daemon, tmp_path: Path) -> None:
    with example("by_hand", tmp_path, orders.bootstrap) as reading:
        lines = reading.ended()
    assert numbers_in(lines) == list(range(28, 40))
    assert {line.split()[1] for line in lines} == {"7", "8", "9"}


def test_a_pattern_finds_a_topic_and_tells_what_comes_and_goes(orders: Daemon, tmp_path: Path) -> None:
    with example("pattern", tmp_path, orders.bootstrap) as reading:
        reading.says(lambda lines: len(lines) == 41)
        lines = reading.interrupted()
    assert lines[0] == "given orders-0 orders-1 orders-2 orders-3"
    assert sorted(lines[41:]) == [f"gave up orders-{number} after 10" for number in range(4)]
    assert committed(orders, "pattern") == [10] * 4


def test_a_cooperative_member_keeps_what_stays_and_a_static_one_its_place(orders: Daemon, tmp_path: Path) -> None:
    with example("cooperative", tmp_path, orders.bootstrap, "a") as a:
        a.says(lambda lines: len(numbers_in(lines)) == 40)
        with example("cooperative", tmp_path, orders.bootstrap, "b") as b:
            b.says(lambda lines: any(re.match(r"given \[\d, \d\]", line) for line in lines))
            gave_up = [line for line in a.lines if line.startswith("gave up")]
            assert len(gave_up) == 1
            assert len(re.findall(r"\d", gave_up[0])) == 2
            b.interrupted()
        with example("cooperative", tmp_path, orders.bootstrap, "b") as again:
            again.says(lambda lines: any(line.startswith("given") for line in lines))
            order(orders, range(40, 44))
            again.says(lambda lines: len(numbers_in(lines)) == 2)
            a.says(lambda lines: len(numbers_in(lines)) == 42)
        assert [line for line in a.lines if line.startswith("gave up")] == gave_up


def test_who_begins_at_a_time_reads_what_is_newer_and_sees_the_lag_vanish(orders: Daemon, tmp_path: Path) -> None:
    with Producer(orders.bootstrap) as producer:
        for number in range(4):
            producer.send("receipts", b"old", partition=number)
    with example("from_a_time", tmp_path, orders.bootstrap, "1") as reading:
        reading.says(lambda lines: lines and lines[-1].endswith(", 0 behind"))
        assert sum(int(line.split()[0]) for line in reading.lines) == 40
        reading.interrupted()
    with example("from_a_time", tmp_path, orders.bootstrap, "0") as late:
        assert not within(0.5, lambda: late.lines)
        order(orders, range(40, 44))
        late.says(lambda lines: sum(int(line.split()[0]) for line in lines) == 4)
        late.interrupted()


def test_each_order_has_its_receipt(orders: Daemon, tmp_path: Path) -> None:
    with example("consume_process_produce", tmp_path, orders.bootstrap) as till:
        till.says(lambda lines: sum(int(line.split()[0]) for line in lines) == 40)
        till.interrupted()
    assert committed(orders, "till") == [10] * 4
    with Consumer(orders.bootstrap) as consumer:
        partitions = consumer.partitions_for("receipts")
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        receipts: list[ConsumerRecord] = []
        while len(receipts) < 40:
            receipts += consumer.poll()
        assert sum(consumer.end_offsets(partitions).values()) == 40
    assert sorted(int(record.value.removeprefix(b"paid: ")) for record in receipts) == list(range(40))


def test_the_same_client_speaks_kafkas_protocol(orders: Daemon, tmp_path: Path) -> None:
    for run in range(2):
        with example("over_kafka", tmp_path, f"kafka://127.0.0.1:{orders.kafka_port}") as over:
            lines = over.ended()
        written = lines[0].removeprefix("written ")
        assert lines[-1] == f"{written} b'table-4' b'one tea' {{'waiter': b'Ada'}}"
        assert written.split()[1] == f"{10 + run}"


def test_a_bare_member_counts_on_from_what_another_counted(orders: Daemon, tmp_path: Path) -> None:
    def counts(lines: list[str]) -> dict[int, int]:
        last = next((line for line in reversed(lines) if line.startswith("counts {")), "counts {}")
        return dict(ast.literal_eval(last.removeprefix("counts ")))

    with example("group_member", tmp_path, orders.bootstrap) as first:
        first.says(lambda lines: counts(lines).keys() == {0, 1, 2, 3} and min(counts(lines).values()) > 3)
        with example("group_member", tmp_path, orders.bootstrap) as second:
            second.says(counts)
            assert len(counts(second.lines)) == 2
            assert min(counts(second.lines).values()) > 3
            assert re.search(r"handed over \[0, 1, 2, 3\]", "\n".join(first.lines))
            second.interrupted()
        first.says(lambda lines: len(counts(lines)) == 4)
        first.interrupted()


def test_every_example_is_short_and_in_the_table_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for path in sorted((ROOT / "examples").glob("*.py")):
        assert f"(examples/{path.name})" in readme
        assert 18 <= len(path.read_text().splitlines()) <= 66, path.name

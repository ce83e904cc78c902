"""What the docs tell people to try, run against a real daemon."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from muster import Producer
from tests.edges.musterd import Daemon, running, within

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fifty_lines.py"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        yield daemon


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
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python fifty_lines.py HOST:PORT GROUP SECONDS\n")


def test_the_example_needs_msgpack_alone_and_is_as_long_as_it_says() -> None:
    text = EXAMPLE.read_text()
    imported = {
        name.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for name in node.names
    } - sys.stdlib_module_names
    assert imported == {"msgpack"}
    assert 45 <= sum(1 for line in text.splitlines() if line.strip()) <= 59


def test_every_path_and_every_metric_is_in_the_operators_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    with running(tmp_path / "data", with_http=True) as daemon:
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
    subprocess.run([*create, "--partitions", "4"], cwd=ROOT, capture_output=True, timeout=30, check=True)
    script = tmp_path / "snippet.py"
    script.write_text(snippet.replace("127.0.0.1:9390", daemon.bootstrap))
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"orders \d+ 0 b'one coffee'\n", done.stdout)


def test_members_in_an_event_loop_go_on_from_what_was_committed(daemon: Daemon) -> None:
    create = [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, "topics", "create", "orders"]
    subprocess.run([*create, "--partitions", "4"], cwd=ROOT, capture_output=True, timeout=30, check=True)
    said = []
    for first in (0, 5):
        with Producer(daemon.bootstrap) as producer:
            for number in range(first, first + 5):
                producer.send("orders", b"%d" % number, partition=number % 4)
        command = [sys.executable, str(ROOT / "examples" / "consume_asyncio.py"), daemon.bootstrap, "g", "orders", "3"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.splitlines())
    for lines, values in zip(said, (range(5), range(5, 10)), strict=True):
        assert lines[0] == "was given [0, 1, 2, 3]"
        assert sorted(line.split()[2] for line in lines[1:6]) == [f"b'{number}'" for number in values]
        assert lines[6:] == ["read 5 records", "gave up [0, 1, 2, 3]"]

import subprocess
import sys

import pytest

from muster.cli.showing import local_time, printable
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


@pytest.mark.parametrize("command", [("topics", "list"), ("groups", "describe", "g"), ("explain", "g")])
def test_a_node_that_is_not_there_is_one_sentence_at_once(
    shell: Shell, node: FakeNode, command: tuple[str, ...]
) -> None:
    node.reachable = False

    said = shell.complaint(*command, code=5)

    assert said == "muster: cannot connect to 127.0.0.1:9390: Connection refused\n"
    assert node.questions == 1


def test_where_the_node_is_comes_from_the_nearest_word(shell: Shell, node: FakeNode) -> None:
    shell.run("topics", "list")
    shell.run("topics", "list", MUSTER_BOOTSTRAP="a:1")
    shell.run("--bootstrap", "b:2", "topics", "list", MUSTER_BOOTSTRAP="a:1")
    shell.run("--bootstrap", "b:2", "topics", "list", "--bootstrap", "c:3", MUSTER_BOOTSTRAP="a:1")

    assert node.bootstraps == ["127.0.0.1:9390", "a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list", "--bootstrap", "nowhere:x"),
        ("doctor", "--bootstrap", "nowhere:x"),
        ("groups", "list", "--verbose", "--bootstrap", "nowhere:x"),
        ("explain", "g", "--limit", "0"),
        ("consume", "t", "--max", "0"),
        ("consume", "t", "--group", "g", "--from-beginning"),
        ("consume", "t", "--group-protocol", "consumer"),
        ("consume", "t", "--group", "g", "--group-protocol", "streams"),
        ("groups", "delete"),
        ("produce", "t", "--key-separator", ""),
        ("produce", "t", "--file", "there-is-no-such-file"),
        ("topics", "create"),
        ("dance",),
    ],
)
def test_misuse_is_exit_2(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert "Usage:" in shell.complaint(*arguments, code=2)


def test_an_interrupt_ends_quietly(shell: Shell, node: FakeNode) -> None:
    node.interrupted = True

    assert shell.complaint("topics", "list", code=130) == ""


MUSTER = "sys.argv = ['muster', 'groups', 'list', '--json']; from muster.cli import main"
KAFKAS = (
    "sys.argv = ['muster-consumer-groups', '--bootstrap-server', 'h:9', '--list']\n"
    "from muster.cli.operating.kafka_groups import main"
)


@pytest.mark.parametrize("command", [MUSTER, KAFKAS])
def test_a_reader_that_goes_away_ends_it_quietly(command: str) -> None:
    """A real process: the interpreter's own flush at its end is what likes to complain."""
    script = (
        "import sys; from muster.blocking import cluster; from tests.cli.fake_node import *\n"
        "node = FakeNode(); cluster.CallerDriver = lambda where, *_: FakeDriver(node, where)\n"
        "node.groups = {f'g{n}': DescribedGroup(f'g{n}', group_state='Empty') for n in range(20_000)}\n"
        f"{command}; main()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaints = process.stderr.read()

    assert (process.returncode, complaints) == (0, b"")


def test_every_command_explains_itself(shell: Shell) -> None:
    for command in ((), ("groups",), ("groups", "describe"), ("explain",), ("topics", "create"), ("consume",)):
        assert "Usage: " in shell.run(*command, "--help").stdout


def test_what_is_empty_or_unprintable_is_shown_as_something() -> None:
    assert [printable(value) for value in (None, "", 0, "é", "a\tb", "\x9b")] == ["-", "-", "0", "é", "a\\tb", "\\x9b"]
    assert len(local_time(1_700_000_000_123)) == len("2023-11-14 22:13:20.123")

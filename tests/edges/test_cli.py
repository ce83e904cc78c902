"""The `muster` command as people run it: real processes against a real `musterd`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.edges.musterd import Daemon, free_port, running, within

ROOT = Path(__file__).parents[2]


class Shell:
    def __init__(self, bootstrap: str) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.environment = {**os.environ, "MUSTER_BOOTSTRAP": bootstrap, "PYTHONPATH": path}

    def start(self, *arguments: str, program: tuple[str, ...] = ("-m", "muster.cli")) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )

    def run(self, *arguments: str, typed: str = "", code: int = 0) -> tuple[str, str]:
        with self.start(*arguments) as process:
            out, complaints = process.communicate(typed.encode(), timeout=100)
        assert process.returncode == code, (process.returncode, out, complaints)
        return out.decode(), complaints.decode()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json")[0])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("musterd") / "data"
    with running(folder, "group.initial.rebalance.delay.ms=0") as daemon:
        yield daemon


@pytest.fixture
def shell(daemon: Daemon) -> Shell:
    return Shell(daemon.bootstrap)


def test_records_go_in_and_come_out(shell: Shell) -> None:
    shell.run("topics", "create", "letters", "--partitions", "3")
    shell.run("produce", "letters", "--key-separator", ":", typed="".join(f"{n}:value {n}\n" for n in range(200)))

    out, _ = shell.run("consume", "letters", "--from-beginning", "--max", "200")

    assert sorted(out.splitlines()) == sorted(f"value {n}" for n in range(200))


def test_a_group_goes_on_where_it_stopped_and_can_be_explained(shell: Shell) -> None:
    shell.run("topics", "create", "flights", "--partitions", "1")
    shell.run("produce", "flights", typed="".join(f"{n}\n" for n in range(30)))

    first, _ = shell.run("consume", "flights", "--group", "delays", "--max", "20")
    second, _ = shell.run("consume", "flights", "--group", "delays", "--max", "5")

    assert (first + second).split() == [str(n) for n in range(25)]
    described = shell.json("groups", "describe", "delays")
    assert (described["state"], described["total_lag"]) == ("Empty", 5)
    assert described["partitions"][0]["committed_offset"] == 25
    assert [note["cause"] for note in shell.json("explain", "delays")["notes"]] == [
        "member joined",
        "rebalance completed",
        "member left",
        "last member gone",
    ] * 2
    assert "delays" in shell.run("groups", "list")[0]


def test_what_a_group_has_not_begun_with_is_part_of_its_lag(shell: Shell) -> None:
    shell.run("topics", "create", "orders", "--partitions", "4")
    shell.run("produce", "orders", typed="".join(f"{n}\n" for n in range(1000)))
    shell.run("consume", "orders", "--group", "billing", "--max", "10")

    described = shell.json("groups", "describe", "billing")

    assert [line["partition"] for line in described["partitions"]] == [0, 1, 2, 3]
    assert described["total_lag"] == 990


def test_a_group_can_be_deleted_once_its_members_have_left(shell: Shell) -> None:
    shell.run("topics", "create", "old", "--partitions", "1")
    shell.run("produce", "old", typed="1\n2\n")
    with shell.start("consume", "old", "--group", "done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert "group 'done' has members" in shell.run("groups", "delete", "done", code=4)[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)

    assert shell.run("groups", "delete", "done") == ("Deleted group done.\n", "")
    assert shell.run("groups", "delete", "done", code=3)[1].startswith("muster: there is no group 'done'")
    assert shell.run("consume", "old", "--group", "done", "--max", "1")[0] == "1\n"


def test_undo_restores_the_offsets_of_a_deleted_group(shell: Shell) -> None:
    shell.run("topics", "create", "ledger", "--partitions", "1")
    shell.run("produce", "ledger", typed="".join(f"{n}\n" for n in range(5)))
    shell.run("consume", "ledger", "--group", "books", "--max", "2")
    shell.run("groups", "delete", "books")

    (deleted,) = [one for one in shell.json("audit") if one["act"] == "delete group" and one["group_id"] == "books"]
    shell.run("undo", deleted["id"])

    assert shell.json("groups", "describe", "books")["total_lag"] == 3
    assert shell.run("consume", "ledger", "--group", "books", "--max", "1")[0] == "2\n"


def test_a_member_of_a_group_that_the_coordinator_balances(shell: Shell) -> None:
    shell.run("topics", "create", "driven", "--partitions", "2")
    shell.run("produce", "driven", typed="1\n")
    with shell.start("consume", "driven", "--group", "kip", "--group-protocol", "consumer") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        page = shell.json("groups", "describe", "kip")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
    assert [one["group_protocol"] for one in page["members"]] == ["consumer"]
    assert page["target_epoch"] == page["generation_id"] and page["state_since"] is not None


def test_ctrl_c_ends_a_member_quietly_and_takes_it_out_of_its_group(shell: Shell) -> None:
    shell.run("topics", "create", "quiet", "--partitions", "2")
    with shell.start("consume", "quiet", "--group", "watchers") as process:

        def has_both() -> bool:
            groups = {group["group_id"]: group["state"] for group in shell.json("groups", "list")}
            if groups.get("watchers") != "Stable":
                return False
            members = shell.json("groups", "describe", "watchers")["members"]
            return [len(member["partitions"]) for member in members] == [2]

        assert within(20, has_both)
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=100)

    assert (process.returncode, out, complaints) == (130, b"", b"")
    assert shell.json("groups", "describe", "watchers")["state"] == "Empty"


def test_a_member_says_when_the_daemon_goes_away_and_when_it_is_back(tmp_path: Path) -> None:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        shell = Shell(daemon.bootstrap)
        shell.run("topics", "create", "t", "--partitions", "1")
        shell.run("produce", "t", typed="1\n")
        with shell.start("consume", "t", "--group", "g", "--max", "2") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"1\n"
            daemon.kill()
            gone = process.stderr.readline().decode()
            daemon.start()
            back = process.stderr.readline().decode()
            shell.run("produce", "t", typed="2\n")
            out, complaints = process.communicate(timeout=100)

    assert gone.startswith(f"muster: cannot connect to {daemon.bootstrap}: Connection refused.")
    assert (back, out, complaints) == ("muster: connected again.\n", b"2\n", b"")


def test_a_line_typed_is_a_record_before_the_next_is(shell: Shell) -> None:
    shell.run("topics", "create", "typed", "--partitions", "1")
    with shell.start("produce", "typed") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        out, _ = shell.run("consume", "typed", "--from-beginning", "--max", "1")
        process.communicate(timeout=100)

    assert out == "first\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_producer_whose_node_is_away_says_what_it_waits_for_and_ends_soon(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path / "data") as daemon:
        shell = Shell(daemon.bootstrap)
        shell.run("topics", "create", "t", "--partitions", "1")
        with shell.start("produce", "t") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(b"first\n")
            process.stdin.flush()
            assert shell.run("consume", "t", "--from-beginning", "--max", "1")[0] == "first\n"
            daemon.kill()
            process.stdin.write(b"second\nthird\n")
            process.stdin.flush()
            time.sleep(1)
            began = time.monotonic()
            process.send_signal(number)
            first = process.stderr.readline().decode()
            assert time.monotonic() - began < 4.5, "before it gives up"
            if number == signal.SIGINT:  # a second one gives up at once
                process.send_signal(number)
            out, rest = process.communicate(timeout=100)
            took = time.monotonic() - began

    assert first.startswith("muster: stopping: 2 records not acknowledged yet; waiting 5 s at most")
    assert rest.decode() == "muster: gave up 2 records for t; what was on its way may be written all the same\n"
    assert (process.returncode, out) == (130, b"")
    assert took < 4 if number == signal.SIGINT else 4 < took < 12


PATIENT = "from muster.cli import main, stopping; stopping.PATIENCE_S = 60.0; raise SystemExit(main())"
"""The command, which waits for a node as long as one may take to start on a busy machine."""


def test_a_producer_that_is_stopped_while_its_node_comes_back_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        shell = Shell(daemon.bootstrap)
        shell.run("topics", "create", "t", "--partitions", "1")
        with shell.start("produce", "t", program=("-c", PATIENT)) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(b"first\n")
            process.stdin.flush()
            assert shell.run("consume", "t", "--from-beginning", "--max", "1")[0] == "first\n"
            daemon.kill()
            process.stdin.write(b"second\n")
            process.stdin.flush()
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert b"stopping: 1 record not acknowledged yet" in process.stderr.readline()
            daemon.start()
            _, rest = process.communicate(timeout=100)
        assert (process.returncode, rest) == (130, b"muster: all records are acknowledged\n")
        assert shell.run("consume", "t", "--from-beginning", "--max", "2")[0] == "first\nsecond\n"


def test_a_producer_with_nothing_on_its_way_ends_quietly(shell: Shell) -> None:
    shell.run("topics", "create", "idle", "--partitions", "1")
    with shell.start("produce", "idle") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        shell.run("consume", "idle", "--from-beginning", "--max", "1")
        process.send_signal(signal.SIGTERM)
        out, complaints = process.communicate(timeout=100)
    assert (process.returncode, out, complaints) == (130, b"", b"")


def test_what_is_refused_is_one_sentence(shell: Shell) -> None:
    _, complaint = shell.run("topics", "create", "no/such/name", code=4)

    assert complaint.startswith("muster: topic 'no/such/name' was not made: ")
    assert complaint.count("\n") == 1


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "muster"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m muster.cli "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(muster completion bash)" || exit 1
    for word in descr "describe --ver"; do
        COMP_WORDS=(muster groups $word); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster_completion muster
        echo "${COMPREPLY[@]}"
    done
    complete -p muster
    """
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    shell = ["bash", "-c", script]
    done = subprocess.run(shell, check=False, capture_output=True, text=True, timeout=300, env=environment)

    completes = "complete -o default -F _muster_completion muster"
    assert (done.stdout.splitlines(), done.stderr) == (["describe", "--verbose", completes], "")


def test_what_is_watched_is_shown_until_a_signal(shell: Shell) -> None:
    shell.run("topics", "create", "watchable")
    shell.run("produce", "watchable", typed="1\n")
    shell.run("consume", "watchable", "--group", "seen", "--max", "1")

    for ending, code, command in (
        (signal.SIGINT, 130, ("groups", "list")),
        (signal.SIGTERM, 143, ("groups", "describe", "seen", "--members")),
        (signal.SIGINT, 130, ("doctor", "seen")),
    ):
        with shell.start(*command, "--watch", "0.2") as process:
            assert process.stdout is not None
            blocks = 0
            while blocks < 3:  # an empty line stands between two of them
                line = process.stdout.readline()
                assert line, process.communicate()
                blocks += line == b"\n"
            process.send_signal(ending)
            _out, complaints = process.communicate(timeout=100)
        assert (process.returncode, complaints) == (code, b"")


def test_a_terminal_is_drawn_anew_until_ctrl_c(shell: Shell) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "groups", "list", "--watch", "0.2"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**shell.environment, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"\x1b[H\x1b[2J") < 3:
            more = os.read(ours, 65_536)
            assert more
            shown += more
        process.send_signal(signal.SIGINT)
        process.wait(timeout=100)
    os.close(ours)

    assert process.returncode == 130
    assert b"Every 0.2 s, until Ctrl-C." in shown
    assert b"Traceback" not in shown


def test_a_daemon_that_is_not_there_is_one_sentence() -> None:
    port = free_port()

    for command in (("groups", "describe", "g"), ("explain", "g"), ("consume", "t", "--group", "g"), ("produce", "t")):
        _, complaint = Shell(f"127.0.0.1:{port}").run(*command, code=5)
        assert complaint.startswith(
            f"muster: cannot connect to 127.0.0.1:{port}: Connection refused. Is musterd running"
        )
        assert complaint.count("\n") == 1


def test_a_daemon_that_never_reached_its_cluster_says_so_when_asked_for_topics(tmp_path: Path) -> None:
    settings = (f"upstream.servers=127.0.0.1:{free_port()}", f"upstream.listener.ports={free_port()}")
    with running(tmp_path / "data", *settings, with_kafka=True) as daemon:
        for command in (("topics", "list"), ("topics", "describe", "t"), ("produce", "t")):
            _, complaint = Shell(daemon.bootstrap).run(*command, code=1)
            assert complaint.startswith("muster: musterd has not reached its Kafka cluster yet: ")
            assert complaint.count("\n") == 1


def test_a_killed_member_is_named_while_its_session_lasts(shell: Shell) -> None:
    shell.run("topics", "create", "watched")
    shell.run("produce", "watched", typed="1\n")
    with shell.start("consume", "watched", "--group", "watchers") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert shell.run("doctor", "watchers")[0] == "No problem in 1 group.\n"
        process.kill()
    time.sleep(1.2)  # a closed connection counts from one second on

    found, _ = shell.run("doctor", "watchers", code=6)
    described, _ = shell.run("groups", "describe", "watchers", "--verbose")

    assert found.startswith("watchers: silent_member, muster-cli at 127.0.0.1:")
    assert "closed" in described

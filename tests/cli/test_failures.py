"""Failures of the command: exit codes, sentences, documents; and what shells complete."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.completion import shell_complete

from muster.cli import app
from muster.cli.completion import PROGRAM
from muster.cli.failures import ExitCode
from muster.errors import AuthenticationFailed
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup
from protocol.messages.node import FindCoordinatorReply, FoundCoordinator
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def failed(shell: Shell, *arguments: str, code: int) -> dict[str, Any]:
    """Run the command with --json; return the document of its failure, which names the exit code too."""
    (told,) = json.loads(shell.complaint(*arguments, "--json", code=code)).values()
    assert told["exit_code"] == code
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (("groups", "describe", "nobody"), 3, {"code": "NOT_THERE", "group": "nobody"}),
        (("topics", "describe", "none"), 3, {"code": "NOT_THERE", "topic": "none"}),
        (("groups", "evict", "orders", "--member", "m-9"), 3, {"code": "NOT_THERE", "group": "orders"}),
        (("undo", "orders:9"), 3, {"code": "NOT_THERE"}),
        (("groups", "reset", "orders", "--to-earliest", "--topic", "none"), 3, {"code": "NOT_THERE"}),
        (("quotas", "list"), 4, {"code": "REFUSED", "kafka_error": None}),
        (("users", "list"), 4, {"code": "REFUSED", "message": "no access rule permits this: users are for those who "}),
        (("groups", "describe"), 2, {"code": "MISUSED"}),
        (("groups", "describe", "orders", "--bogus"), 2, {"message": "No such option: --bogus"}),
        (("--bogus", "groups", "list"), 2, {"message": "No such option: --bogus"}),
        (("topics", "list", "--bootstrap", "nowhere:x"), 2, {"code": "MISUSED"}),
        (("groups", "import", "none.jsonl"), 1, {"code": "FAILED"}),
        (("groups", "pin", "orders"), 2, {"message": "No such option: --json"}),
    ],
)
def test_a_failure_is_a_document_with_its_exit_code(
    shell: Shell, node: FakeNode, arguments: tuple[str, ...], code: int, facts: dict[str, Any]
) -> None:
    node.may_alter = False

    told = failed(shell, *arguments, code=code)

    message = facts.pop("message", "")
    assert told["message"].startswith(message)
    assert facts.items() <= told.items()


def test_what_a_server_refused_has_kafkas_name(shell: Shell, node: FakeNode) -> None:
    node.refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    told = failed(shell, "groups", "describe", "orders", code=4)
    assert (told["code"], told["kafka_error"], told["group"]) == ("REFUSED", "GROUP_AUTHORIZATION_FAILED", "orders")

    node.refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert failed(shell, "groups", "describe", "orders", code=1)["code"] == "FAILED"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            "no access rule permits DESCRIBE on group 'orders' (GROUP_AUTHORIZATION_FAILED)",
        ),
        (ErrorCode.INVALID_GROUP_ID, "group 'orders' has no coordinator: INVALID_GROUP_ID"),
    ],
)
def test_a_group_whose_coordinator_is_refused_is_named(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, message: str
) -> None:
    reply = FindCoordinatorReply((FoundCoordinator("orders", -1, "", -1, error),))
    monkeypatch.setattr(node, "FindCoordinator", lambda _message: reply)
    told = failed(shell, "groups", "describe", "orders", code=4)
    assert (told["kafka_error"], told["message"]) == (error.name, message)


def test_a_login_that_is_refused_is_no_node_that_is_not_reached(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(message: Message) -> Message:
        raise AuthenticationFailed("the password of 'me' is wrong")

    node.reachable = False
    assert failed(shell, "groups", "list", code=5)["code"] == "NOT_REACHED"
    monkeypatch.setattr(node, "answer", refuse)
    assert failed(shell, "groups", "list", code=4)["message"] == "the password of 'me' is wrong"


def test_results_stay_the_only_document_on_standard_output(shell: Shell, node: FakeNode) -> None:
    node.groups["a"] = DescribedGroup("a", group_state="Empty")

    result = shell.run("groups", "delete", "a", "orders", "--json", code=4)

    assert [one["deleted"] for one in json.loads(result.stdout)] == [True, False]
    assert json.loads(result.stderr)["error"]["groups"] == ["a", "orders"]


def test_a_name_that_looks_like_the_option_is_a_name(shell: Shell) -> None:
    assert shell.complaint("groups", "describe", "--", "--json", code=3).startswith("muster: there is no group")


@pytest.mark.parametrize(("shell_name", "marks"), [("bash", "-F _muster"), ("zsh", "#compdef"), ("fish", "--command")])
def test_shells_complete_commands_and_options(
    shell: Shell,
    shell_name: str,
    marks: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = shell.run("completion", shell_name).stdout
    assert marks in printed
    assert "_MUSTER_COMPLETE=complete_" + shell_name in printed

    def completed(line: str) -> str:
        """Ask as the script does."""
        for name, value in (
            ("COMP_WORDS", line),
            ("COMP_CWORD", str(line.count(" "))),
            ("_TYPER_COMPLETE_ARGS", line),
            ("_TYPER_COMPLETE_FISH_ACTION", "get-args"),
        ):
            monkeypatch.setenv(name, value)
        command = typer.main.get_command(app)
        assert shell_complete(command, {}, PROGRAM, "_MUSTER_COMPLETE", f"complete_{shell_name}") == 0
        return capsys.readouterr().out

    found = completed("muster groups de")
    assert all(name in found for name in ("describe", "delete", "delete-offsets"))
    assert "consume-from-max" not in found
    assert "--verbose" in completed("muster groups describe --verb")
    assert "fish" in completed("muster completion fi")


def test_the_page_for_operators_has_every_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for code in ExitCode:
        assert f"| {code:d} | {'' if code is ExitCode.PROBLEM else f'`{code.name}` '}| " in page


def test_an_unknown_shell_is_misuse(shell: Shell) -> None:
    assert "'tcsh'" in shell.complaint("completion", "tcsh", code=2)

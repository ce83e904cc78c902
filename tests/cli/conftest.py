import json
from functools import cache
from typing import Any

import pytest
import typer.testing
from typer.testing import CliRunner, Result

from muster.blocking import cluster, runner
from muster.cli import app
from tests.cli.fake_node import FakeDriver, FakeNode

_BUILT = cache(typer.main.get_command)


class Shell:
    """Runs `muster` with arguments."""

    def run(self, *arguments: str, typed: bytes | str = "", code: int = 0, **environment: str) -> Result:
        result = CliRunner().invoke(app, list(arguments), input=typed, env={"TZ": "UTC", **environment})
        assert result.exit_code == code, (result.exit_code, result.output, result.exception)
        return result

    def lines(self, *arguments: str, **options: Any) -> list[str]:
        return self.run(*arguments, **options).stdout.splitlines()

    def json(self, *arguments: str, **options: Any) -> Any:
        return json.loads(self.run(*arguments, "--json", **options).stdout)

    def complaint(self, *arguments: str, code: int = 1, **options: Any) -> str:
        """Run the command, and return its standard error; its standard output must be empty."""
        result = self.run(*arguments, code=code, **options)
        assert result.stdout == ""
        return result.stderr


@pytest.fixture(autouse=True)
def build_command_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CliRunner` builds all of the commands anew at each run, which takes longer than most tests."""
    monkeypatch.setattr(typer.testing, "_get_command", _BUILT)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    node = FakeNode()
    monkeypatch.setattr(cluster, "CallerDriver", lambda where, *_: FakeDriver(node, where))
    monkeypatch.setattr(runner, "ThreadDriver", lambda where, _client_id: FakeDriver(node, where))
    monkeypatch.delenv("MUSTER_BOOTSTRAP", raising=False)
    return node


@pytest.fixture
def shell(node: FakeNode) -> Shell:
    return Shell()

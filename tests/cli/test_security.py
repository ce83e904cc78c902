"""Security settings of the command: from a file, from the environment, for Muster and for the cluster's brokers."""

from pathlib import Path
from typing import Any

import pytest

from coordinator.config.config import KEYS
from muster.blocking import cluster
from muster.cli import config
from muster.net.bootstrap import Bootstrap
from muster.net.security import PLAINTEXT, Security
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeDriver, FakeNode

SCRAM = Security(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512", username="me", password="a=b #c")


@pytest.fixture
def reached(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Security]]:
    """Every client that was made: where to, and how."""
    made: list[tuple[str, Security]] = []

    def make(where: Bootstrap, *_: object) -> FakeDriver:
        driver = FakeDriver(node, where)
        made.append((node.bootstraps[-1], where.security))
        return driver

    monkeypatch.setattr(cluster, "CallerDriver", make)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(
        "# how to reach them\n\nsecurity.protocol = SSL\n"
        "broker.security.protocol=SASL_PLAINTEXT\nbroker.sasl.mechanism=SCRAM-SHA-512\n"
        "broker.sasl.username=me\nbroker.sasl.password=a=b #c\n"
    )
    return path


def test_a_file_says_how_servers_are_reached(shell: Shell, reached: list[tuple[str, Security]], file: Path) -> None:
    shell.run("--config", str(file), "groups", "list")
    assert reached[0] == ("127.0.0.1:9390", Security(protocol="SSL"))


@pytest.mark.parametrize(
    "login",
    [
        'x.ScramLoginModule required username="me" password="a=b #c";',
        'x.ScramLoginModule required \\\n    password="a=b #c" \\\n  username=me;\\',
    ],
)
def test_the_login_of_javas_clients_is_read(
    shell: Shell, reached: list[tuple[str, Security]], tmp_path: Path, login: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}")
    shell.run("--config", str(path), "groups", "list")
    assert reached[0][1] == SCRAM


def test_the_environment_says_it_too_and_wins(shell: Shell, reached: list[tuple[str, Security]], file: Path) -> None:
    shell.run("groups", "list", MUSTER_SECURITY_PROTOCOL="SSL")
    assert reached[0][1] == Security(protocol="SSL")
    reached.clear()
    shell.run("topics", "list", MUSTER_CONFIG=str(file), MUSTER_SECURITY_PROTOCOL="plaintext")
    assert reached[0][1] == PLAINTEXT


def test_offsets_are_handed_back_to_brokers_as_these_are_reached(
    shell: Shell, reached: list[tuple[str, Security]], file: Path, node: FakeNode
) -> None:
    shell.run("--config", str(file), "groups", "hand-back", "billing", "--to", "broker:9092", code=1)
    assert ("kafka://broker:9092", SCRAM) in reached
    assert ("127.0.0.1:9390", Security(protocol="SSL")) in reached
    reached.clear()
    shell.run("groups", "hand-back", "billing", "--to", "broker:9092", code=1, MUSTER_SECURITY_PROTOCOL="SSL")
    assert ("kafka://broker:9092", Security(protocol="SSL")) in reached


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("security.protocol", "line 1: NAME=VALUE is wanted"),
        ("sasl.pasword=hidden", "'sasl.pasword' is no setting of security"),
        ("security.protocol=TLS", "'TLS' is no security protocol"),
        ('sasl.jaas.config=Plain required password="hidden";', 'sasl.jaas.config has no username="..."'),
        ("ssl.ca.location=x", "ca_location is for the security protocols SSL or SASL_SSL"),
    ],
)
def test_settings_that_cannot_be_are_misuse(shell: Shell, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    said = " ".join(shell.complaint("--config", str(path), "groups", "list", code=2).split())
    assert why in said and "--config" in said
    assert "hidden" not in said


def test_a_file_that_is_not_there_is_misuse(shell: Shell) -> None:
    assert "No such file" in shell.complaint("--config", "/nowhere", "groups", "list", code=2)


def test_without_a_word_nothing_is_secured() -> None:
    assert config.read_servers("here:1", None) == ("here:1", None, None)


@pytest.mark.parametrize("prefix", ["", "broker."])
def test_half_a_login_names_the_other_half(shell: Shell, tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"{prefix}security.protocol=SASL_SSL\n{prefix}sasl.mechanism=SCRAM-SHA-512\n")
    variable = f"MUSTER_{prefix.upper().replace('.', '_')}SASL_"
    said = shell.complaint("--config", str(path), "groups", "list", code=2, **{f"{variable}USERNAME": "me"})
    assert f"{prefix}sasl.password ({variable}PASSWORD) is missing" in _in_a_line(said)
    said = shell.complaint("--config", str(path), "groups", "list", code=2, **{f"{variable}PASSWORD": "secret"})
    assert f"{prefix}sasl.username ({variable}USERNAME) is missing" in _in_a_line(said)
    assert "secret" not in said


@pytest.mark.parametrize("prefix", ["", "broker."])
def test_a_file_that_cannot_be_read_is_a_mistake_of_the_setting_that_names_it(
    shell: Shell, tmp_path: Path, prefix: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"{prefix}security.protocol=SSL\n{prefix}ssl.ca.location=/nowhere.pem\n")
    said = _in_a_line(shell.complaint("--config", str(path), "groups", "list", code=2))
    assert f"Invalid value for {prefix}ssl.ca.location: /nowhere.pem" in said
    path.write_text(f"{prefix}security.protocol=SSL\n{prefix}ssl.certificate.location=/nowhere.pem\n")
    said = _in_a_line(shell.complaint("--config", str(path), "groups", "list", code=2))
    assert f"Invalid value for {prefix}ssl.certificate.location: /nowhere.pem" in said


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("MUSTER_SECURITY_PROTCOL", "MUSTER_SECURITY_PROTOCOL"),
        ("MUSTER_BROKER_SASL_PASWORD", "MUSTER_BROKER_SASL_PASSWORD"),
        ("MUSTER_SASL_USER", "MUSTER_SASL_USERNAME"),
    ],
)
def test_a_mistyped_variable_is_not_passed_over(shell: Shell, wrong: str, meant: str) -> None:
    said = _in_a_line(shell.complaint("groups", "list", code=2, **{wrong: "hidden"}))
    assert f"{wrong} in the environment is no variable of muster: did you mean {meant}?" in said
    assert "hidden" not in said


def test_variables_of_the_daemon_and_of_kubernetes_are_none_of_the_commands(shell: Shell) -> None:
    others = ("MUSTER_PORT", "MUSTER_SERVICE_HOST", "MUSTER_SERVICE_PORT_KAFKA", "MUSTER_BROKER_SERVICE_PORT")
    said: dict[str, Any] = dict.fromkeys((*others, *(key.environment for key in KEYS.values())), "x")
    shell.run("groups", "list", **said)


def _in_a_line(said: str) -> str:
    return " ".join(said.replace("│", " ").split())

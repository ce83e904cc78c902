"""The service manager is told that the daemon is ready, lives and stops; `--check` says what a start would."""

import os
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from coordinator.io.service_manager import ServiceManager
from tests.accounts.identity_provider import AUDIENCE, key_set, rsa_key
from tests.edges.musterd import Daemon

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    address = f"\0muster-{os.getpid()}-{tmp_path.name}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.settimeout(60)
    listening.bind(address)
    monkeypatch.setenv("NOTIFY_SOCKET", "@" + address[1:])
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    return listening


def heard(manager: socket.socket, wanted: str) -> str:
    """Return the message that contains this, after others."""
    while wanted not in (message := manager.recv(1_000).decode()):
        pass
    return message


def test_it_is_told_when_we_are_ready_live_and_stop(tmp_path: Path, manager: socket.socket) -> None:
    with manager:
        daemon = Daemon(tmp_path / "data").start()
        assert heard(manager, "READY=1").endswith(f"native at {daemon.bootstrap}")
        assert [heard(manager, "WATCHDOG=1") for _ in range(3)] == ["WATCHDOG=1"] * 3
        assert daemon.stop() == 0
        assert heard(manager, "STOPPING=1")


def test_nobody_is_told_where_nobody_listens() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "soon"}):
        telling = ServiceManager(environment)
        telling.ready("served")
        telling.stopping()
        telling.close()


def check(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "coordinator", "--check", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_check_serves_nothing_and_says_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert check("--data-dir", str(folder)) == (0, "musterd: the configuration can be served\n", "")
    assert not folder.exists()
    code, _out, told = check("--set", "node.id=many")
    assert (code, "node.id" in told) == (2, True)
    code, _out, told = check(
        "--set", f"tls.certificate.location={folder}/none.crt", "--set", f"tls.key.location={folder}/none.key"
    )
    assert (code, "none.crt" in told) == (2, True)
    for path, why in ((folder / "audit.log", "No such file or directory"), (tmp_path, "Is a directory")):
        code, _out, told = check("--set", f"audit.log.location={path}")
        assert (code, told) == (2, f"musterd: audit.log.location = {path}: {why}\n")
    assert check("--data-dir", str(folder), "--set", f"audit.log.location={tmp_path}/audit.log")[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_check_reads_the_file_of_an_identity_providers_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    oauth = ("--set", "sasl.enabled.mechanisms=OAUTHBEARER", "--set", "sasl.oauthbearer.expected.audience=" + AUDIENCE)
    url = ("--set", f"sasl.oauthbearer.jwks.endpoint.url=file://{keys}")
    code, _out, told = check(*oauth, *url)
    assert (code, told.rpartition(": ")[2]) == (2, "No such file or directory\n")
    keys.write_text("{}")
    code, _out, told = check(*oauth, *url)
    assert (code, told.rpartition(": ")[2]) == (2, "it is no JSON Web Key Set\n")
    keys.write_bytes(key_set(rsa_key()))
    assert check(*oauth, *url)[0] == 0


def test_the_configuration_of_the_kubernetes_manifest_can_be_served(tmp_path: Path) -> None:
    manifest = (ROOT / "deploy/kubernetes/musterd.yaml").read_text()
    found = re.search(r"^  musterd.toml: \|\n((?:    .*\n)+)", manifest, re.MULTILINE)
    assert found is not None
    config = tmp_path / "musterd.toml"
    config.write_text(textwrap.dedent(found[1]))
    code, _out, told = check("--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert code == 0, told

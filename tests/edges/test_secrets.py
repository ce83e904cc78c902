"""Secrets of users: in no log, page, traceback or list of processes, whatever form they have there."""

import io
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import structlog

from coordinator.accounts.plain import PasswordCheck
from coordinator.io.exit import exit_on_error
from coordinator.start.stderr import log_to_stderr
from muster.blocking.cluster import ClusterClient
from tests.accounts.rig import accounts_of
from tests.edges import logins
from tests.edges.musterd import Daemon, running

ADMIN = "root's first secret"
GUESS = "a guess of a secret"
TYPED = "second secret, typed"
SESSION_SECRET = re.compile(r"muster_session_\d+=([^;]+)")
PATHS = (
    "/",
    "/v1",
    "/v1/groups",
    "/v1/problems",
    "/v1/overview",
    "/v3/clusters",
    "/metrics",
    "/openapi.json",
    "/console/session",
)
REFUSED = ("/v1/groups?x=y", "/v1/groups/%00", "/nowhere", "/v1/groups/none")


def forms(secret: str, user: str = logins.ROOT) -> set[str]:
    """The secret as it may stand in a text."""
    encoded = secret.encode()
    basic = b64encode(f"{user}:{secret}".encode()).decode()
    return {secret, quote(secret), b64encode(encoded).decode(), encoded.hex(), basic, repr(secret)[1:-1]}


def found_in(text: str, secrets: dict[str, set[str]]) -> list[str]:
    return [name for name, written in secrets.items() if any(one in text for one in written)]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("MUSTER_INITIAL_ADMIN", f"{logins.ROOT}:{ADMIN}")
    with running(
        tmp_path / "data",
        f"audit.log.location={tmp_path / 'audit.log'}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:root",
        with_http=True,
        with_kafka=True,
    ) as one:
        yield one


def fetch(daemon: Daemon, path: str, body: str | None = None, **headers: str) -> str:
    """Return the status, headers and body of a page."""
    data = None if body is None else body.encode()
    given = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.http_port}{path}", data, given)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return f"{answer.status} {answer.headers} {answer.read().decode()}"
    except urllib.error.HTTPError as refused:
        return f"{refused.code} {refused.headers} {refused.read().decode()}"


def muster(daemon: Daemon, *arguments: str, typed: str = "") -> tuple[str, str]:
    """Run the command as root; what it printed, and its command line while it ran."""
    settings = logins.environment("SCRAM-SHA-512") | {"MUSTER_SASL_PASSWORD": ADMIN}
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, *arguments]
    process = subprocess.Popen(
        command,
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    listed = Path(f"/proc/{process.pid}/cmdline").read_text()
    printed, _ = process.communicate(typed, timeout=300)
    assert process.returncode == 0, printed
    return printed, listed


def basic(password: str, user: str = logins.ROOT) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.long
def test_no_secret_is_in_a_log_a_page_or_the_list_of_processes(daemon: Daemon) -> None:
    seen = ["".join(muster(daemon, "users", "create", "billing", typed=f"{TYPED}\n"))]
    seen += muster(daemon, "users", "list")
    made, listed = muster(daemon, "tokens", "create", "--role", "view", "--name", "grafana")
    token = next(word for word in made.split() if word.startswith("muster_"))
    seen += [listed, *muster(daemon, "tokens", "list")]
    for mechanism in logins.MECHANISMS:
        with ClusterClient(daemon.bootstrap, security=logins.security(mechanism, password=ADMIN)):
            pass
        assert logins.hears(logins.librdkafka(daemon, mechanism, password=GUESS), "invalid credentials")
    opened = fetch(daemon, "/console/login", f'{{"user": "billing", "password": "{TYPED}"}}')
    session = SESSION_SECRET.search(opened)
    assert session is not None, opened
    seen.append(fetch(daemon, "/console/login", f'{{"user": "billing", "password": "{GUESS}"}}'))
    seen.append(fetch(daemon, "/console/login", f'{{"user": "billing", "password": "{GUESS}'))
    cookie = session[0]
    for given in ({"Authorization": basic(ADMIN)}, {"Authorization": f"Bearer {token}"}, {"Cookie": cookie}):
        seen += [fetch(daemon, path, **given) for path in PATHS + REFUSED]
    for wrong in ({"Authorization": basic(GUESS)}, {"Authorization": f"Bearer {GUESS}"}, {"Authorization": GUESS}):
        seen += [fetch(daemon, path, **wrong) for path in PATHS + REFUSED]
    assert daemon.process is not None
    seen.append(Path(f"/proc/{daemon.process.pid}/cmdline").read_text())
    assert daemon.stop() == 0
    folder = daemon.folder.parent
    log, audit = ((folder / name).read_text() for name in (f"{daemon.folder.name}.log", "audit.log"))
    assert "login failed" in audit and "a login as 'root'" in log
    secrets = {"root's": forms(ADMIN), "guess": forms(GUESS), "typed": forms(TYPED, "billing")}
    secrets |= {"token": forms(token), "session": {session[1]}}
    assert found_in("\n".join((*seen, log, audit)), secrets) == []
    stored = b"".join(path.read_bytes() for path in daemon.folder.rglob("*") if path.is_file())
    assert found_in(stored.decode("latin-1"), secrets) == [], "at rest there are keys made from them"


class Terminal(io.StringIO):
    """Standard error of somebody who looks on."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[io.StringIO, Terminal])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    written: io.StringIO = request.param()
    monkeypatch.setattr(sys, "stderr", written)
    log_to_stderr()
    yield written
    structlog.reset_defaults()


class BrokenCheck(PasswordCheck):
    """A check that fails with the password at hand."""

    def run(self, disk: object = None) -> None:
        password = self._password
        raise RuntimeError(f"a fault of the program, at a password of {len(password)} characters")


class Ended(Exception):
    """Stands for the end of the process."""


def test_no_password_is_in_the_traceback_of_a_check_that_fails(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_code: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    mechanism, credential = accounts_of({}).credential_for_plain("alice")
    with pytest.raises(Ended), exit_on_error("Checking a password"):
        BrokenCheck(mechanism, TYPED, credential).run()
    assert "a fault of the program" in log.getvalue()
    assert found_in(log.getvalue(), {"password": forms(TYPED, "alice")}) == []


def test_no_password_is_in_the_traceback_of_a_page_that_fails(log: io.StringIO) -> None:
    def page(password: str) -> None:
        raise RuntimeError(f"a fault of the program, at a password of {len(password)} characters")

    try:
        page(TYPED)
    except RuntimeError as error:
        structlog.get_logger().error("a page failed", exc_info=error)
    assert "a fault of the program" in log.getvalue()
    assert found_in(log.getvalue(), {"password": forms(TYPED, "alice")}) == []

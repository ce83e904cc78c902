"""HTTP at a real daemon that wants logins: Basic with the users of Kafka's clients, held to the same access rules."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.blocking.cluster import ClusterClient
from protocol.access_token import hash_of
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    CLUSTER_NAME,
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    CreateAcls,
    CreateAclsReply,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges import logins
from tests.edges.musterd import Daemon, running, within

ROOT = (logins.ROOT, logins.PASSWORD)
BILLING = ("billing", "second secret")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("logins")
    with running(
        folder / "data",
        f"audit.log.location={folder / 'audit.log'}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"initial.admin={':'.join(ROOT)}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:root",
        with_http=True,
    ) as one:
        with ClusterClient(one.bootstrap, security=logins.security("SCRAM-SHA-512")) as connection:
            rules = [
                (AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE),
                (AclResourceType.GROUP, "pay", AclOperation.DESCRIBE),
                (AclResourceType.TOPIC, "orders", AclOperation.READ),
            ]
            made = connection.ask(CreateAcls(tuple(allow(*rule) for rule in rules)))
            assert isinstance(made, CreateAclsReply) and not any(one.error_code for one in made.results)
            topic = connection.ask(CreateTopics((CreatableTopic("orders", 1),)))
            assert isinstance(topic, CreateTopicsReply) and not topic.topics[0].error_code
            for group_id in ("pay", "ship"):
                commit = OffsetCommit(group_id, (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),))
                committed = connection.ask(commit)
                assert isinstance(committed, OffsetCommitReply)
                assert committed.topics[0].partitions[0].error_code is ErrorCode.NONE
        muster(one, "users", "create", BILLING[0], typed=f"{BILLING[1]}\n")
        yield one


def muster(daemon: Daemon, *arguments: str, typed: str = "") -> str:
    """Run the command as the administrator, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, *arguments],
        env={**os.environ, **logins.environment("SCRAM-SHA-512")},
        input=typed,
        text=True,
        check=True,
        timeout=120,
        stdout=subprocess.PIPE,
    )
    return done.stdout


def make_token(daemon: Daemon, name: str, role: str, expires: str = "1h") -> str:
    made = muster(daemon, "tokens", "create", "--role", role, "--name", name, "--expires", expires, "--json")
    return str(json.loads(made)["token"])


def allow(kind: AclResourceType, name: str, operation: AclOperation) -> AclCreation:
    return AclCreation(kind, name, f"User:{BILLING[0]}", "*", operation, AclPermission.ALLOW, AclPatternType.LITERAL)


def fetch(daemon: Daemon, path: str, user: tuple[str, str] | str | None, body: object = None) -> tuple[int, str]:
    """Return status and body. `user`: name and password, or a token."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.http_port}{path}", data)
    request.add_header("Content-Type", "application/json")
    if isinstance(user, str):
        request.add_header("Authorization", f"Bearer {user}")
    elif user is not None:
        request.add_header("Authorization", "Basic " + b64encode(":".join(user).encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_without_a_login_only_probes_are_answered(daemon: Daemon) -> None:
    assert fetch(daemon, "/healthz", None)[0] == fetch(daemon, "/readyz", None)[0] == 200
    for path in ("/", "/v1/groups", "/v3/clusters", "/metrics", "/nowhere"):
        assert fetch(daemon, path, None)[0] == 401


def test_a_wrong_password_is_refused_and_others_are_served(daemon: Daemon) -> None:
    began = time.monotonic()
    assert fetch(daemon, "/v3/clusters", (ROOT[0], "guessed"))[0] == 401
    assert time.monotonic() - began >= 0.1, "not before connection.failed.authentication.delay.ms"
    assert fetch(daemon, "/v3/clusters", ROOT)[0] == 200


def test_the_administrator_may_read_and_change(daemon: Daemon) -> None:
    status, plan = fetch(daemon, "/v1/groups/pay/offsets/plan", ROOT, {"to_earliest": True})
    assert status == 200, plan
    status, done = fetch(daemon, "/v1/groups/pay/offsets/apply", ROOT, json.loads(plan))
    assert status == 200, done
    assert "musterd" in fetch(daemon, "/", ROOT)[1]
    assert fetch(daemon, "/metrics", ROOT)[0] == 200


def test_a_user_reads_what_the_rules_allow_and_changes_nothing(daemon: Daemon) -> None:
    assert fetch(daemon, "/v1/groups/pay/notes", BILLING)[0] == 200
    assert fetch(daemon, "/v1/groups/other/notes", BILLING)[0] == 403
    status, plan = fetch(daemon, "/v1/groups/pay/offsets/plan", BILLING, {"to_latest": True})
    assert status == 200, plan
    status, refused = fetch(daemon, "/v1/groups/pay/offsets/apply", BILLING, json.loads(plan))
    assert (status, json.loads(refused)["error_code"]) == (403, 40301), refused


def test_a_token_does_what_its_role_may_and_nothing_once_it_is_deleted(daemon: Daemon) -> None:
    viewer, operator = make_token(daemon, "viewer", "view"), make_token(daemon, "operator", "operate")
    for token in (viewer, operator):
        assert fetch(daemon, "/v1/groups/ship/notes", token)[0] == 200
        assert fetch(daemon, "/metrics", token)[0] == 200
    plan = json.loads(fetch(daemon, "/v1/groups/ship/offsets/plan", viewer, {"to_latest": True})[1])
    assert fetch(daemon, "/v1/groups/ship/offsets/apply", viewer, plan)[0] == 403
    status, done = fetch(daemon, "/v1/groups/ship/offsets/apply", operator, plan)
    assert status == 200, done
    assert "viewer" in muster(daemon, "tokens", "list")
    muster(daemon, "tokens", "delete", "viewer")
    muster(daemon, "tokens", "delete", "operator")
    assert [fetch(daemon, "/v1/groups", token)[0] for token in (viewer, operator, f"{viewer}x")] == [401] * 3


def test_a_token_ends_by_itself(daemon: Daemon) -> None:
    token = make_token(daemon, "brief", "admin", "1s")
    assert within(60, lambda: fetch(daemon, "/v1/groups", token)[0] == 401)
    listed = {one["name"]: one["expired"] for one in json.loads(muster(daemon, "tokens", "list", "--json"))}
    assert listed["brief"] is True


def test_the_form_opens_a_session_that_ends_with_its_user_and_is_in_no_log(daemon: Daemon) -> None:
    muster(daemon, "users", "create", "guest", typed="third secret\n")
    origin = f"http://127.0.0.1:{daemon.http_port}"

    def ask(path: str, cookie: str, body: object = None) -> tuple[int, str]:
        """Return the status, and the cookie of the answer."""
        headers = {"Cookie": cookie, "Origin": origin, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(origin + path, data, headers), timeout=60) as answer:
                return answer.status, str(answer.headers["Set-Cookie"]).partition(";")[0]
        except urllib.error.HTTPError as refused:
            refused.read()
            return refused.code, ""

    form = {"user": "guest", "password": "third secret"}
    assert ask("/console/login", "", {**form, "password": "guessed"}) == (401, "")
    status, cookie = ask("/console/login", "", form)
    assert (status, cookie.startswith("muster_session_")) == (200, True)
    assert ask("/console/session", cookie)[0] == 200
    assert ask("/v1/groups", cookie + "x")[0] == 401
    muster(daemon, "users", "delete", "guest")
    assert ask("/console/session", cookie)[0] == 401
    log = (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()
    told = log + (daemon.folder.parent / "audit.log").read_text()
    assert cookie.partition("=")[2] not in told and "third secret" not in told


def test_the_audit_log_has_who_came_in_and_who_was_refused_and_no_secret(daemon: Daemon) -> None:
    assert fetch(daemon, "/v1/groups/other/notes", BILLING)[0] == 403
    assert fetch(daemon, "/v1/groups", (ROOT[0], "guessed"))[0] == 401
    token = make_token(daemon, "audited", "view")
    assert fetch(daemon, "/v1/groups", token)[0] == 200
    path = daemon.folder.parent / "audit.log"

    wanted = {
        ("login", "User:root", None),
        ("login", "User:billing", None),
        ("login", "Token:audited", None),
        ("login failed", None, None),
        ("refused", "User:billing", "DESCRIBE on group other"),
        ("administration", "User:root", None),
    }

    def told() -> set[tuple[str | None, ...]]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return {(one["event"], one.get("principal"), one.get("lacked")) for one in lines}

    assert within(60, lambda: wanted <= told()), path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    log = (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()
    assert daemon.process is not None
    command_line = Path(f"/proc/{daemon.process.pid}/cmdline").read_text()
    for secret in (BILLING[1], "guessed", token, hash_of(token).hex()):
        assert secret not in path.read_text() + log + command_line
    assert ROOT[1] not in path.read_text() + log

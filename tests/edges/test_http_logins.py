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

import pytest

from coordinator.accounts.acls import CLUSTER_NAME, AclPatternType, AclPermission, AclResourceType
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.acls import AclCreation, AclOperation, CreateAcls, CreateAclsReply
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
            committed = connection.ask(
                OffsetCommit("pay", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),))
            )
            assert isinstance(committed, OffsetCommitReply)
            assert committed.topics[0].partitions[0].error_code is ErrorCode.NONE
        subprocess.run(
            [sys.executable, "-m", "muster.cli", "--bootstrap", one.bootstrap, "users", "create", BILLING[0]],
            env={**os.environ, **logins.environment("SCRAM-SHA-512")},
            input=f"{BILLING[1]}\n",
            text=True,
            check=True,
            timeout=60,
        )
        yield one


def allow(kind: AclResourceType, name: str, operation: AclOperation) -> AclCreation:
    return AclCreation(kind, name, f"User:{BILLING[0]}", "*", operation, AclPermission.ALLOW, AclPatternType.LITERAL)


def fetch(daemon: Daemon, path: str, user: tuple[str, str] | None, body: object = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.http_port}{path}", data)
    request.add_header("Content-Type", "application/json")
    if user is not None:
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


def test_the_audit_log_has_who_came_in_and_who_was_refused_and_no_secret(daemon: Daemon) -> None:
    assert fetch(daemon, "/v1/groups/other/notes", BILLING)[0] == 403
    assert fetch(daemon, "/v1/groups", (ROOT[0], "guessed"))[0] == 401
    path = daemon.folder.parent / "audit.log"

    wanted = {
        ("login", "User:root", None),
        ("login", "User:billing", None),
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
    for secret in (ROOT[1], BILLING[1], "guessed"):
        assert secret not in path.read_text() and secret not in log

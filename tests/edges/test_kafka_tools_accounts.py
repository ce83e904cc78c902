"""Users and ACLs at a real daemon by Kafka's own commands, `kafka-configs` and `kafka-acls`. Skipped where the jars of
Apache Kafka have not been fetched (`python -m bench kafka` does) or there is no Java."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import builds
from muster import AuthenticationFailed, Refused
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.logins import PASSWORD, ROOT, security
from tests.edges.musterd import Daemon, running
from tests.node.test_access_rules import codes

CONFIGS, ACLS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.AclCommand"
BILLING = "SCRAM-SHA-512", "billing", "another one"
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = (
        "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"super.users=User:{ROOT}",
        f"initial.admin={ROOT}:{PASSWORD}",
    )
    with running(tmp_path_factory.mktemp("tools") / "data", *settings, with_kafka=True) as one:
        with ClusterClient(one.bootstrap, security=security("SCRAM-SHA-512")) as root:
            root.ask(CreateTopics((CreatableTopic("payments", 1),)))
        yield one


def run(daemon: Daemon, folder: Path, tool: str, *arguments: str) -> str:
    """Return what the tool prints, run by the administrator."""
    try:
        java, jars = builds.java(), builds.kafka_jars(may_fetch=False)
    except builds.NotHere as missing:
        pytest.skip(str(missing))
    properties = folder / "root.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        f'sasl.jaas.config={module} required username="{ROOT}" password="{PASSWORD}";',
    )
    properties.write_text("\n".join(lines))
    where = ("--bootstrap-server", f"127.0.0.1:{daemon.kafka_port}", "--command-config", str(properties))
    command = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}", "-cp", f"{jars}{os.sep}*", tool]
    done = subprocess.run(
        [*command, *where, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(daemon: Daemon) -> ErrorCode:
    """The error of a commit by the user whom the tools have made."""
    wanted = OffsetCommit("billing", (OffsetCommitTopic("payments", (OffsetCommitPartition(0, 7),)),))
    with ClusterClient(daemon.bootstrap, security=security(*BILLING)) as client:
        try:
            return next((code for code in codes(client.ask(wanted)) if code), ErrorCode.NONE)
        except Refused as refused:
            return refused.error_code


@pytest.mark.long
def test_a_user_is_made_granted_shown_revoked_and_deleted_by_kafkas_commands(daemon: Daemon, tmp_path: Path) -> None:
    of_user = "--entity-type", "users", "--entity-name", "billing"
    credential = f"SCRAM-SHA-512=[iterations=8192,password={BILLING[2]}]"
    run(daemon, tmp_path, CONFIGS, "--alter", *of_user, "--add-config", credential)
    assert "SCRAM-SHA-512=iterations=8192" in run(daemon, tmp_path, CONFIGS, "--describe", *of_user)
    assert commit(daemon) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    granted = ("--allow-principal", "User:billing", "--operation", "Read", "--group", "billing", "--topic", "payments")
    assert "operation=READ, permissionType=ALLOW" in run(daemon, tmp_path, ACLS, "--add", *granted)
    assert commit(daemon) is ErrorCode.NONE
    shown = run(daemon, tmp_path, ACLS, "--list", "--topic", "payments")
    assert "principal=User:billing, host=*, operation=READ, permissionType=ALLOW" in shown
    run(daemon, tmp_path, ACLS, "--remove", "--force", *granted)
    assert commit(daemon) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    run(daemon, tmp_path, CONFIGS, "--alter", *of_user, "--delete-config", "SCRAM-SHA-512")
    with pytest.raises(AuthenticationFailed):
        commit(daemon)

"""Access rules at a real daemon, made and felt by a stock client: logins, users and ACLs by Kafka's admin APIs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.edges.certificates import Folder
from tests.edges.logins import MECHANISMS, PASSWORD, ROOT, WAIT_S, environment, hears, librdkafka
from tests.edges.musterd import Daemon, free_port, running

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = (
    f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
    AUTHORIZER,
    f"initial.admin={ROOT}:{PASSWORD}",
    "group.initial.rebalance.delay.ms=0",
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("rules") / "data", *SETTINGS, with_kafka=True) as one:
        admin = AdminClient(login(one))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
        (future,) = admin.alter_user_scram_credentials([upsertion("billing", "second secret")]).values()
        future.result(WAIT_S)
        yield one


def upsertion(user: str, password: str) -> Any:
    return UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
    )


def login(daemon: Daemon, user: str = ROOT, password: str = PASSWORD) -> dict[str, Any]:
    return librdkafka(daemon, "SCRAM-SHA-512", user, password)


def billing(daemon: Daemon) -> dict[str, Any]:
    return login(daemon, "billing", "second secret")


def binding(kind: Any, name: str, operation: Any) -> Any:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:billing", "*", operation, AclPermissionType.ALLOW)


def a_filter(*conditions: Any) -> Any:
    """A filter, in which None stands for anything: the library's types do not know that."""
    return AclBindingFilter(*conditions)


def every_binding() -> Any:
    return a_filter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:billing", None, AclOperation.ANY, AclPermissionType.ANY
    )


def commit(consumer: Consumer) -> Any:
    return consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)


def code_of(call: Callable[[], Any]) -> Any:
    """The error of a call that fails."""
    with pytest.raises(KafkaException) as refused:
        call()
    return refused.value.args[0].code()


def test_a_user_may_do_what_the_administrator_has_permitted_and_no_longer(daemon: Daemon) -> None:
    root = AdminClient(login(daemon))
    consumer = Consumer(billing(daemon) | {"group.id": "pay", "auto.offset.reset": "earliest"})
    failed: list[KafkaError | None] = []
    producer = Producer(billing(daemon))
    producer.produce("orders", b"x", on_delivery=lambda error, _message: failed.append(error))
    producer.flush(WAIT_S)
    assert failed and failed[0] and failed[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    # Without DESCRIBE on the group librdkafka asks for its coordinator again and again.
    (future,) = root.create_acls([binding(ResourceType.GROUP, "pay", AclOperation.DESCRIBE)]).values()
    future.result(WAIT_S)
    assert code_of(lambda: commit(consumer)) == KafkaError.GROUP_AUTHORIZATION_FAILED

    rules = [
        binding(ResourceType.GROUP, "pay", AclOperation.DESCRIBE),
        binding(ResourceType.GROUP, "pay", AclOperation.READ),
        binding(ResourceType.TOPIC, "orders", AclOperation.READ),
        binding(ResourceType.TOPIC, "orders", AclOperation.WRITE),
    ]
    for future in root.create_acls(rules).values():
        future.result(WAIT_S)
    assert set(root.describe_acls(every_binding()).result(WAIT_S)) == set(rules)
    later = Producer(billing(daemon))  # the other one remembers its refusal
    later.produce("orders", b"x")
    assert later.flush(WAIT_S) == 0
    assert commit(consumer)[0].error is None
    assert consumer.committed([TopicPartition("orders", 0)], WAIT_S)[0].offset == 7

    reads = a_filter(
        ResourceType.GROUP,
        "pay",
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for future in root.delete_acls([reads]).values():
        assert len(future.result(WAIT_S)) == 1
    assert code_of(lambda: commit(consumer)) == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    for future in root.delete_acls([every_binding()]).values():
        assert len(future.result(WAIT_S)) == 3


def test_who_may_not_alter_the_cluster_makes_no_users_and_no_rules(daemon: Daemon) -> None:
    client = AdminClient(billing(daemon))
    (made,) = client.create_acls([binding(ResourceType.GROUP, "pay", AclOperation.READ)]).values()
    assert code_of(lambda: made.result(WAIT_S)) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    (altered,) = client.alter_user_scram_credentials([upsertion("billing", "x")]).values()
    assert code_of(lambda: altered.result(WAIT_S)) == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_a_certificate_names_its_principal(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    rules = "ssl.principal.mapping.rules=RULE:^OU=Testing cert.*$/billing/"
    settings = (*folder.listening(clients_show=True), AUTHORIZER, rules, "super.users=User:billing")
    with running(tmp_path / "data", *settings, with_kafka=True) as one:
        shown = {"security.protocol": "SSL", "ssl.ca.location": str(folder.ca), **folder.shown()}
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{one.kafka_port}", **shown})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)


def test_users_and_rules_survive_a_crash_and_a_user_that_is_deleted_stays_out(daemon: Daemon) -> None:
    root = AdminClient(login(daemon))
    (made,) = root.alter_user_scram_credentials([upsertion("guest", "third secret")]).values()
    made.result(WAIT_S)
    rule = binding(ResourceType.GROUP, "kept", AclOperation.READ)
    (created,) = root.create_acls([rule]).values()
    created.result(WAIT_S)
    daemon.kill()
    daemon.start()
    root = AdminClient(login(daemon))
    described: Any = root.describe_user_scram_credentials()
    users = described.result(WAIT_S)
    assert set(users) == {"root", "billing", "guest"}
    assert root.describe_acls(every_binding()).result(WAIT_S) == [rule]
    assert AdminClient(login(daemon, "guest", "third secret")).list_topics(timeout=WAIT_S).brokers
    deletion = UserScramCredentialDeletion("guest", ScramMechanism.SCRAM_SHA_512)
    (gone,) = root.alter_user_scram_credentials([deletion]).values()
    gone.result(WAIT_S)
    assert hears(login(daemon, "guest", "third secret"), "invalid credentials")
    log = (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()
    assert "initial.admin is passed over: there are users" in log
    assert "secret" not in log.replace("secrets", "")


def muster(address: str, *arguments: str, typed: str = "") -> str:
    """Standard output of the command, as the administrator."""
    names = {**os.environ, "MUSTER_BOOTSTRAP": address, **environment("SCRAM-SHA-256")}
    command = [sys.executable, "-m", "muster.cli", *arguments]
    done = subprocess.run(command, input=typed, env=names, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_makes_a_user_who_can_log_in(daemon: Daemon) -> None:
    assert muster(f"kafka://127.0.0.1:{daemon.kafka_port}", "users", "create", "made", typed="fourth secret\n") == (
        "Made user made.\n"
    )
    admin = AdminClient(login(daemon, "made", "fourth secret") | {"sasl.mechanism": "PLAIN"})
    assert admin.list_topics(timeout=WAIT_S).brokers


@pytest.mark.parametrize("dialect", ["kafka", "native"])
def test_the_command_makes_rules_that_hold_until_it_deletes_them(daemon: Daemon, dialect: str) -> None:
    address = f"kafka://127.0.0.1:{daemon.kafka_port}" if dialect == "kafka" else f"127.0.0.1:{daemon.port}"
    rules = ("--allow", "User:billing", "--group", dialect)
    made = muster(address, "acls", "create", *rules, "--operation", "read", "--operation", "describe")
    assert made.startswith("Made 2 access rules.")
    muster(address, "acls", "create", "--allow", "User:billing", "--topic", "ord", "--prefixed", "--operation", "read")
    consumer = Consumer(billing(daemon) | {"group.id": dialect})
    assert commit(consumer)[0].error is None
    assert len(json.loads(muster(address, "acls", "list", "--allow", "User:billing", "--json"))) >= 3
    assert muster(address, "acls", "delete", *rules, "--yes").startswith("Deleted 2 access rules.")
    assert code_of(lambda: commit(consumer)) == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    assert muster(address, "acls", "delete", "--topic", "ord", "--prefixed").startswith("Deleted 1 access rule.")


def test_beside_brokers_the_command_makes_rules_of_the_brokers(daemon: Daemon, tmp_path: Path) -> None:
    plan = (
        f"upstream.servers=127.0.0.1:{daemon.kafka_port}",
        f"upstream.listener.ports={free_port()}",
        f"upstream.sasl.username={ROOT}",
        f"upstream.sasl.password={PASSWORD}",
    )
    with running(tmp_path / "front", *plan, with_kafka=True) as front:
        rule = ("--deny", "User:eve", "--topic", "orders")
        muster(f"kafka://127.0.0.1:{front.kafka_port}", "acls", "create", *rule, "--operation", "read")
    deleted = muster(f"kafka://127.0.0.1:{daemon.kafka_port}", "acls", "delete", *rule)
    assert deleted.startswith("Deleted 1 access rule.")

"""In front of an Apache Kafka with ACLs: what its brokers refuse a principal, Muster refuses too. Skipped where its
jars have not been fetched (`python -m bench kafka` does) or there is no Java."""

import base64
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from bench import builds
from bench.processes import free_ports
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.test_tls_beside import readiness
from tests.edges.test_tls_kafka import until_there

pytestmark = pytest.mark.xdist_group("kafka with acls")  # one broker for all
_START_S = 60.0
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=INTERNAL://127.0.0.1:{internal},SASL_PLAINTEXT://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    user_muster="geheim" user_alice="wunder" user_bob="bauer" user_carol="lied";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
"""
_SCRAM = "SCRAM-SHA-256=[name=alice,password=wunder]"
PASSWORDS = {"alice": "wunder", "bob": "bauer", "carol": "lied"}
READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
WAGES = TopicPartition("wages", 0, 3)


class Kafka:
    """One broker. Its internal listener, at `admin`, asks for no login and permits everything."""

    def __init__(self, admin_port: int, port: int) -> None:
        self.port = port
        self.admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{admin_port}", "log_level": 0})

    def grant(self, who: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        acls = [_acl(who, kind, name, one) for one in operations]
        for done in self.admin.create_acls(acls).values():
            done.result(10)

    def revoke(self, who: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
        rule = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, f"User:{who}", "*", operation, AclPermissionType.ALLOW
        )
        for done in self.admin.delete_acls([rule]).values():
            assert done.result(10)


def _acl(who: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{who}", "*", operation, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    try:
        java, jars = builds.java(), builds.kafka_jars(may_fetch=False)
    except builds.NotHere as missing:
        pytest.skip(str(missing))
    home = tmp_path_factory.mktemp("kafka")
    names = ("internal", "sasl", "controller")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    (home / "server.properties").write_text(_PROPERTIES.format(folder=home, **ports))
    run = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}", "-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    format_it = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties"]
    done = subprocess.run(
        [*run, *format_it, "--add-scram", _SCRAM], cwd=home, capture_output=True, timeout=_START_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*run, "-Xms512m", "-Xmx512m", "kafka.Kafka", "server.properties"], cwd=home, stdout=log, stderr=log
        )
    try:
        until_there(ports["internal"])
        cluster = Kafka(ports["internal"], ports["sasl"])
        for made in cluster.admin.create_topics([NewTopic("wages", 2, 1), NewTopic("orders", 2, 1)]).values():
            made.result(10)
        cluster.grant("muster", ResourceType.BROKER, "kafka-cluster", DESCRIBE)
        cluster.grant("muster", TOPIC, "*", DESCRIBE)
        cluster.grant("muster", GROUP, "*", DESCRIBE)
        for who in PASSWORDS:
            cluster.grant(who, TOPIC, "wages", READ)
        cluster.grant("alice", GROUP, "payroll", READ, DELETE)
        yield cluster
    finally:
        process.kill()
        process.wait()


@contextmanager
def in_front(kafka: Kafka, path: Path, *settings: str) -> Iterator[Daemon]:
    plan = (
        f"upstream.servers=127.0.0.1:{kafka.port}",
        f"upstream.listener.ports={free_port()}",
        "upstream.refresh.ms=200",
        "upstream.sasl.username=muster",
        "upstream.sasl.password=geheim",
        "group.initial.rebalance.delay.ms=0",
    )
    with running(path / "front", *plan, *settings, with_http=True, with_kafka=True) as front:
        yield front


@pytest.fixture
def front(kafka: Kafka, tmp_path: Path) -> Iterator[Daemon]:
    with in_front(kafka, tmp_path) as one:
        yield one


def settings(front: Daemon, who: str, mechanism: str = "PLAIN") -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": f"127.0.0.1:{front.kafka_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": who,
        "sasl.password": PASSWORDS[who],
        "log_level": 0,
    }


def member(
    front: Daemon, who: str, group: str = "payroll", mechanism: str = "PLAIN", protocol: str = "classic"
) -> Consumer:
    own: dict[str, str | int | float | bool] = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer(settings(front, who, mechanism) | {"group.id": group, "group.protocol": protocol} | own)


def error_of(do: Callable[[], object]) -> str:
    """The name of the error that it ends with; empty if it ends well."""
    try:
        do()
    except KafkaException as failed:
        error = failed.args[0]
        assert isinstance(error, KafkaError)
        return str(error.name())
    return ""


def how_joining_ends(consumer: Consumer, *topics: str, having: list[str] | None = None) -> str:
    """The name of the error; empty once it has partitions, whose topics are added to those that it is `having`."""
    consumer.subscribe(list(topics or ("wages",)))
    errors: list[str] = []

    def is_over() -> bool:
        message = consumer.poll(0.2)
        if message is not None and (error := message.error()) is not None:
            errors.append(str(error.name()))
        return bool(errors or consumer.assignment())

    assert within(60, is_over)
    if having is not None:
        having += sorted({one.topic for one in consumer.assignment()})
    consumer.close()
    return errors[0] if errors else ""


def describe(admin: AdminClient, group: str = "payroll") -> object:
    return admin.describe_consumer_groups([group], request_timeout=10)[group].result(10)


def offsets(admin: AdminClient, group: str = "payroll") -> object:
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition("wages", 0)])]
    return admin.list_consumer_group_offsets(asked, request_timeout=10)[group].result(10)


def alter(admin: AdminClient, where: TopicPartition = WAGES, group: str = "payroll") -> None:
    asked = [ConsumerGroupTopicPartitions(group, [where])]
    done = admin.alter_consumer_group_offsets(asked, request_timeout=10)[group].result(10)
    for partition in done.topic_partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)


def delete(admin: AdminClient, group: str = "payroll") -> object:
    return admin.delete_consumer_groups([group], request_timeout=10)[group].result(10)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_who_may_not_read_a_group_neither_joins_commits_fetches_describes_nor_deletes(
    kafka: Kafka, front: Daemon, mechanism: str
) -> None:
    refused = "GROUP_AUTHORIZATION_FAILED"
    assert how_joining_ends(member(front, "alice", mechanism=mechanism)) == ""
    alice, bob = AdminClient(settings(front, "alice", mechanism)), AdminClient(settings(front, "bob"))
    alter(alice)
    assert how_joining_ends(member(front, "bob")) == refused
    for what in (alter, offsets, describe, delete):
        assert error_of(partial(what, bob)) == refused, what
    assert [group.group_id for group in bob.list_consumer_groups().result(10).valid] == []
    assert [group.group_id for group in alice.list_consumer_groups().result(10).valid] == ["payroll"]
    told = describe(alice)
    assert told.state is ConsumerGroupState.EMPTY  # type: ignore[attr-defined]
    assert offsets(alice).topic_partitions[0].offset == 3  # type: ignore[attr-defined]
    assert error_of(lambda: alter(alice, TopicPartition("orders", 0, 1))) == "TOPIC_AUTHORIZATION_FAILED"
    delete(alice)
    assert [group.group_id for group in alice.list_consumer_groups().result(10).valid] == []
    assert kafka.admin.list_consumer_groups().result(10).valid == [], "Kafka has not heard of the group"


def test_a_group_that_the_coordinator_balances_is_under_the_same_rules(kafka: Kafka, tmp_path: Path) -> None:
    group_refused, topic_refused = "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"
    kafka.grant("alice", GROUP, "driven", READ, DELETE)
    with in_front(kafka, tmp_path, "group.coordinator.rebalance.protocols=classic,consumer") as front:
        assert how_joining_ends(member(front, "bob", "driven", protocol="consumer")) == group_refused
        assert how_joining_ends(member(front, "alice", "driven", protocol="consumer"), "orders") == topic_refused
        seen: list[str] = []
        assert how_joining_ends(member(front, "alice", "driven", protocol="consumer"), "^.*", having=seen) == ""
        assert seen == ["wages"], "the pattern matches what she may describe"
        alice, bob = AdminClient(settings(front, "alice")), AdminClient(settings(front, "bob"))
        assert error_of(partial(describe, bob, "driven")) == group_refused
        assert describe(alice, "driven").state is ConsumerGroupState.EMPTY  # type: ignore[attr-defined]
        delete(alice, "driven")
        assert kafka.admin.list_consumer_groups().result(10).valid == [], "Kafka has not heard of the group"


def test_each_operation_is_granted_by_itself(kafka: Kafka, front: Daemon) -> None:
    kafka.grant("carol", GROUP, "shown", DESCRIBE)
    carol = AdminClient(settings(front, "carol"))
    assert error_of(lambda: describe(carol, "shown")) == ""
    assert error_of(lambda: offsets(carol, "shown")) == ""
    for what in (delete, partial(alter, where=WAGES)):
        assert error_of(partial(what, carol, group="shown")) == "GROUP_AUTHORIZATION_FAILED"
    kafka.grant("carol", GROUP, "shown", READ)
    another = AdminClient(settings(front, "carol"))
    assert within(10, lambda: not error_of(lambda: alter(AdminClient(settings(front, "carol")), group="shown")))
    assert error_of(lambda: delete(another, "shown")) == "GROUP_AUTHORIZATION_FAILED"
    kafka.revoke("carol", GROUP, "shown", READ)
    last = AdminClient(settings(front, "carol"))
    assert error_of(lambda: alter(last, group="shown")) == "GROUP_AUTHORIZATION_FAILED"


def test_listeners_that_ask_nobody_who_he_is_stay_closed(kafka: Kafka, tmp_path: Path) -> None:
    ports = free_ports(2)
    path = tmp_path / "front"
    plan = (
        f"upstream.servers=127.0.0.1:{kafka.port}",
        f"upstream.listener.ports={free_port()}",
        "upstream.sasl.username=muster",
        "upstream.sasl.password=geheim",
    )
    daemon = Daemon(path, *plan, with_http=True, with_kafka=True)
    daemon.port, daemon.http_port = ports
    daemon.start()
    try:
        assert daemon.open == {"kafka"}
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)
        log = (tmp_path / "front.log").read_text()
        assert log.count("a listener stays closed: the cluster has ACLs") == 2
        assert "upstream.unguarded.listeners" in log
        assert "a listener is closed" not in log, "it was never open"
        daemon.stop()
        # Nor while the cluster is not reached.
        daemon.settings = (f"upstream.servers=127.0.0.1:{free_port()}", *plan[1:])
        daemon.start()
        assert daemon.open == {"kafka"}
        daemon.stop()
        daemon.settings = (*plan, "upstream.unguarded.listeners=http")
        daemon.start()
        assert daemon.open == {"kafka", "http"}
        assert readiness(daemon)["reachable"] is True
        daemon.stop()
        daemon.settings = (*plan, "upstream.unguarded.listeners=native,http")
        daemon.start()
        assert daemon.open == {"kafka", "native", "http"}
    finally:
        daemon.kill()

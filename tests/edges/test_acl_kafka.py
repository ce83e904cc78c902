"""In front of an Apache Kafka with ACLs: what its brokers refuse a principal, Muster refuses too. Skipped where its
jars have not been fetched (`python -m bench kafka` does) or there is no Java."""

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

import muster
from bench import builds
from bench.processes import free_ports
from interop.differential.connections import Connections
from interop.secure_kafka import SecureKafka, secure_kafka
from muster import AuthenticationFailed, Refused
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.kafka.login import HANDSHAKE_VERSION, SaslClient
from protocol.messages import Message
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.node import FindCoordinator, SaslAuthenticate, SaslHandshake
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.logins import security
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.test_http_logins import fetch
from tests.edges.test_tls_beside import readiness
from tests.node.test_access_rules import DENIALS, codes, denial

pytestmark = [pytest.mark.xdist_group("kafka with acls"), pytest.mark.long]  # one broker for all
_SCRAM = "SCRAM-SHA-256=[name=alice,password=wunder]"
PASSWORDS = {"alice": "wunder", "bob": "bauer", "carol": "lied"}
READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
WAGES = TopicPartition("wages", 0, 3)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with ExitStack() as stack:
        try:
            users = {"muster": "geheim", "keeper": "wache", **PASSWORDS}
            cluster = stack.enter_context(
                secure_kafka(tmp_path_factory.mktemp("kafka"), users, scram=_SCRAM, audits=True)
            )
        except builds.NotHere as missing:
            pytest.skip(str(missing))
        for made in cluster.admin.create_topics([NewTopic("wages", 2, 1), NewTopic("orders", 2, 1)]).values():
            made.result(10)
        cluster.grant("muster", ResourceType.BROKER, "kafka-cluster", DESCRIBE)
        cluster.grant("muster", TOPIC, "*", DESCRIBE)
        cluster.grant("muster", GROUP, "*", DESCRIBE)
        for who in PASSWORDS:
            cluster.grant(who, TOPIC, "wages", READ)
        cluster.grant("alice", GROUP, "payroll", READ, DELETE)
        yield cluster


@contextmanager
def in_front(kafka: SecureKafka, path: Path, *settings: str) -> Iterator[Daemon]:
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
def front(kafka: SecureKafka, tmp_path: Path) -> Iterator[Daemon]:
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
    kafka: SecureKafka, front: Daemon, mechanism: str
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


def test_a_group_that_the_coordinator_balances_is_under_the_same_rules(kafka: SecureKafka, tmp_path: Path) -> None:
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


def test_each_operation_is_granted_by_itself(kafka: SecureKafka, front: Daemon) -> None:
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


def test_listeners_that_ask_nobody_who_he_is_stay_closed(kafka: SecureKafka, tmp_path: Path) -> None:
    ports = free_ports(2)
    path = tmp_path / "front"
    listener = f"upstream.listener.ports={free_port()}"
    plan = (f"upstream.servers=127.0.0.1:{kafka.admin_port}", listener)  # where nobody logs in
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
        daemon.settings = (f"upstream.servers=127.0.0.1:{free_port()}", listener)
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


def test_users_of_http_log_in_at_the_broker_and_see_what_they_may_describe(kafka: SecureKafka, tmp_path: Path) -> None:
    kafka.grant("carol", GROUP, "shown over http", READ)
    with in_front(kafka, tmp_path, "upstream.sasl.mechanism=PLAIN") as front:
        assert front.open == {"kafka", "native", "http"}
        alter(AdminClient(settings(front, "carol")), group="shown over http")
        carol, bob = ("carol", PASSWORDS["carol"]), ("bob", PASSWORDS["bob"])
        notes = "/v1/groups/shown%20over%20http/notes"
        assert fetch(front, notes, None)[0] == fetch(front, notes, ("carol", "guessed"))[0] == 401
        assert fetch(front, notes, carol)[0] == 200
        assert fetch(front, notes, bob)[0] == 403
        assert "shown over http" in fetch(front, "/v1/groups", carol)[1]
        assert "shown over http" not in fetch(front, "/v1/groups", bob)[1]
        status, plan = fetch(front, "/v1/groups/shown%20over%20http/offsets/plan", carol, {"to_earliest": True})
        assert status == 200, plan
        assert fetch(front, "/v1/groups/shown%20over%20http/offsets/apply", bob, json.loads(plan))[0] == 403
        assert fetch(front, "/v1/groups/shown%20over%20http/offsets/apply", carol, json.loads(plan))[0] == 200


_DECISION = re.compile(r"Principal = User:(\S+) is (\w+) operation = (\w+) .* on resource = (\w+):LITERAL:(\S+)")


def test_kafkas_audit_names_clients_and_nothing_of_theirs_as_musters_own(kafka: SecureKafka, front: Daemon) -> None:
    began = len(kafka.log.read_text())
    assert how_joining_ends(member(front, "bob", "audited")) == "GROUP_AUTHORIZATION_FAILED"
    bob = AdminClient(settings(front, "bob"))
    for what in (alter, offsets, describe, delete):
        assert error_of(partial(what, bob, group="audited")) == "GROUP_AUTHORIZATION_FAILED"
    assert fetch(front, "/v1/groups/audited/notes", ("bob", PASSWORDS["bob"]))[0] == 403
    with natively(front, "bob") as one:
        for request in (Heartbeat("audited", 1, "m"), DeleteGroups(("audited",))):
            assert denied(one, request) is ErrorCode.GROUP_AUTHORIZATION_FAILED

    def told() -> list[tuple[str, ...]]:
        """Return who was allowed or denied what, of which kind and name, in the broker's words."""
        return [
            found.groups() for line in kafka.log.read_text()[began:].splitlines() if (found := _DECISION.search(line))
        ]

    wanted = {("bob", "Denied", one, "Group", "audited") for one in ("READ", "DESCRIBE", "DELETE")}
    assert within(30, lambda: wanted <= set(told())), set(told())
    assert {one for one in told() if one[4] == "audited"} == wanted
    own = {(verdict, operation) for who, verdict, operation, _, _ in told() if who == "muster"}
    assert own <= {("Allowed", "DESCRIBE")}, "Muster lists brokers and topics in its own name, and nothing else"


# ---------------------------------------------------------------------------------------- members and their principals

_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Errors of a cluster whose topic of offsets is being made."""


class Asking:
    """Clients that log in over one connection each, at a broker or in front of it."""

    def __init__(self, port: int) -> None:
        self._connections = Connections(("127.0.0.1", port))

    async def enter(self, who: str) -> None:
        """Log in as the user, with its password. Later requests of `who` go over the same connection."""
        login = SaslClient("PLAIN", who, PASSWORDS[who], "")
        following: Any = login.begin()
        while following is not None:
            following = login.on_reply(await self.ask(who, following))

    async def ask(self, who: str, message: Message) -> Any:
        version = {SaslHandshake: HANDSHAKE_VERSION, SaslAuthenticate: 2, JoinGroup: 9, SyncGroup: 5, Heartbeat: 4,
                   OffsetCommit: 8, LeaveGroup: 5, FindCoordinator: 4}[type(message)]  # fmt: skip
        return await self._connections.call(who, message, version)

    async def member(self, who: str, group: str) -> JoinGroupReply:
        """Let the user be a static member, and leader, once the server has a coordinator."""
        joining = JoinGroup(group, 60_000, "", "consumer", (JoinProtocol("range", b"x"),), 60_000, "one")
        async with asyncio.timeout(90):
            await self.ask(who, FindCoordinator((group,)))  # makes Kafka's topic of offsets
            while (joined := await self.ask(who, joining)).error_code:
                assert joined.error_code in _NOT_YET, joined
                await asyncio.sleep(0.1)
        given = (SyncGroupAssignment(joined.member_id, b"x"),)
        sync = SyncGroup(group, joined.generation_id, joined.member_id, "one", "consumer", "range", given)
        synced = await self.ask(who, sync)
        assert isinstance(joined, JoinGroupReply) and not synced.error_code
        return joined

    def close(self) -> None:
        self._connections.close()


def stolen(group: str, member: JoinGroupReply) -> tuple[Message, ...]:
    """Requests of somebody who has the member's id, the last of which removes it."""
    commit = (OffsetCommitTopic("wages", (OffsetCommitPartition(0, 3),)),)
    return (
        Heartbeat(group, member.generation_id, member.member_id),
        OffsetCommit(group, commit, member.generation_id, member.member_id),
        LeaveGroup(group, (LeavingMember(member.member_id),)),
    )


def error_in(reply: Any) -> ErrorCode:
    """The error of a reply, of the whole or of its one part."""
    return next((code for code in codes(reply) if code), ErrorCode.NONE)


async def thieves_answers(port: int) -> list[ErrorCode]:
    """Let Bob use the id of Alice's member, both with a right to the group; return what he is told."""
    asking = Asking(port)
    try:
        await asking.enter("alice")
        await asking.enter("bob")
        member = await asking.member("alice", "lent")
        return [error_in(await asking.ask("bob", one)) for one in stolen("lent", member)]
    finally:
        asking.close()


def test_who_has_stolen_a_member_id_is_served_by_kafka_and_refused_by_muster(kafka: SecureKafka, front: Daemon) -> None:
    for who in ("alice", "bob"):
        kafka.grant(who, GROUP, "lent", READ)
    assert asyncio.run(thieves_answers(kafka.port)) == [ErrorCode.NONE] * 3
    delete(kafka.admin, "lent")
    assert asyncio.run(thieves_answers(front.kafka_port)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


def test_who_names_another_user_in_a_login_that_kafka_refuses_is_still_itself(
    kafka: SecureKafka, front: Daemon
) -> None:
    """Kafka refuses a second login, and goes on serving the connection as the user that logged in first."""
    for who in ("alice", "bob"):
        kafka.grant(who, GROUP, "lent twice", READ)

    async def told() -> list[ErrorCode]:
        asking = Asking(front.kafka_port)
        try:
            await asking.enter("alice")
            await asking.enter("bob")
            member = await asking.member("alice", "lent twice")
            again = SaslHandshake("PLAIN"), SaslAuthenticate(b"\0alice\0guessed")
            requests = *again, *stolen("lent twice", member)
            return [error_in(await asking.ask("bob", one)) for one in requests]
        finally:
            asking.close()

    illegal, unknown = ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.UNKNOWN_MEMBER_ID
    assert asyncio.run(told()) == [illegal, illegal, unknown, unknown, unknown]


# ------------------------------------------------------------------------------------------- over the native protocol


def natively(front: Daemon, who: str, mechanism: str = "PLAIN") -> ClusterClient:
    return ClusterClient(front.bootstrap, security=security(mechanism, who, PASSWORDS[who]))


def denied(client: ClusterClient, message: Message) -> ErrorCode:
    """The denial of a request, of the whole or of a part; NONE if there is none."""
    try:
        return denial(client.ask(message))
    except Refused as refused:
        return refused.error_code if refused.error_code in DENIALS else ErrorCode.NONE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_native_client_logs_in_at_the_broker_and_may_do_what_its_principal_may(
    kafka: SecureKafka, front: Daemon, mechanism: str
) -> None:
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    commit = OffsetCommit("payroll", (OffsetCommitTopic("wages", (OffsetCommitPartition(0, 3),)),))
    requests = (
        JoinGroup("payroll", 60_000, protocol_type="consumer", protocols=(JoinProtocol("range", b"x"),)),
        Heartbeat("payroll", 1, "m"),
        commit,
        OffsetFetch((OffsetFetchGroup("payroll", None),)),
        DescribeGroups(("payroll",)),
        DeleteGroups(("payroll",)),
    )
    with natively(front, "alice", mechanism) as alice, natively(front, "bob") as bob:
        assert denied(alice, commit) is ErrorCode.NONE
        assert [denied(bob, one) for one in requests] == [refused] * len(requests)
        assert [denied(alice, one) for one in requests] == [ErrorCode.NONE] * len(requests)
        stolen = CreateTopics((CreatableTopic("stolen", 1),))
        assert denied(alice, stolen) is ErrorCode.TOPIC_AUTHORIZATION_FAILED, "it is asked in her name, not in Muster's"
    assert kafka.admin.list_consumer_groups().result(10).valid == [], "Kafka has not heard of the group"


def test_a_native_consumer_reads_while_it_may_and_hears_when_it_may_no_longer(
    kafka: SecureKafka, tmp_path: Path
) -> None:
    kafka.grant("carol", GROUP, "native", READ)
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{kafka.admin_port}"})
    for _ in range(20):
        producer.produce("wages", b"x")
    assert producer.flush(30) == 0
    with in_front(kafka, tmp_path) as front:
        mine = security("PLAIN", "carol", PASSWORDS["carol"])
        consumer = muster.Consumer(front.bootstrap, "native", security=mine, auto_offset_reset="earliest")
        with consumer:
            consumer.subscribe(["wages"])
            seen: list[object] = []

            def has_read_all() -> bool:
                seen.extend(consumer.poll(0.5))
                return len(seen) >= 20

            assert within(60, has_read_all)
            consumer.commit()
        kafka.revoke("carol", GROUP, "native", READ)
        another = natively(front, "carol")
        with another:
            assert denied(another, Heartbeat("native", 1, "m")) is ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("who", [None, "mallory"])
def test_who_has_no_login_or_a_wrong_one_is_not_served_natively(front: Daemon, who: str | None) -> None:
    wrong = None if who is None else security("PLAIN", who, "guessed")
    with pytest.raises(AuthenticationFailed), ClusterClient(front.bootstrap, security=wrong) as one:
        one.ask(DescribeGroups(("payroll",)))
    assert "guessed" not in (front.folder.parent / f"{front.folder.name}.log").read_text()


def test_a_node_whose_log_is_there_needs_what_the_page_says_and_no_more(kafka: SecureKafka, tmp_path: Path) -> None:
    """docs/cluster.md, What the brokers must be."""
    of_cluster = AclOperation.DESCRIBE_CONFIGS, DESCRIBE
    kafka.grant("keeper", ResourceType.BROKER, "kafka-cluster", *of_cluster)
    kafka.grant("keeper", TOPIC, "*", DESCRIBE)
    kafka.grant("keeper", GROUP, "*", DESCRIBE)
    of_topics = AclOperation.CREATE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS, READ, AclOperation.WRITE
    for topic in ("offsets", "proof", "notes"):
        kafka.grant("keeper", TOPIC, f"__muster_{topic}", *of_topics)
    for name in ("muster-shard-", "muster-proof-"):
        kafka.grant("keeper", ResourceType.TRANSACTIONAL_ID, name, DESCRIBE, AclOperation.WRITE, prefix=True)
    kafka.grant("keeper", GROUP, "__muster_nodes", READ)
    keeper = "upstream.sasl.username=keeper", "upstream.sasl.password=wache"
    with in_front(kafka, tmp_path, *keeper, "offsets.log=cluster", "offsets.topic.num.partitions=3") as front:
        place = TopicPartition("wages", 0, 2)
        consumer = member(front, "alice")
        consumer.subscribe(["wages"])
        assert within(60, lambda: consumer.poll(0.2) is None and consumer.assignment())
        (done,) = consumer.commit(offsets=[place], asynchronous=False)
        assert done.error is None and consumer.committed([place], timeout=30)[0].offset == 2
        consumer.close()
    assert "cannot be made" not in (tmp_path / "front.log").read_text()

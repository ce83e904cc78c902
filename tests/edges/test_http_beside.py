"""HTTP at a musterd in front of a cluster with ACLs: users log in at its brokers, which decide what they may do. The
cluster is a musterd here; `test_acl_kafka.py` has an Apache Kafka."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, TopicPartition

from muster import Refused
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages import Message
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
from protocol.messages.groups import Heartbeat, LeaveGroup, LeavingMember
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges import logins
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.test_http_logins import fetch, muster
from tests.node.test_access_rules import codes

PASSWORDS = {"muster": "secret of muster", "alice": "secret of alice", "bob": "secret of bob"}
ALICE, BOB = (("alice", PASSWORDS["alice"]), ("bob", PASSWORDS["bob"]))
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
WAGES = OffsetCommitTopic("wages", (OffsetCommitPartition(0, 7),))
GROUP, TOPIC, CLUSTER = AclResourceType.GROUP, AclResourceType.TOPIC, AclResourceType.CLUSTER


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("brokers")
    with running(
        folder / "data",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"initial.admin={logins.ROOT}:{logins.PASSWORD}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:root",
        with_kafka=True,
    ) as one:
        for name, password in PASSWORDS.items():
            muster(one, "users", "create", name, typed=f"{password}\n")
        with ClusterClient(one.bootstrap, security=logins.security("SCRAM-SHA-512")) as root:
            root.ask(CreateTopics((CreatableTopic("wages", 1), CreatableTopic("orders", 1))))
        grant(one, "muster", (CLUSTER, CLUSTER_NAME, DESCRIBE), (TOPIC, "*", DESCRIBE), (GROUP, "*", DESCRIBE))
        grant(one, "alice", (GROUP, "pay", READ), (TOPIC, "wages", READ), (GROUP, "pay", AclOperation.DELETE))
        grant(one, "bob", (TOPIC, "wages", DESCRIBE), (GROUP, "other", DESCRIBE))
        yield one


@pytest.fixture(scope="module", params=["PLAIN", "SCRAM-SHA-512"])
def front(
    request: pytest.FixtureRequest, brokers: Daemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("front")
    plan = (
        f"upstream.servers=127.0.0.1:{brokers.kafka_port}",
        f"upstream.listener.ports={free_port()}",
        "upstream.refresh.ms=200",
        "upstream.sasl.username=muster",
        f"upstream.sasl.password={PASSWORDS['muster']}",
        f"upstream.sasl.mechanism={request.param}",
        f"audit.log.location={folder / 'audit.log'}",
    )
    with running(folder / "data", *plan, with_http=True, with_kafka=True) as one:
        assert one.open == {"native", "kafka", "http"}
        commit(one)
        yield one


def commit(front: Daemon) -> None:
    """Commit an offset as alice."""
    wanted = OffsetCommit("pay", (WAGES,))
    with ClusterClient(front.bootstrap, security=logins.security("PLAIN", *ALICE)) as alice:
        reply = alice.ask(wanted)
    assert isinstance(reply, OffsetCommitReply) and not reply.topics[0].partitions[0].error_code


def grant(brokers: Daemon, who: str, *rules: tuple[AclResourceType, str, AclOperation]) -> None:
    with ClusterClient(brokers.bootstrap, security=logins.security("SCRAM-SHA-512")) as root:
        made = root.ask(
            CreateAcls(
                tuple(
                    AclCreation(kind, name, f"User:{who}", "*", one, AclPermission.ALLOW, AclPatternType.LITERAL)
                    for kind, name, one in rules
                )
            )
        )
    assert isinstance(made, CreateAclsReply) and not any(one.error_code for one in made.results)


def groups(front: Daemon, user: tuple[str, str]) -> list[str]:
    status, body = fetch(front, "/v1/groups", user)
    assert status == 200, body
    return list(json.loads(body)["groups"])


def test_without_a_login_only_probes_are_answered(front: Daemon) -> None:
    for path in ("/healthz", "/readyz"):
        assert fetch(front, path, None)[0] == 200
    for path in ("/", "/v1/groups", "/v3/clusters", "/metrics", "/v1/problems", "/v1/groups/pay/notes"):
        assert fetch(front, path, None)[0] == 401, path


def test_a_user_of_the_cluster_sees_what_its_brokers_let_it_describe(front: Daemon) -> None:
    assert groups(front, ALICE) == ["pay"]
    assert groups(front, BOB) == []
    assert fetch(front, "/v1/groups/pay/notes", ALICE)[0] == 200
    assert fetch(front, "/v1/groups/pay/notes", BOB)[0] == 403
    assert 'group="pay"' in fetch(front, "/metrics", ALICE)[1]
    assert 'group="pay"' not in fetch(front, "/metrics", BOB)[1]


def test_a_change_needs_what_the_brokers_want_for_it(front: Daemon) -> None:
    commit(front)
    status, plan = fetch(front, "/v1/groups/pay/offsets/plan", ALICE, {"to_latest": True})
    assert status == 200, plan
    change = json.loads(plan)
    assert fetch(front, "/v1/groups/pay/offsets/apply", BOB, change)[0] == 403
    status, done = fetch(front, "/v1/groups/pay/offsets/apply", ALICE, change)
    assert status == 200, done
    notes = fetch(front, "/v1/groups/pay/notes", ALICE)[1]
    assert "User:alice" in notes


def test_a_wrong_password_an_unknown_user_and_a_token_that_nobody_takes_are_refused(front: Daemon) -> None:
    began = counted(front, "muster_logins_failed_total")
    for user in ((ALICE[0], "guessed"), ("nobody", "guessed"), "a.b.c", ("", ""), ("a\0b", "c")):
        status, body = fetch(front, "/v1/groups", user)
        assert status == 401 and "guessed" not in body, user
    assert fetch(front, "/v1/groups", ALICE)[0] == 200
    assert counted(front, "muster_logins_failed_total") - began >= 3


def test_requests_with_one_password_share_a_connection_to_the_broker(front: Daemon) -> None:
    groups(front, ALICE)
    before = counted(front, "muster_logins_total"), counted(front, "muster_connections_opened_total")
    for _ in range(10):
        groups(front, ALICE)
    assert (counted(front, "muster_logins_total"), counted(front, "muster_connections_opened_total")) == before


def counted(front: Daemon, name: str) -> int:
    page = fetch(front, "/metrics", ALICE)[1]
    return next((int(float(line.split()[-1])) for line in page.splitlines() if line.startswith(f"{name} ")), 0)


def asked(front: Daemon, path: str, cookie: str, body: object = None, **headers: str) -> tuple[int, str]:
    """Return the status, and the cookie of the answer."""
    origin = f"http://127.0.0.1:{front.http_port}"
    sent = {"Cookie": cookie, "Origin": origin, "Content-Type": "application/json"} | headers
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(origin + path, data, sent), timeout=60) as answer:
            return answer.status, str(answer.headers["Set-Cookie"]).partition(";")[0]
    except HTTPError as refused:
        refused.read()
        return refused.code, ""


def test_the_form_opens_a_session_that_stands_for_the_connection_to_the_broker(front: Daemon) -> None:
    form = {"user": ALICE[0], "password": ALICE[1]}
    assert asked(front, "/console/login", "", {**form, "password": "guessed"})[0] == 401
    status, cookie = asked(front, "/console/login", "", form)
    assert (status, cookie.startswith("muster_session_")) == (200, True)
    assert asked(front, "/v1/groups/pay/notes", cookie)[0] == 200
    assert asked(front, "/v1/groups/pay/notes", cookie + "x")[0] == 401
    commit(front)
    change: Any = json.loads(fetch(front, "/v1/groups/pay/offsets/plan", ALICE, {"to_latest": True})[1])
    elsewhere = {"Origin": "http://example.net"}
    assert asked(front, "/v1/groups/pay/offsets/apply", cookie, change, **elsewhere)[0] == 403
    assert asked(front, "/v1/groups/pay/offsets/apply", cookie, change)[0] == 200
    assert asked(front, "/console/logout", cookie, {})[0] == 200
    assert asked(front, "/v1/groups/pay/notes", cookie)[0] == 401


def test_logs_say_who_came_in_over_http_and_have_no_password(front: Daemon) -> None:
    groups(front, BOB)
    assert fetch(front, "/v1/groups/pay/notes", BOB)[0] == 403
    path = front.folder.parent / "audit.log"

    def told() -> set[tuple[str | None, ...]]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return {(one["event"], one.get("principal"), one.get("listener"), one.get("lacked")) for one in lines}

    wanted = {
        ("login", "User:alice", "http", None),
        ("login", "User:bob", "http", None),
        ("refused", "User:bob", "http", "DESCRIBE on group pay"),
    }
    assert within(60, lambda: wanted <= told()), path.read_text()
    log = (front.folder.parent / f"{front.folder.name}.log").read_text()
    assert not any(secret in log + path.read_text() for secret in (ALICE[1], BOB[1], "guessed"))


def code_of(client: ClusterClient, message: Message) -> ErrorCode:
    """Return the error of a request, of the whole or of a part."""
    try:
        return next((code for code in codes(client.ask(message)) if code), ErrorCode.NONE)
    except Refused as refused:
        return refused.error_code


def test_a_member_of_a_client_of_kafkas_protocol_is_its_principals(brokers: Daemon, front: Daemon) -> None:
    """Its login goes through to the broker; the name in it is believed once the broker serves the client."""
    grant(brokers, "bob", (GROUP, "theirs", READ), (TOPIC, "wages", READ))
    grant(brokers, "alice", (GROUP, "theirs", READ))
    own = {"group.id": "theirs", "group.instance.id": "i", "session.timeout.ms": 30_000}
    bootstrap = {"bootstrap.servers": f"127.0.0.1:{front.kafka_port}", "log_level": 0}
    consumer = Consumer({**bootstrap, **logins.security("PLAIN", *ALICE), **own})
    consumer.subscribe(["wages"])

    def has_partition() -> bool:
        consumer.poll(0.2)
        return bool(consumer.assignment())

    assert within(60, has_partition)
    consumer.commit(offsets=[TopicPartition("wages", 0, 1)], asynchronous=False)
    member_id = consumer.memberid()
    stolen: list[tuple[Message, ErrorCode]] = [
        (Heartbeat("theirs", 1, member_id), ErrorCode.UNKNOWN_MEMBER_ID),
        (Heartbeat("theirs", 1, member_id, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (LeaveGroup("theirs", (LeavingMember(member_id),)), ErrorCode.UNKNOWN_MEMBER_ID),
        (OffsetCommit("theirs", (WAGES,), 1, member_id), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    with ClusterClient(front.bootstrap, security=logins.security("PLAIN", *BOB)) as bob:
        for message, code in stolen:
            assert code_of(bob, message) is code, message
    with ClusterClient(f"kafka://127.0.0.1:{front.kafka_port}", security=logins.security("PLAIN", *BOB)) as bob:
        assert code_of(bob, Heartbeat("theirs", 1, member_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert "User:alice" in fetch(front, "/v1/groups/theirs/notes", ALICE)[1]
    consumer.commit(offsets=[TopicPartition("wages", 0, 2)], asynchronous=False)
    evicting = {"member_ids": [member_id]}
    assert fetch(front, "/v1/groups/theirs/evict", BOB, evicting)[0] == 403
    consumer.commit(offsets=[TopicPartition("wages", 0, 3)], asynchronous=False)
    grant(brokers, "alice", (GROUP, "theirs", AclOperation.DELETE))
    assert within(90, lambda: fetch(front, "/v1/groups/theirs/evict", ALICE, evicting)[0] == 200)
    consumer.close()


def test_while_no_broker_answers_nobody_is_let_in_and_probes_are_served(
    brokers: Daemon, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lonely")
    plan = (
        f"upstream.servers=127.0.0.1:{brokers.kafka_port}",
        f"upstream.listener.ports={free_port()}",
        "upstream.refresh.ms=200",
        "upstream.sasl.username=muster",
        f"upstream.sasl.password={PASSWORDS['muster']}",
    )
    with running(folder / "data", *plan, with_http=True, with_kafka=True) as one:
        assert within(60, (folder / "data" / "upstream-authorizer").exists)
        one.stop()
        one.settings = (f"upstream.servers=127.0.0.1:{free_port()}", *plan[1:])
        one.start()
        assert one.open == {"native", "kafka", "http"}, "the cluster had ACLs when it was seen last"
        assert fetch(one, "/healthz", None)[0] == 200
        assert fetch(one, "/v1/groups", ALICE)[0] == 503

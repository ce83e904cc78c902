"""Native clients beside a cluster with logins and ACLs: they log in at a broker, and may do what it permits them."""

import base64
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config.keys import RebalanceProtocols
from coordinator.gateway.gateway import Gateway
from coordinator.gateway.permissions import VALID_MS
from coordinator.gateway.relayed.logins import RelayedLogins
from coordinator.gateway.relayed.session import RelayedSession
from coordinator.gateway.session.usernames import username_of
from coordinator.node.login_limits import BURST
from protocol.errors import ErrorCode
from protocol.kafka.login import SaslClient
from protocol.messages import Message
from protocol.messages.balanced import MemberHeartbeat
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListAudit,
    ListGroups,
    ListNotes,
    SyncGroup,
)
from protocol.messages.node import (
    DescribeNode,
    ErrorReply,
    FindCoordinator,
    Hello,
    HelloReply,
    Login,
    LoginReply,
    SaslHandshakeReply,
)
from protocol.messages.offsets import (
    DescribeExpiry,
    ListGroupOffsets,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchGroup,
)
from protocol.messages.ownership import DescribeOwnership
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic
from protocol.native.session import NativeDialect
from tests.node.test_access_rules import DENIALS, codes, denial
from tests.upstream.guarded import DELETE, DESCRIBE, READ
from tests.upstream.relayed import RelayedPair

ALICE, EVE = 1, 2
NONE, REFUSED = ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED
BEAT = Heartbeat("pay", 1, "m")
JOIN = JoinGroup("pay", 60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
                 protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
COMMIT = OffsetCommit("pay", (OffsetCommitTopic("wages", (OffsetCommitPartition(0, 7),)),))


@pytest.fixture
def pair() -> RelayedPair:
    return RelayedPair()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_is_carried_to_the_broker_and_the_principal_is_known_from_then_on(
    pair: RelayedPair, mechanism: str
) -> None:
    pair.rights_of["alice"] = {("pay", READ), ("wages", READ)}
    pair.connect_natively(ALICE)
    greeting = pair.ask_natively(ALICE, Hello("reader"))
    assert isinstance(greeting, HelloReply) and "Login" in greeting.methods
    assert pair.log_in(ALICE, "alice", mechanism).done
    assert pair.users == {ALICE: "alice"}
    assert isinstance(pair.front.node, Gateway) and isinstance(pair.front.node.proxied.logins, RelayedLogins)
    assert set(codes(pair.ask_natively(ALICE, COMMIT))) == {NONE}
    assert pair.node.core.connections[ALICE].principal == "User:alice"
    assert pair.node.core.counters["logins"] == 1


def test_nothing_is_served_before_the_login(pair: RelayedPair) -> None:
    pair.connect_natively(ALICE)
    pair.send_natively(ALICE, ListGroups())
    pair.run()
    assert pair.closed[ALICE] == "ListGroups is sent before the login is done"
    assert not pair.heard[ALICE] and not pair.queries


def test_a_wrong_password_is_refused_in_the_brokers_words_and_the_connection_closed(pair: RelayedPair) -> None:
    pair.connect_natively(EVE)
    reply = pair.log_in(EVE, "alice", password="guessed")
    assert (reply.error_code, reply.done) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False)
    assert pair.sentences[-1] == "invalid credentials"
    assert EVE in pair.closed
    assert any("a login as 'alice' from 10.0.0.1 failed" in line for line in pair.complaints)
    assert not any("guessed" in line for line in pair.complaints)


def test_passwords_cannot_be_tried_out_for_ever(pair: RelayedPair) -> None:
    for number in range(100, 100 + BURST):
        pair.connect_natively(number)
        assert pair.log_in(number, "alice", password="guessed").error_code
    pair.connect_natively(EVE)
    pair.send_natively(EVE, Login("PLAIN", b"\0alice\0secret"))
    pair.run()
    assert pair.closed[EVE] == "too many logins from its address have failed"
    assert EVE not in pair.users, "the broker was not asked"


@pytest.mark.parametrize(("mechanism", "said"), [("GSSAPI", "not relayed"), ("OAUTHBEARER", "the brokers have PLAIN")])
def test_a_mechanism_that_brokers_do_not_have_is_named(pair: RelayedPair, mechanism: str, said: str) -> None:
    pair.connect_natively(ALICE)
    reply = pair.ask_natively(ALICE, Login(mechanism, b"n,,\x01auth=Bearer a.b.c\x01\x01"))
    assert isinstance(reply, LoginReply) and reply.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert said in pair.sentences[-1]
    assert ALICE in pair.closed


@pytest.mark.parametrize("claims", [b"[" * 20_000, b'{"sub": "\\ud800"}', b'{"sub": "' + b"x" * 20_000 + b'"}'])
def test_a_token_that_nobody_can_read_is_refused_and_told_in_the_audit_log(pair: RelayedPair, claims: bytes) -> None:
    audit = pair.node.core.audit
    audit.is_on = True
    told: list[bytes] = []

    def take() -> list[bytes]:
        told.extend(audit._lines)
        return []

    audit.take = take  # type: ignore[method-assign]
    pair.connect_natively(EVE)
    reply = pair.ask_natively(EVE, Login("OAUTHBEARER", token(claims)))
    assert isinstance(reply, LoginReply) and reply.error_code
    assert told


EVERY_METHOD: list[tuple[Message, str, Any]] = [
    (JOIN, "pay", READ),
    (SyncGroup("pay", 1, "m"), "pay", READ),
    (BEAT, "pay", READ),
    (LeaveGroup("pay", (LeavingMember("m"),)), "pay", READ),
    (COMMIT, "pay", READ),
    (OffsetFetch((OffsetFetchGroup("pay", None),)), "pay", DESCRIBE),
    (OffsetDelete("pay", ()), "pay", DELETE),
    (FindCoordinator(("pay",)), "pay", DESCRIBE),
    (DescribeGroups(("pay",)), "pay", DESCRIBE),
    (DeleteGroups(("pay",)), "pay", DELETE),
    (ConsumerGroupHeartbeat("pay", "m", 5, subscribed_topic_names=("wages",)), "pay", READ),
    (ConsumerGroupDescribe(("pay",)), "pay", DESCRIBE),
    (ListNotes("pay"), "pay", DESCRIBE),
    (DescribeExpiry("pay"), "pay", DESCRIBE),
    (DescribeOwnership("pay"), "pay", DESCRIBE),
    (MemberHeartbeat("pay", "m", 1), "pay", READ),
    (ListOffsets((ListOffsetsTopic("wages", (ListOffsetsPartition(0),)),)), "wages", DESCRIBE),
    (Metadata((MetadataTopic("wages"),), allow_auto_topic_creation=True), "wages", DESCRIBE),
    (DescribeNode(), "cluster", DESCRIBE),
]


@pytest.mark.parametrize(
    ("message", "name", "operation"), EVERY_METHOD, ids=[type(one).__name__ for one, _, _ in EVERY_METHOD]
)
def test_each_native_method_needs_what_kafka_asks_for_it(message: Message, name: str, operation: Any) -> None:
    pair = RelayedPair(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")))
    pair.enter(EVE, "eve", *{("wages", READ)} - {(name, READ)} if name != "wages" else ())
    assert denial(pair.ask_natively(EVE, message)) in DENIALS
    pair.enter(ALICE, "alice", ("wages", READ), (name, operation))
    assert denial(pair.ask_natively(ALICE, message)) is NONE


def test_what_is_granted_and_revoked_takes_effect(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice")
    assert denial(pair.ask_natively(ALICE, BEAT)) is REFUSED
    pair.rights_of["alice"].add(("pay", READ))
    pair.now_ms += VALID_MS
    assert denial(pair.ask_natively(ALICE, BEAT)) is NONE
    pair.rights_of["alice"].clear()
    pair.now_ms += VALID_MS
    assert denial(pair.ask_natively(ALICE, BEAT)) is REFUSED


def test_lists_tell_what_may_be_described(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice", ("pay", READ), ("other", READ), ("wages", READ), ("orders", READ))
    pair.ask_natively(ALICE, COMMIT)
    pair.ask_natively(ALICE, OffsetCommit("other", COMMIT.topics))
    pair.ask_natively(ALICE, DeleteGroups(("absent",)))
    pair.enter(EVE, "eve", ("pay", DESCRIBE), ("wages", DESCRIBE))
    of_eve: Any = pair.ask_natively(EVE, ListGroups())
    assert [one.group_id for one in of_eve.groups] == ["pay"]
    topics: Any = pair.ask_natively(EVE, Metadata(None))
    assert [one.name for one in topics.topics] == ["wages"]
    notes: Any = pair.ask_natively(EVE, ListAudit())
    assert {one.group_id for one in notes.notes} <= {"pay"}


@pytest.mark.parametrize(
    ("rights", "seen"),
    [
        ((), {}),
        ((("cluster", DESCRIBE),), {}),
        ((("wages", DESCRIBE),), {}),
        ((("pay", DESCRIBE),), {"pay": {}}),
        ((("pay", DESCRIBE), ("wages", DESCRIBE)), {"pay": {"wages": {0: 7}}}),
        ((("pay", READ), ("other", READ), ("orders", READ)), {"pay": {"orders": {0: 8}}, "other": {}}),
    ],
)
def test_offsets_are_told_of_groups_and_topics_that_may_be_described(
    pair: RelayedPair, rights: tuple[tuple[str, Any], ...], seen: dict[str, dict[str, dict[int, int]]]
) -> None:
    orders = OffsetCommitTopic("orders", (OffsetCommitPartition(0, 8),))
    pair.enter(ALICE, "alice", ("pay", READ), ("other", READ), ("wages", READ), ("orders", READ))
    assert set(codes(pair.ask_natively(ALICE, OffsetCommit("pay", (*COMMIT.topics, orders))))) == {NONE}
    assert set(codes(pair.ask_natively(ALICE, OffsetCommit("other", COMMIT.topics)))) == {NONE}
    pair.enter(EVE, "eve", *rights)
    reply: Any = pair.ask_natively(EVE, ListGroupOffsets(("pay", "other", "absent")))
    assert {one.group_id: one.topics for one in reply.groups} == seen


def test_offsets_are_not_told_while_nobody_says_whose_they_are(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice", ("pay", READ), ("wages", READ))
    assert set(codes(pair.ask_natively(ALICE, COMMIT))) == {NONE}
    pair.enter(EVE, "eve", ("pay", READ), ("wages", READ))
    pair.away()
    reply = pair.ask_natively(EVE, ListGroupOffsets(("pay",)))
    assert isinstance(reply, ErrorReply) and reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_topics_are_made_at_the_broker_by_who_asks_and_not_in_musters_name(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice")
    own = len(pair.asked)
    reply: Any = pair.ask_natively(ALICE, CreateTopics((CreatableTopic("new", 1, 1),)))
    assert [one.name for one in reply.topics] == ["new"]
    assert pair.created == ["alice"] and len(pair.asked) == own


def test_a_join_that_waits_holds_up_neither_heartbeats_nor_their_permission() -> None:
    pair = RelayedPair(group_initial_rebalance_delay_ms=3_000)
    pair.enter(ALICE, "alice", ("pay", READ), ("other", READ))
    told: Any = pair.ask_natively(ALICE, JOIN)
    pair.send_natively(ALICE, replace(JOIN, member_id=told.member_id))
    pair.run()
    assert not pair.heard[ALICE], "it waits for others"
    assert denial(pair.ask_natively(ALICE, Heartbeat("other", 1, "m"))) is NONE


def test_requests_whose_permissions_are_asked_for_at_once_are_each_decided(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice", ("pay", READ), ("third", DESCRIBE))
    for request in (BEAT, Heartbeat("other", 1, "m"), DescribeGroups(("third",))):
        pair.send_natively(ALICE, request)
    pair.run()
    assert [denial(one) for one in pair.heard[ALICE]] == [NONE, REFUSED, NONE]


def test_a_login_is_renewed_on_the_same_connection_and_nothing_comes_between(pair: RelayedPair) -> None:
    pair.lifetime_ms = 60_000
    pair.enter(ALICE, "alice", ("pay", READ))
    pair.now_ms += 50_000
    pair.is_login_held = True
    pair.send_natively(ALICE, Login("PLAIN", b"\0alice\0secret"))
    pair.send_natively(ALICE, BEAT)
    pair.run()
    assert not pair.queries and not pair.heard[ALICE], "the broker has not let it in again yet"
    pair.let_log_in()
    login, beat = pair.heard[ALICE]
    assert isinstance(login, LoginReply) and login.session_lifetime_ms == 60_000
    assert denial(beat) is NONE
    pair.heard[ALICE].clear()
    pair.now_ms += 50_000
    assert denial(pair.ask_natively(ALICE, BEAT)) is NONE, "the second login holds"
    pair.now_ms += 10_001
    pair.send_natively(ALICE, BEAT)
    pair.run()
    assert "its login has expired" in pair.closed[ALICE]


def test_a_client_whose_brokers_side_is_gone_must_log_in_again(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice", ("pay", READ))
    pair.lose_broker(ALICE)
    assert "the broker's side of the connection is gone" in pair.closed[ALICE]


def test_while_no_broker_can_be_reached_nobody_logs_in_and_is_told_why(pair: RelayedPair) -> None:
    pair.enter(ALICE, "alice", ("pay", READ))
    assert denial(pair.ask_natively(ALICE, BEAT)) is NONE
    pair.away()
    pair.connect_natively(EVE)
    reply = pair.ask_natively(EVE, Login("PLAIN", b"\0eve\0secret"))
    assert isinstance(reply, LoginReply) and reply.error_code is ErrorCode.BROKER_NOT_AVAILABLE
    pair.now_ms += 2 * VALID_MS
    assert denial(pair.ask_natively(ALICE, BEAT)) is NONE, "the last answer holds"


def test_without_acls_in_the_cluster_native_clients_are_asked_for_no_login() -> None:
    pair = RelayedPair()
    pair.has_authorizer = False
    pair.find()
    pair.connect_natively(EVE)
    greeting = pair.ask_natively(EVE, Hello("reader"))
    assert isinstance(greeting, HelloReply) and "Login" not in greeting.methods
    assert denial(pair.ask_natively(EVE, COMMIT)) is NONE
    pair.has_authorizer = True
    pair.find()
    pair.send_natively(EVE, COMMIT)
    pair.run()
    assert "before the login" in pair.closed[EVE], "the cluster has ACLs now"
    pair.enter(ALICE, "alice")
    assert denial(pair.ask_natively(ALICE, COMMIT)) is REFUSED


def test_after_a_start_beside_acls_nobody_is_served_before_the_brokers_are_found() -> None:
    pair = RelayedPair()
    pair.front.restart()
    pair.node.proxied.logins.require(is_required=True)
    pair.connect_natively(ALICE)
    reply = pair.ask_natively(ALICE, Login("PLAIN", b"\0alice\0secret"))
    assert isinstance(reply, LoginReply) and reply.error_code is ErrorCode.BROKER_NOT_AVAILABLE
    pair.connect_natively(EVE)
    pair.send_natively(EVE, BEAT)
    pair.run()
    assert "before the login" in pair.closed[EVE]


def test_a_scram_exchange_that_is_replayed_is_the_brokers_to_refuse(pair: RelayedPair) -> None:
    client = SaslClient("SCRAM-SHA-256", "alice", "secret", "nonce")
    client.begin()
    first = client.on_reply(SaslHandshakeReply())
    assert first is not None
    for number in (ALICE, EVE):
        pair.connect_natively(number)
        challenge = pair.ask_natively(number, Login("SCRAM-SHA-256", first.auth_bytes))
        assert isinstance(challenge, LoginReply) and not challenge.done
    stolen = b"c=biws,r=nonceid-0,p=" + b"A" * 44
    reply = pair.ask_natively(EVE, Login("SCRAM-SHA-256", stolen))
    assert isinstance(reply, LoginReply) and reply.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED


def token(claims: bytes) -> bytes:
    payload = base64.urlsafe_b64encode(claims).rstrip(b"=")
    return b"n,,\x01auth=Bearer e30." + payload + b".c2ln\x01\x01"


@pytest.mark.parametrize(
    ("login", "user"),
    [
        (Login("PLAIN", b"\0alice\0secret"), "alice"),
        (Login("SCRAM-SHA-512", b"n,,n=a=2Cb=3D,r=nonce"), "a,b="),
        (Login("OAUTHBEARER", token(b'{"sub": "job"}')), "job"),
        (Login("OAUTHBEARER", token(b'{"sub": 7}')), ""),
        (Login("OAUTHBEARER", token(b"[]")), ""),
        (Login("OAUTHBEARER", token(b"no json")), ""),
        (Login("OAUTHBEARER", token(b"[" * 20_000)), ""),
        (Login("OAUTHBEARER", token(b'{"sub": "\\ud800"}')), ""),
        (Login("OAUTHBEARER", token(b"\xff")), ""),
    ],
)
def test_the_user_is_named_by_the_first_message(login: Login, user: str) -> None:
    assert username_of(login) == user


def test_a_name_that_kafkas_wire_has_no_room_for_is_not_asked_about() -> None:
    session = NativeDialect(1 << 20, HelloReply("s", "1", 1, (), {}))
    relayed = RelayedSession(session, lambda _message, _oldest, newest: newest, 1 << 20)
    assert relayed.send_query(Heartbeat("pay", 0, "m"), 0, 3) is True
    assert relayed.send_query(Heartbeat("p" * 40_000, 0, "m"), 0, 3) is False
    assert len(relayed.take_forward()) == 1

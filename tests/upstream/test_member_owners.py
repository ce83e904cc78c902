"""Members beside brokers are their principals', whether the cluster has ACLs or not: who has stolen an id, or names
another user in a login that the broker refuses, gets nowhere with it, over Kafka's protocol and the native one."""

from struct import unpack_from
from typing import Any

import pytest

from coordinator.gateway.effects import Forward
from coordinator.gateway.session.apis import SASL_KEYS
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.upstream.guarded import READ
from tests.upstream.relayed import RelayedPair
from tests.upstream.test_authorization import code_of

ALICE, EVE, ALICE_TOO, NATIVE = 1, 2, 3, 4
NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
RIGHTS = ("pay", READ), ("wages", READ)


class LoggedPair(RelayedPair):
    """A pair whose clients of Kafka's protocol log in at the broker too. As Apache Kafka without
    `connections.max.reauth.ms`, it refuses a second login and goes on serving the client."""

    def __init__(self, *, has_authorizer: bool) -> None:
        self.logged_in: dict[int, str] = {}
        super().__init__()
        self.has_authorizer = has_authorizer
        self.find()

    def enter_kafka(self, number: int, user: str) -> None:
        """Connect a client that logs in, with a right to the group and the topic."""
        self.client(number, *RIGHTS)
        assert self.log_in_kafka(number, user) == (NONE, NONE)

    def log_in_kafka(self, number: int, user: str) -> tuple[ErrorCode, ErrorCode]:
        """Log in by PLAIN; return the errors of both answers."""
        handshake, done = (
            self.ask(number, SaslHandshake("PLAIN"), 1),
            self.ask(number, SaslAuthenticate(f"\0{user}\0secret".encode()), 2),
        )
        assert isinstance(handshake, SaslHandshakeReply) and isinstance(done, SaslAuthenticateReply)
        return handshake.error_code, done.error_code

    def _deliver(self, effect: Forward) -> None:
        key, version, correlation_id = unpack_from(">hhi", effect.data, 4)
        if effect.connection in self._native or key not in SASL_KEYS:
            super()._deliver(effect)
            return
        codec = VersionCodec(WIRE_APIS[key], version)
        (client_bytes,) = unpack_from(">h", effect.data, 12)
        message = codec.read(effect.data, 14 + client_bytes + codec.is_flexible)
        answer = codec.frame(correlation_id, self._answer_login(effect.connection, message))
        self.to_front.append((effect.connection, answer))

    def _answer_login(self, number: int, message: Message) -> Message:
        error = ILLEGAL if number in self.logged_in else NONE
        if isinstance(message, SaslHandshake):
            return SaslHandshakeReply(error, ("PLAIN",))
        assert isinstance(message, SaslAuthenticate)
        self.logged_in.setdefault(number, message.auth_bytes.split(b"\0")[1].decode())
        return SaslAuthenticateReply(error)


@pytest.fixture(params=[True, False], ids=["with ACLs", "without ACLs"])
def pair(request: pytest.FixtureRequest) -> LoggedPair:
    return LoggedPair(has_authorizer=request.param)


def join(member_id: str = "", instance_id: str | None = None) -> JoinGroup:
    return JoinGroup("pay", 60_000, member_id, "consumer", (JoinProtocol("range", b"x"),), 60_000, instance_id)


def joined(pair: LoggedPair) -> JoinGroupReply:
    """Let Alice be the only member."""
    pair.enter_kafka(ALICE, "alice")
    member = pair.ask(ALICE, join(instance_id="one"), 5)
    assert isinstance(member, JoinGroupReply) and not member.error_code
    return member


def requests(member: JoinGroupReply, instance_id: str | None) -> list[tuple[Message, int]]:
    commit = (OffsetCommitTopic("wages", (OffsetCommitPartition(0, 1),)),)
    return [
        (Heartbeat("pay", member.generation_id, member.member_id, instance_id), 4),
        (SyncGroup("pay", member.generation_id, member.member_id, instance_id), 3),
        (OffsetCommit("pay", commit, member.generation_id, member.member_id, instance_id), 7),
        (join(member.member_id, instance_id), 5),
        (LeaveGroup("pay", (LeavingMember(member.member_id, instance_id),)), 4),
    ]


def members_of(pair: LoggedPair) -> set[str]:
    return set(pair.node.core.directory["pay"].classic.members)


@pytest.mark.parametrize(("instance_id", "code"), [("one", FENCED), (None, UNKNOWN)])
def test_a_client_of_kafkas_protocol_cannot_use_a_member_of_another_and_its_owner_can(
    pair: LoggedPair, instance_id: str | None, code: ErrorCode
) -> None:
    member = joined(pair)
    pair.enter_kafka(EVE, "eve")
    pair.enter_kafka(ALICE_TOO, "alice")
    for message, version in requests(member, instance_id):
        for _ in range(2):
            assert code_of(pair.ask(EVE, message, version)) is code, message
    assert members_of(pair) == {member.member_id}
    for message, version in requests(member, instance_id)[:2]:
        assert code_of(pair.ask(ALICE_TOO, message, version)) is NONE, message


@pytest.mark.parametrize(("instance_id", "code"), [("one", FENCED), (None, UNKNOWN)])
def test_a_native_client_cannot_either(pair: LoggedPair, instance_id: str | None, code: ErrorCode) -> None:
    """Without ACLs native clients have no login: they are nobody's principal."""
    member = joined(pair)
    if pair.has_authorizer:
        pair.enter(NATIVE, "eve", *RIGHTS)
    else:
        pair.connect_natively(NATIVE)
    for message, _ in requests(member, instance_id):
        reply: Any = pair.ask_natively(NATIVE, message)
        found = reply.error_code if hasattr(reply, "error_code") else code_of(reply)
        assert found is code, message
    assert members_of(pair) == {member.member_id}


def test_who_names_another_user_in_a_login_that_the_broker_refuses_is_not_that_user(pair: LoggedPair) -> None:
    member = joined(pair)
    pair.enter_kafka(EVE, "eve")
    assert pair.log_in_kafka(EVE, "alice") == (ILLEGAL, ILLEGAL)
    beat = requests(member, None)[0]
    assert code_of(pair.ask(EVE, *beat)) is UNKNOWN
    assert pair.node.core.connections[EVE].principal == "User:eve"


def test_heartbeats_beside_brokers_that_know_users_are_served_as_before(pair: LoggedPair) -> None:
    member = joined(pair)
    assert code_of(pair.ask(ALICE, *requests(member, "one")[1])) is NONE
    for _ in range(3):
        assert code_of(pair.ask(ALICE, *requests(member, "one")[0])) is NONE

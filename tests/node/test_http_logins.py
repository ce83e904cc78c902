"""Logins of HTTP requests at the node, and access rules for who logged in there."""

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.records import AclRecord, CredentialRecord, TokenRecord
from coordinator.accounts.roles import Role
from coordinator.accounts.scram import ScramMechanism
from coordinator.accounts.tokens import AccessToken
from coordinator.config.accounts import AuthorizerClass
from coordinator.config.keys import Secret
from coordinator.node.events import Call, PasswordGiven, SessionShown
from coordinator.node.login_limits import BURST
from protocol.access_token import hash_of, token_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import HttpLoginReply
from tests.accounts.rig import NOW
from tests.node.node_rig import WALL_MS
from tests.node.test_kafka import Peer
from tests.node.test_logins import DELAY_MS, WRONG, LoginRig, log_in

HOST = "127.0.0.1"
REFUSED = HttpLoginReply(error_code=WRONG)
LIMITED = HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.fixture
def rig() -> LoginRig:
    return LoginRig()


def give(rig: LoginRig, user: str, password: str, call: int = 7) -> Message | None:
    """The answer, if it comes at once."""
    rig.step(PasswordGiven(call, user, Secret(password), HOST))
    while rig.checks:
        rig.end_check()
    return rig.replied.get(call)


def test_a_user_is_known_by_the_same_credential_as_kafkas_clients(rig: LoginRig) -> None:
    assert give(rig, "alice", "secret") == HttpLoginReply("User:alice")


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("", "secret"), ("alice", ""), ("a\0b", "c")]
)
def test_a_wrong_one_is_refused_after_the_delay_in_the_same_words(rig: LoginRig, user: str, password: str) -> None:
    assert give(rig, user, password) is None
    rig.wait(DELAY_MS - 1)
    assert 7 not in rig.replied
    rig.wait(1)
    assert rig.replied[7] == REFUSED
    assert len(rig.complaints) == 1


def test_refusals_that_wait_at_once_are_all_answered(rig: LoginRig) -> None:
    for call in (1, 2, 3):
        assert give(rig, "alice", "wrong", call) is None
    rig.wait(DELAY_MS)
    assert [rig.replied.get(call) for call in (1, 2, 3)] == [REFUSED] * 3


def test_an_address_from_which_many_failed_is_not_looked_at_by_either_way(rig: LoginRig) -> None:
    for call in range(BURST):
        give(rig, "alice", "wrong", call)
    assert give(rig, "alice", "secret", 1_000) is None
    rig.wait(DELAY_MS)
    assert rig.replied[1_000] == LIMITED
    other = Peer(rig, 1)  # from another address
    assert not log_in(rig, other).error_code


def test_a_request_is_held_to_the_rules_of_who_logged_in_for_it() -> None:
    rig = LoginRig(authorizer_class_name=AuthorizerClass.STANDARD)
    acl = Acl(
        AclResourceType.GROUP,
        "pay",
        AclPatternType.LITERAL,
        "User:alice",
        HOST,
        AclOperation.DESCRIBE,
        AclPermission.ALLOW,
    )
    assert not rig.node.core.accounts.write([AclRecord(acl, is_there=True)], NOW)

    def code(principal: str, host: str = HOST) -> ErrorCode:
        rig.step(Call(1, DescribeGroups(("pay",)), principal, host))
        rig.wait(0)
        reply = rig.replied.pop(1)
        assert isinstance(reply, DescribeGroupsReply)
        return reply.groups[0].error_code

    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert code("User:alice") is not denied
    assert [code("User:bob"), code(""), code("User:alice", "10.0.0.9")] == [denied] * 3
    assert not rig.node.core.callers


def test_a_password_is_in_no_text_of_the_event() -> None:
    assert "secret" not in repr(PasswordGiven(1, "alice", Secret("secret"), HOST))


# ---------------------------------------------------------------------------------------------------------- sessions


def enter(rig: LoginRig, user: str | None = "alice", password: str = "secret", call: int = 7) -> HttpLoginReply:
    """The answer to the form of a login."""
    rig.step(PasswordGiven(call, user, Secret(password), HOST, opens_session=True))
    while rig.checks:
        rig.end_check()
    rig.wait(DELAY_MS)
    reply = rig.replied.pop(call)
    assert isinstance(reply, HttpLoginReply)
    return reply


def show(rig: LoginRig, secret: str, *, is_end: bool = False) -> HttpLoginReply:
    rig.step(SessionShown(9, Secret(secret), HOST, is_end))
    reply = rig.replied.pop(9)
    assert isinstance(reply, HttpLoginReply)
    return reply


def test_a_session_stands_for_the_login_that_opened_it_until_it_is_ended(rig: LoginRig) -> None:
    entered = enter(rig)
    assert (entered.principal, entered.session_lifetime_ms) == ("User:alice", 12 * 3_600_000)
    for _ in range(BURST + 1):
        assert show(rig, entered.session) == HttpLoginReply("User:alice")
    assert not rig.checks, "no key is derived"
    assert show(rig, entered.session, is_end=True) == HttpLoginReply("User:alice")
    assert show(rig, entered.session) == REFUSED
    assert entered.session not in repr(entered) + repr(SessionShown(1, Secret(entered.session), HOST))


def test_a_session_ends_at_its_time_and_with_its_user(rig: LoginRig) -> None:
    first = enter(rig)
    rig.wait(first.session_lifetime_ms - DELAY_MS - 1)
    assert show(rig, first.session) == HttpLoginReply("User:alice")
    rig.wait(1 + DELAY_MS)
    assert show(rig, first.session) == REFUSED
    second = enter(rig)
    rig.node.core.accounts.write([CredentialRecord(one, "alice", None) for one in ScramMechanism], NOW)
    assert show(rig, second.session) == REFUSED


def test_a_session_lasts_no_longer_than_logins_do() -> None:
    rig = LoginRig(connections_max_reauth_ms=60_000)
    assert enter(rig).session_lifetime_ms == 60_000


def test_a_session_lasts_no_longer_than_its_token(rig: LoginRig) -> None:
    text = token_of(b"s" * 32)
    expires_ms = WALL_MS + rig.now_ms + 60_000
    token = AccessToken(hash_of(text), Role.VIEW, expires_ms, 0, "")
    rig.node.core.accounts.write([TokenRecord("ci", token)], NOW)
    entered = enter(rig, None, text)
    assert (entered.principal, entered.session_lifetime_ms) == ("Token:ci", 60_000)
    rig.node.core.accounts.write([TokenRecord("ci", None)], NOW)
    assert show(rig, entered.session) == REFUSED


def test_the_form_is_limited_as_other_logins_are(rig: LoginRig) -> None:
    for call in range(BURST):
        rig.step(PasswordGiven(100 + call, "alice", Secret("wrong"), HOST, opens_session=True))
        rig.end_check()
    assert enter(rig) == LIMITED
    assert show(rig, "0" * 64) == REFUSED, "a cookie of an ended session counts against nobody"

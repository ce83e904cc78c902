"""Logins of HTTP requests at the node, and access rules for who logged in there."""

import pytest

from coordinator.accounts.acls import Acl, AclPatternType, AclPermission, AclResourceType
from coordinator.accounts.records import AclRecord
from coordinator.config.accounts import AuthorizerClass
from coordinator.config.keys import Secret
from coordinator.node.events import Call, PasswordGiven
from coordinator.node.login_limits import BURST
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import LoginReply
from tests.accounts.rig import NOW
from tests.node.test_kafka import Peer
from tests.node.test_logins import DELAY_MS, WRONG, LoginDesk, log_in

HOST = "127.0.0.1"
REFUSED = LoginReply(error_code=WRONG)
LIMITED = LoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.fixture
def desk() -> LoginDesk:
    return LoginDesk()


def give(desk: LoginDesk, user: str, password: str, call: int = 7) -> Message | None:
    """The answer, if it comes at once."""
    desk.step(PasswordGiven(call, user, Secret(password), HOST))
    while desk.checks:
        desk.end_check()
    return desk.replied.get(call)


def test_a_user_is_known_by_the_same_credential_as_kafkas_clients(desk: LoginDesk) -> None:
    assert give(desk, "alice", "secret") == LoginReply(b"User:alice", True)


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("", "secret"), ("alice", ""), ("a\0b", "c")]
)
def test_a_wrong_one_is_refused_after_the_delay_in_the_same_words(desk: LoginDesk, user: str, password: str) -> None:
    assert give(desk, user, password) is None
    desk.wait(DELAY_MS - 1)
    assert 7 not in desk.replied
    desk.wait(1)
    assert desk.replied[7] == REFUSED
    assert len(desk.complaints) == 1


def test_refusals_that_wait_at_once_are_all_answered(desk: LoginDesk) -> None:
    for call in (1, 2, 3):
        assert give(desk, "alice", "wrong", call) is None
    desk.wait(DELAY_MS)
    assert [desk.replied.get(call) for call in (1, 2, 3)] == [REFUSED] * 3


def test_an_address_from_which_many_failed_is_not_looked_at_by_either_way(desk: LoginDesk) -> None:
    for call in range(BURST):
        give(desk, "alice", "wrong", call)
    assert give(desk, "alice", "secret", 1_000) is None
    desk.wait(DELAY_MS)
    assert desk.replied[1_000] == LIMITED
    other = Peer(desk, 1)  # from another address
    assert not log_in(desk, other).error_code


def test_a_request_is_held_to_the_rules_of_who_logged_in_for_it() -> None:
    desk = LoginDesk(authorizer_class_name=AuthorizerClass.STANDARD)
    acl = Acl(
        AclResourceType.GROUP,
        "pay",
        AclPatternType.LITERAL,
        "User:alice",
        HOST,
        AclOperation.DESCRIBE,
        AclPermission.ALLOW,
    )
    assert not desk.node.core.accounts.write([AclRecord(acl, is_there=True)], NOW)

    def code(principal: str, host: str = HOST) -> ErrorCode:
        desk.step(Call(1, DescribeGroups(("pay",)), principal, host))
        desk.wait(0)
        reply = desk.replied.pop(1)
        assert isinstance(reply, DescribeGroupsReply)
        return reply.groups[0].error_code

    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert code("User:alice") is not denied
    assert [code("User:bob"), code(""), code("User:alice", "10.0.0.9")] == [denied] * 3
    assert not desk.node.core.callers


def test_a_password_is_in_no_text_of_the_event() -> None:
    assert "secret" not in repr(PasswordGiven(1, "alice", Secret("secret"), HOST))

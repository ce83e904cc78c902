"""Access tokens at the node: made natively, shown over HTTP, held to their roles."""

from typing import Any

import pytest

from coordinator.config.accounts import Principals
from coordinator.config.keys import Secret
from coordinator.node.events import Call, PasswordGiven
from coordinator.node.login_limits import BURST
from protocol.access_token import hash_of, token_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import ConsumeFromMax, DescribeBalanced, DescribeBalancedReply
from protocol.messages.groups import (
    ApplyOffsets,
    DescribeGroups,
    DescribeGroupsReply,
    HoldGroup,
    LeaveGroup,
    LeavingMember,
    OffsetChange,
)
from protocol.messages.node import HttpLoginReply
from protocol.messages.offsets import OffsetDelete
from protocol.messages.reports import DrainMembers
from protocol.messages.tokens import (
    ROLES,
    CreateToken,
    CreateTokenReply,
    DeleteToken,
    DeleteTokenReply,
    ListedToken,
    ListTokens,
    ListTokensReply,
)
from tests.node.desk import WALL_MS
from tests.node.test_audit_log import AuditedDesk, of
from tests.node.test_logins import DELAY_MS, WRONG, LoginDesk
from tests.node.test_long_group_ids import codes, native_requests

HOST = "127.0.0.1"
DAY_MS = 86_400_000
TEXT = token_of(b"s" * 32)
ROOT = "User:alice"
WITHOUT_RULES = {"authorizer_class_name": None, "super_users": Principals()}


def ask_as(desk: LoginDesk, principal: str, message: Message, call: int = 8) -> Any:
    desk.step(Call(call, message, principal, HOST))
    desk.wait(0)
    return desk.replied.pop(call)


def make(desk: LoginDesk, role: str = "view", name: str = "ci", text: str = TEXT, lifetime_ms: int = DAY_MS) -> Any:
    return ask_as(desk, ROOT, CreateToken(name, role, hash_of(text), lifetime_ms))


def show(desk: LoginDesk, text: str = TEXT, call: int = 7) -> Message | None:
    """The answer, if it comes at once."""
    desk.step(PasswordGiven(call, None, Secret(text), HOST))
    return desk.replied.pop(call, None)


@pytest.fixture
def desk() -> LoginDesk:
    return LoginDesk()


def test_a_token_is_made_listed_shown_and_deleted(desk: LoginDesk) -> None:
    assert make(desk) == CreateTokenReply(expires_ms=WALL_MS + desk.now_ms + DAY_MS)
    listed = ask_as(desk, ROOT, ListTokens())
    assert isinstance(listed, ListTokensReply)
    assert listed.tokens == (ListedToken("ci", "view", ROOT, WALL_MS, WALL_MS + DAY_MS),)
    assert show(desk) == HttpLoginReply("Token:ci")
    assert ask_as(desk, ROOT, DeleteToken("ci")) == DeleteTokenReply()
    assert show(desk) is None
    assert ask_as(desk, ROOT, ListTokens()).tokens == ()
    assert ask_as(desk, ROOT, DeleteToken("ci")).error_code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_name_or_a_secret_that_is_taken_is_refused(desk: LoginDesk) -> None:
    make(desk)
    assert "'ci' already" in make(desk, text=token_of(b"t" * 32)).error_message
    again = make(desk, name="other")
    assert (again.error_code, "secret" in again.error_message) == (ErrorCode.DUPLICATE_RESOURCE, True)
    assert make(desk, role="root", name="x").error_code is ErrorCode.INVALID_REQUEST
    assert set(desk.node.core.accounts.tokens.by_name) == {"ci"}


def test_a_reply_waits_for_the_disk(desk: LoginDesk) -> None:
    desk.holds_disk = True
    desk.step(Call(8, CreateToken("ci", "view", hash_of(TEXT), DAY_MS), ROOT, HOST))
    assert 8 not in desk.replied
    desk.flush()
    desk.wait(0)
    assert isinstance(desk.replied[8], CreateTokenReply)


@pytest.mark.parametrize(
    "text",
    [token_of(b"t" * 32), TEXT[:-1] + "A", TEXT + "x", "muster_", TEXT.replace("muster_", "Muster_"), "a.b.c", "é"],
)
def test_an_unknown_token_is_refused_after_the_delay_in_the_words_of_a_wrong_password(
    desk: LoginDesk, text: str
) -> None:
    make(desk)
    desk.step(PasswordGiven(7, None, Secret(text), HOST))
    desk.wait(DELAY_MS - 1)
    assert 7 not in desk.replied
    desk.wait(1)
    assert desk.replied[7] == HttpLoginReply(error_code=WRONG)


def test_an_expired_token_a_deleted_one_and_an_unknown_one_are_refused_alike(desk: LoginDesk) -> None:
    make(desk, lifetime_ms=1_000)
    make(desk, name="gone", text=token_of(b"g" * 32))
    ask_as(desk, ROOT, DeleteToken("gone"))
    assert show(desk) == HttpLoginReply("Token:ci")
    desk.wait(1_000)
    began_ms = desk.now_ms
    for call, text in ((1, TEXT), (2, token_of(b"g" * 32)), (3, token_of(b"u" * 32))):
        desk.step(PasswordGiven(call, None, Secret(text), HOST))
    assert not {1, 2, 3} & set(desk.replied)
    desk.wait(DELAY_MS)
    assert [desk.replied[call] for call in (1, 2, 3)] == [HttpLoginReply(error_code=WRONG)] * 3
    assert desk.now_ms == began_ms + DELAY_MS, "all at once"


def test_tokens_tried_out_are_limited_with_passwords(desk: LoginDesk) -> None:
    make(desk)
    for call in range(BURST):
        desk.step(PasswordGiven(call, None, Secret(token_of(bytes([call]) * 32)), HOST))
    desk.step(PasswordGiven(1_000, None, Secret(TEXT), HOST))
    desk.wait(DELAY_MS)
    assert desk.replied[1_000] == HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.mark.parametrize("settings", [{}, WITHOUT_RULES], ids=["acls", "without"])
@pytest.mark.parametrize("role", ROLES)
def test_a_token_is_held_to_its_role_whether_there_are_access_rules_or_not(role: str, settings: dict[str, Any]) -> None:
    desk = AuditedDesk(**settings)
    desk.make_topic()
    make(desk, role)
    desk.told()
    token = "Token:ci"
    described = ask_as(desk, token, DescribeGroups(("g",), include_authorized_operations=True))
    assert isinstance(described, DescribeGroupsReply)
    assert described.groups[0].error_code is not ErrorCode.GROUP_AUTHORIZATION_FAILED
    deleted = ask_as(desk, token, OffsetDelete("g", ()))
    assert (deleted.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED) is (role == "view")
    other = ask_as(desk, token, CreateToken("more", "admin", hash_of("x"), DAY_MS))
    assert (other.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED) is (role != "admin")
    lacked = [line["lacked"] for line in desk.told() if line["event"] == "refused"]
    assert len(lacked) == {"view": 2, "operate": 1, "admin": 0}[role]


DENIED = {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
CHANGE = OffsetChange("orders", 0, -1, 5)
SURGERY: tuple[Message, ...] = (
    ApplyOffsets("g", (CHANGE,)),
    ApplyOffsets("g", (OffsetChange("orders", 0, 5, -1),)),
    LeaveGroup("g", (LeavingMember("m"),)),
    DrainMembers("g", ("m",)),
    HoldGroup("g", 1_000),
    ConsumeFromMax(("g",)),
)


@pytest.mark.parametrize("message", SURGERY, ids=lambda message: type(message).__name__)
def test_surgery_is_for_operators(message: Message) -> None:
    desk = AuditedDesk()
    desk.make_topic()
    make(desk, "view", "viewer")
    make(desk, "operate", "operator", token_of(b"o" * 32))
    assert DENIED & codes(ask_as(desk, "Token:viewer", message))
    assert not DENIED & codes(ask_as(desk, "Token:operator", message))


@pytest.mark.parametrize("message", [*native_requests("g"), DescribeBalanced()], ids=lambda one: type(one).__name__)
def test_a_stranger_gets_nothing_of_a_group_and_everybody_else_an_answer(message: Message) -> None:
    desk = AuditedDesk()
    reply = ask_as(desk, "User:stranger", message)
    assert DENIED & codes(reply) or reply == DescribeBalancedReply(), reply


def test_a_deleted_token_may_do_nothing_from_the_next_request_on(desk: LoginDesk) -> None:
    make(desk, "admin")
    assert not ask_as(desk, "Token:ci", ListTokens()).error_code
    ask_as(desk, ROOT, DeleteToken("ci"))
    assert ask_as(desk, "Token:ci", ListTokens()).error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_audit_log_tells_who_made_and_deleted_a_token_and_what_it_did_and_has_no_secret() -> None:
    desk = AuditedDesk()
    make(desk, "operate")
    show(desk)
    show(desk, token_of(b"u" * 32))
    desk.wait(DELAY_MS)
    ask_as(desk, ROOT, DeleteToken("ci"))
    made, came, failed, deleted = desk.told()
    assert of(made, "event", "principal", "request") == ("administration", ROOT, "CreateToken")
    (change,) = made["changes"]
    assert (change["what"], change["before"], change["after"]["role"]) == ("token ci", None, "operate")
    assert of(came, "event", "principal", "mechanism") == ("login", "Token:ci", "Bearer")
    assert of(failed, "event", "why") == ("login failed", "there is no such token")
    assert (deleted["request"], deleted["changes"][0]["after"]) == ("DeleteToken", None)
    told = desk.text.decode() + "".join(desk.complaints) + repr(desk.node.core.accounts.tokens.by_name)
    told += repr(CreateToken("ci", "view", hash_of(TEXT), 1)) + repr(PasswordGiven(1, None, Secret(TEXT), HOST))
    for secret in (TEXT, TEXT.removeprefix("muster_"), hash_of(TEXT).hex(), repr(hash_of(TEXT))[2:20]):
        assert secret not in told

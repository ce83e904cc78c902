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
from tests.node.node_rig import WALL_MS
from tests.node.test_audit_log import AuditRig, of
from tests.node.test_logins import DELAY_MS, WRONG, LoginRig
from tests.node.test_long_group_ids import codes, native_requests

HOST = "127.0.0.1"
DAY_MS = 86_400_000
TEXT = token_of(b"s" * 32)
ROOT = "User:alice"
WITHOUT_RULES = {"authorizer_class_name": None, "super_users": Principals()}


def ask_as(rig: LoginRig, principal: str, message: Message, call: int = 8) -> Any:
    rig.step(Call(call, message, principal, HOST))
    rig.wait(0)
    return rig.replied.pop(call)


def make(rig: LoginRig, role: str = "view", name: str = "ci", text: str = TEXT, lifetime_ms: int = DAY_MS) -> Any:
    return ask_as(rig, ROOT, CreateToken(name, role, hash_of(text), lifetime_ms))


def show(rig: LoginRig, text: str = TEXT, call: int = 7) -> Message | None:
    """The answer, if it comes at once."""
    rig.step(PasswordGiven(call, None, Secret(text), HOST))
    return rig.replied.pop(call, None)


@pytest.fixture
def rig() -> LoginRig:
    return LoginRig()


def test_a_token_is_made_listed_shown_and_deleted(rig: LoginRig) -> None:
    assert make(rig) == CreateTokenReply(expires_ms=WALL_MS + rig.now_ms + DAY_MS)
    listed = ask_as(rig, ROOT, ListTokens())
    assert isinstance(listed, ListTokensReply)
    assert listed.tokens == (ListedToken("ci", "view", ROOT, WALL_MS, WALL_MS + DAY_MS),)
    assert show(rig) == HttpLoginReply("Token:ci")
    assert ask_as(rig, ROOT, DeleteToken("ci")) == DeleteTokenReply()
    assert show(rig) is None
    assert ask_as(rig, ROOT, ListTokens()).tokens == ()
    assert ask_as(rig, ROOT, DeleteToken("ci")).error_code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_name_or_a_secret_that_is_taken_is_refused(rig: LoginRig) -> None:
    make(rig)
    assert "'ci' already" in make(rig, text=token_of(b"t" * 32)).error_message
    again = make(rig, name="other")
    assert (again.error_code, "secret" in again.error_message) == (ErrorCode.DUPLICATE_RESOURCE, True)
    assert make(rig, role="root", name="x").error_code is ErrorCode.INVALID_REQUEST
    assert set(rig.node.core.accounts.tokens.by_name) == {"ci"}


def test_a_reply_waits_for_the_disk(rig: LoginRig) -> None:
    rig.holds_disk = True
    rig.step(Call(8, CreateToken("ci", "view", hash_of(TEXT), DAY_MS), ROOT, HOST))
    assert 8 not in rig.replied
    rig.flush()
    rig.wait(0)
    assert isinstance(rig.replied[8], CreateTokenReply)


@pytest.mark.parametrize(
    "text",
    [token_of(b"t" * 32), TEXT[:-1] + "A", TEXT + "x", "muster_", TEXT.replace("muster_", "Muster_"), "a.b.c", "é"],
)
def test_an_unknown_token_is_refused_after_the_delay_in_the_words_of_a_wrong_password(rig: LoginRig, text: str) -> None:
    make(rig)
    rig.step(PasswordGiven(7, None, Secret(text), HOST))
    rig.wait(DELAY_MS - 1)
    assert 7 not in rig.replied
    rig.wait(1)
    assert rig.replied[7] == HttpLoginReply(error_code=WRONG)


def test_an_expired_token_a_deleted_one_and_an_unknown_one_are_refused_alike(rig: LoginRig) -> None:
    make(rig, lifetime_ms=1_000)
    make(rig, name="gone", text=token_of(b"g" * 32))
    ask_as(rig, ROOT, DeleteToken("gone"))
    assert show(rig) == HttpLoginReply("Token:ci")
    rig.wait(1_000)
    began_ms = rig.now_ms
    for call, text in ((1, TEXT), (2, token_of(b"g" * 32)), (3, token_of(b"u" * 32))):
        rig.step(PasswordGiven(call, None, Secret(text), HOST))
    assert not {1, 2, 3} & set(rig.replied)
    rig.wait(DELAY_MS)
    assert [rig.replied[call] for call in (1, 2, 3)] == [HttpLoginReply(error_code=WRONG)] * 3
    assert rig.now_ms == began_ms + DELAY_MS, "all at once"


def test_tokens_tried_out_are_limited_with_passwords(rig: LoginRig) -> None:
    make(rig)
    for call in range(BURST):
        rig.step(PasswordGiven(call, None, Secret(token_of(bytes([call]) * 32)), HOST))
    rig.step(PasswordGiven(1_000, None, Secret(TEXT), HOST))
    rig.wait(DELAY_MS)
    assert rig.replied[1_000] == HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@pytest.mark.parametrize("settings", [{}, WITHOUT_RULES], ids=["acls", "without"])
@pytest.mark.parametrize("role", ROLES)
def test_a_token_is_held_to_its_role_whether_there_are_access_rules_or_not(role: str, settings: dict[str, Any]) -> None:
    rig = AuditRig(**settings)
    rig.make_topic()
    make(rig, role)
    rig.told()
    token = "Token:ci"
    described = ask_as(rig, token, DescribeGroups(("g",), include_authorized_operations=True))
    assert isinstance(described, DescribeGroupsReply)
    assert described.groups[0].error_code is not ErrorCode.GROUP_AUTHORIZATION_FAILED
    deleted = ask_as(rig, token, OffsetDelete("g", ()))
    assert (deleted.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED) is (role == "view")
    other = ask_as(rig, token, CreateToken("more", "admin", hash_of("x"), DAY_MS))
    assert (other.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED) is (role != "admin")
    lacked = [line["lacked"] for line in rig.told() if line["event"] == "refused"]
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
    rig = AuditRig()
    rig.make_topic()
    make(rig, "view", "viewer")
    make(rig, "operate", "operator", token_of(b"o" * 32))
    assert DENIED & codes(ask_as(rig, "Token:viewer", message))
    assert not DENIED & codes(ask_as(rig, "Token:operator", message))


@pytest.mark.parametrize("message", [*native_requests("g"), DescribeBalanced()], ids=lambda one: type(one).__name__)
def test_a_stranger_gets_nothing_of_a_group_and_everybody_else_an_answer(message: Message) -> None:
    rig = AuditRig()
    reply = ask_as(rig, "User:stranger", message)
    assert DENIED & codes(reply) or reply == DescribeBalancedReply(), reply


def test_a_deleted_token_may_do_nothing_from_the_next_request_on(rig: LoginRig) -> None:
    make(rig, "admin")
    assert not ask_as(rig, "Token:ci", ListTokens()).error_code
    ask_as(rig, ROOT, DeleteToken("ci"))
    assert ask_as(rig, "Token:ci", ListTokens()).error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_audit_log_tells_who_made_and_deleted_a_token_and_what_it_did_and_has_no_secret() -> None:
    rig = AuditRig()
    make(rig, "operate")
    show(rig)
    show(rig, token_of(b"u" * 32))
    rig.wait(DELAY_MS)
    ask_as(rig, ROOT, DeleteToken("ci"))
    made, came, failed, deleted = rig.told()
    assert of(made, "event", "principal", "request") == ("administration", ROOT, "CreateToken")
    (change,) = made["changes"]
    assert (change["what"], change["before"], change["after"]["role"]) == ("token ci", None, "operate")
    assert of(came, "event", "principal", "mechanism") == ("login", "Token:ci", "Bearer")
    assert of(failed, "event", "why") == ("login failed", "there is no such token")
    assert (deleted["request"], deleted["changes"][0]["after"]) == ("DeleteToken", None)
    told = rig.text.decode() + "".join(rig.complaints) + repr(rig.node.core.accounts.tokens.by_name)
    told += repr(CreateToken("ci", "view", hash_of(TEXT), 1)) + repr(PasswordGiven(1, None, Secret(TEXT), HOST))
    for secret in (TEXT, TEXT.removeprefix("muster_"), hash_of(TEXT).hex(), repr(hash_of(TEXT))[2:20]):
        assert secret not in told

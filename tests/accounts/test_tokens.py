"""Access tokens and their roles: who is let in, for how long, and to do what."""

import pytest

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.acls import Acl
from coordinator.accounts.authorizer import Authorizer
from coordinator.accounts.permission import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID
from coordinator.accounts.records import AclRecord, TokenRecord
from coordinator.accounts.roles import Role
from coordinator.accounts.scram import LoginRejected
from coordinator.accounts.tokens import MAX_LIFETIME_MS, AccessToken, AccessTokens, principal_of, problem_of
from protocol.access_token import PREFIX, hash_of, token_of
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.messages.tokens import ROLES
from tests.accounts.rig import NOW, flush, open_store, opened
from tests.simulation.disk import SimDisk

OP = AclOperation
TEXT = token_of(b"s" * 32)
END_MS = 5_000


def token(role: Role = Role.VIEW, text: str = TEXT) -> AccessToken:
    return AccessToken(hash_of(text), role, END_MS, 1_000, "User:alice")


def test_a_token_names_its_owner_until_its_end() -> None:
    tokens = AccessTokens()
    tokens.set("ci", token())
    assert tokens.owner(TEXT, END_MS - 1) == ("ci", token())
    with pytest.raises(LoginRejected, match="ci has expired"):
        tokens.owner(TEXT, END_MS)


@pytest.mark.parametrize(
    "text", ["", PREFIX, TEXT[:-1], TEXT + "A", TEXT.lower(), TEXT + "\udcff", token_of(b"t" * 32)]
)
def test_any_other_text_is_no_token(text: str) -> None:
    tokens = AccessTokens()
    tokens.set("ci", token())
    with pytest.raises(LoginRejected, match="no such token"):
        tokens.owner(text, 0)


def test_a_token_that_is_set_anew_replaces_the_one_before() -> None:
    tokens = AccessTokens()
    other = token_of(b"t" * 32)
    tokens.set("ci", token())
    tokens.set("ci", token(text=other))
    assert tokens.owner(other, 0)[0] == "ci"
    with pytest.raises(LoginRejected):
        tokens.owner(TEXT, 0)
    tokens.set("ci", None)
    assert not tokens.by_name and tokens.name_of(hash_of(other)) is None


@pytest.mark.parametrize(
    ("name", "role", "token_hash", "lifetime_ms", "words"),
    [
        ("", "view", b"h" * 32, 1, "name"),
        ("n" * 201, "view", b"h" * 32, 1, "name"),
        ("a\nb", "view", b"h" * 32, 1, "name"),
        ("ci", "root", b"h" * 32, 1, "view, operate, admin"),
        ("ci", "VIEW", b"h" * 32, 1, "role"),
        ("ci", "view", b"h" * 31, 1, "32 bytes, not 31"),
        ("ci", "view", b"h" * 32, 0, "lasts"),
        ("ci", "view", b"h" * 32, MAX_LIFETIME_MS + 1, "lasts"),
    ],
)
def test_a_new_token_that_is_not_sound_is_refused(
    name: str, role: str, token_hash: bytes, lifetime_ms: int, words: str
) -> None:
    assert words in (problem_of(name, role, token_hash, lifetime_ms) or "")


def test_roles_are_those_of_the_wire() -> None:
    assert tuple(map(str, Role)) == ROLES
    assert all(problem_of("ci", role, b"h" * 32, MAX_LIFETIME_MS) is None for role in ROLES)


def test_no_text_of_a_token_has_its_hash() -> None:
    assert "hidden" in repr(token()) and str(hash_of(TEXT)) not in repr(token())


# ------------------------------------------------------------------------------------------------------------- roles

KINDS = (CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID)
MORE_OF_OPERATE = {(GROUP, OP.READ), (GROUP, OP.DELETE), (GROUP, OP.ALTER_CONFIGS), (TOPIC, OP.READ)}


@pytest.fixture(params=[True, False], ids=["with access rules", "without"])
def authorizer(request: pytest.FixtureRequest) -> Authorizer:
    return Authorizer(is_on=request.param, super_users=frozenset({"Token:root"}), allow_if_no_acl=True)


@pytest.mark.parametrize("role", Role)
def test_a_role_permits_what_the_table_says(authorizer: Authorizer, role: Role) -> None:
    authorizer.set_role("Token:ci", role)
    view = authorizer.of("Token:ci", "10.0.0.1")
    for kind in KINDS:
        for operation in OP:
            expected = (
                role is Role.ADMIN
                or operation in (OP.DESCRIBE, OP.DESCRIBE_CONFIGS)
                or (role is Role.OPERATE and (kind, operation) in MORE_OF_OPERATE)
            )
            assert view.permits(kind, "any", operation) is expected, (kind, operation)
    assert view.permits_on_any_topic(OP.WRITE) is (role is Role.ADMIN)


def test_a_token_that_is_gone_may_do_nothing_at_once(authorizer: Authorizer) -> None:
    authorizer.set_role("Token:ci", Role.ADMIN)
    view = authorizer.of("Token:ci", "10.0.0.1")
    assert view.permits(GROUP, "g", OP.READ)
    authorizer.set_role("Token:ci", None)
    assert not view.permits(GROUP, "g", OP.READ)
    assert not authorizer.of("Token:root", "10.0.0.1").permits(GROUP, "g", OP.READ), "super.users names users"


def test_bindings_neither_widen_nor_narrow_a_role(authorizer: Authorizer) -> None:
    authorizer.set_role("Token:ci", Role.VIEW)
    for principal, permission in (("User:*", AclPermission.DENY), ("Token:ci", AclPermission.ALLOW)):
        authorizer.add(Acl(AclResourceType.GROUP, "g", AclPatternType.LITERAL, principal, "*", OP.ALL, permission))
        authorizer.add(Acl(AclResourceType.TOPIC, "*", AclPatternType.LITERAL, principal, "*", OP.ALL, permission))
    view = authorizer.of("Token:ci", "10.0.0.1")
    assert view.permits(GROUP, "g", OP.DESCRIBE)
    assert not view.permits(GROUP, "g", OP.READ)
    assert not view.permits_on_any_topic(OP.WRITE)


def test_tokens_are_there_after_a_crash_with_their_roles_and_deleted_ones_are_not() -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    accounts = opened(store)
    accounts.write([TokenRecord("ci", token(Role.OPERATE)), TokenRecord("old", token(text="x"))], NOW)
    accounts.write([TokenRecord("old", None)], NOW)
    flush(store, disk)
    disk.crash()
    again: Accounts = opened(open_store(disk))
    assert again.tokens.by_name == {"ci": token(Role.OPERATE)}
    assert again.authorizer.of(principal_of("ci"), "h").permits(GROUP, "g", OP.READ)
    assert not again.authorizer.of(principal_of("old"), "h").permits(GROUP, "g", OP.DESCRIBE)


def test_a_binding_for_everybody_is_none_for_tokens() -> None:
    accounts = opened(open_store(SimDisk(1)))
    everybody = Acl(AclResourceType.GROUP, "*", AclPatternType.LITERAL, "User:*", "*", OP.ALL, AclPermission.ALLOW)
    accounts.write([AclRecord(everybody, is_there=True)], NOW)
    assert not accounts.authorizer.of("Token:nobody", "h").permits(GROUP, "g", OP.READ)

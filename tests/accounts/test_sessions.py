"""Sessions of browsers: how long a login stands, and what ends it."""

from collections.abc import Callable

import pytest

from coordinator.accounts import sessions as module
from coordinator.accounts.accounts import Accounts
from coordinator.accounts.records import AccountsRecord, CredentialRecord, TokenRecord
from coordinator.accounts.roles import Role
from coordinator.accounts.scram import ScramMechanism
from coordinator.accounts.sessions import Sessions
from coordinator.accounts.tokens import AccessToken
from tests.accounts.rig import NOW, accounts_of, credential_records

END_MS = 1_000
TOKEN = AccessToken(b"h" * 32, Role.VIEW, 5_000, 0, "")


@pytest.fixture
def accounts() -> Accounts:
    accounts = accounts_of({"alice": "secret", "bob": "secret"})
    accounts.write([TokenRecord("ci", TOKEN)], NOW)
    return accounts


@pytest.mark.parametrize("principal", ["User:alice", "Token:ci", "User:of an identity provider"])
def test_a_session_stands_for_its_principal_until_its_end(accounts: Accounts, principal: str) -> None:
    sessions = Sessions(accounts)
    secret = sessions.open(principal, END_MS)
    found = sessions.find(secret, END_MS - 1)
    assert found is not None and found.principal == principal
    assert sessions.find(secret, END_MS) is None
    assert sessions.find(secret, 0) is None, "it does not come back with the clock"


def test_each_secret_is_another_and_kept_nowhere(accounts: Accounts) -> None:
    sessions = Sessions(accounts)
    secrets = {sessions.open("User:alice", END_MS) for _ in range(10)}
    assert len(secrets) == 10 and {len(one) for one in secrets} == {64}
    assert not any(one in repr(vars(sessions)) for one in secrets)


@pytest.mark.parametrize("secret", ["", "0" * 64, "x" * 8_000, "\udcff"])
def test_any_other_secret_is_no_session(accounts: Accounts, secret: str) -> None:
    sessions = Sessions(accounts)
    sessions.open("User:alice", END_MS)
    assert sessions.find(secret, 0) is None
    sessions.close(secret)


@pytest.mark.parametrize(
    ("principal", "change"),
    [
        ("User:alice", lambda: [CredentialRecord(mechanism, "alice", None) for mechanism in ScramMechanism]),
        ("User:alice", lambda: credential_records("alice", "another")),
        ("Token:ci", lambda: [TokenRecord("ci", None)]),
        ("Token:ci", lambda: [TokenRecord("ci", None), TokenRecord("ci", AccessToken(b"i" * 32, Role.VIEW, 1, 0, ""))]),
    ],
    ids=["user deleted", "password set", "token deleted", "token of the same name"],
)
def test_a_session_ends_with_what_it_was_opened_by(
    accounts: Accounts, principal: str, change: Callable[[], list[AccountsRecord]]
) -> None:
    sessions = Sessions(accounts)
    secret, other = sessions.open(principal, END_MS), sessions.open("User:bob", END_MS)
    accounts.write(change(), NOW)
    assert sessions.find(secret, 0) is None
    assert sessions.find(other, 0) is not None


def test_who_logs_out_ends_one_session_alone(accounts: Accounts) -> None:
    sessions = Sessions(accounts)
    first, second = sessions.open("User:alice", END_MS), sessions.open("User:alice", END_MS)
    sessions.close(first)
    assert sessions.find(first, 0) is None
    assert sessions.find(second, 0) is not None


def test_of_too_many_sessions_the_oldest_ends(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    sessions = Sessions(accounts)
    secrets = [sessions.open("User:alice", END_MS) for _ in range(4)]
    assert [sessions.find(one, 0) is not None for one in secrets] == [False, True, True, True]

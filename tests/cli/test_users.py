"""`muster users`: passwords come from standard input, and only keys leave the command."""

import hashlib
from collections.abc import Iterator

import pytest

from muster.admin.asking import Complaint
from muster.cli.accounts import users
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def test_users_are_made_listed_and_deleted(shell: Shell, node: FakeNode) -> None:
    assert shell.lines("users", "list") == ["There are no users yet: `muster users create NAME` makes one."]
    assert shell.lines("users", "create", "billing", typed="a secret\n") == ["Made user billing."]
    assert shell.lines("users", "list") == ["USER     MECHANISMS", "billing  SCRAM-SHA-256, SCRAM-SHA-512"]
    assert shell.json("users", "list") == [{"name": "billing", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]}]
    assert shell.lines("users", "delete", "billing") == ["Deleted user billing."]
    assert node.users == {}


def test_the_keys_are_those_of_the_password_with_a_salt_for_each(shell: Shell, node: FakeNode) -> None:
    shell.run("users", "create", "billing", typed="a secret\n")
    first, second = node.users["billing"].values()
    assert first.salt != second.salt
    for one, hash_name in ((first, "sha256"), (second, "sha512")):
        assert one.salted_password == hashlib.pbkdf2_hmac(hash_name, b"a secret", one.salt, one.iterations)


def test_a_password_is_set_for_a_user_that_is_there(shell: Shell, node: FakeNode) -> None:
    assert "there is no user 'billing'" in shell.complaint("users", "password", "billing", typed="x\n", code=3)
    shell.run("users", "create", "billing", typed="first\n")
    before = node.users["billing"][1].salted_password
    assert shell.lines("users", "password", "billing", typed="second\n") == ["Set the password of user billing."]
    assert node.users["billing"][1].salted_password != before
    assert "there is a user 'billing' already" in shell.complaint("users", "create", "billing", typed="x\n", code=4)
    assert "there is no user 'other'" in shell.complaint("users", "delete", "other", code=3)


def test_an_empty_password_changes_nothing(shell: Shell, node: FakeNode) -> None:
    assert "must not be empty" in shell.complaint("users", "create", "billing", typed="\n")
    assert node.users == {}


def test_who_may_not_alter_the_cluster_is_told_so(shell: Shell, node: FakeNode) -> None:
    node.may_alter = False
    assert "no access rule permits this" in shell.complaint("users", "list", code=4)


def test_at_a_terminal_the_password_is_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    def typing(*answers: str) -> None:
        typed: Iterator[str] = iter(answers)
        monkeypatch.setattr(users, "getpass", lambda _prompt: next(typed))

    monkeypatch.setattr("sys.stdin", Terminal())
    typing("one", "one")
    assert users._read_password("billing") == "one"
    typing("one", "other")
    with pytest.raises(Complaint, match="differ"):
        users._read_password("billing")

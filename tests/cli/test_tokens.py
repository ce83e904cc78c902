"""`muster tokens`: a token is shown once, and only its hash leaves the command."""

import re

from protocol.access_token import PREFIX, hash_of
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def test_tokens_are_made_listed_and_deleted(shell: Shell, node: FakeNode) -> None:
    assert "no tokens yet" in shell.lines("tokens", "list")[0]
    told, text = shell.lines("tokens", "create", "--role", "operate", "--expires", "12h", "--name", "ci")
    assert "token ci (operate), which ends 1970-01-01 12:00:00.000" in told
    assert re.fullmatch(PREFIX + r"[\w-]{43}", text)
    assert node.tokens["ci"].token_hash == hash_of(text)
    assert text not in repr(node.tokens)
    assert shell.lines("tokens", "list") == [
        "TOKEN  ROLE     EXPIRES                            MADE BY",
        "ci     operate  1970-01-01 12:00:00.000 (expired)  root",
    ]
    (listed,) = shell.json("tokens", "list")
    assert (listed["name"], listed["expires"], listed["expired"]) == ("ci", "1970-01-01T12:00:00.000Z", True)
    assert shell.lines("tokens", "delete", "ci") == ["Deleted token ci."]
    assert node.tokens == {}


def test_each_token_is_another_and_lasts_for_thirty_days_unless_told(shell: Shell, node: FakeNode) -> None:
    first, second = (shell.json("tokens", "create", "--role", "view") for _ in range(2))
    assert first["token"] != second["token"] and first["name"] != second["name"]
    assert {one.lifetime_ms for one in node.tokens.values()} == {30 * 86_400_000}
    assert {one.role for one in node.tokens.values()} == {"view"}


def test_what_cannot_be_made_is_said(shell: Shell, node: FakeNode) -> None:
    assert "view, operate, admin" in shell.complaint("tokens", "create", "--role", "root", code=2)
    assert "30 years" in shell.complaint("tokens", "create", "--role", "view", "--expires", "30 years", code=2)
    shell.run("tokens", "create", "--role", "view", "--name", "ci")
    assert "'ci' already" in shell.complaint("tokens", "create", "--role", "view", "--name", "ci", code=4)
    assert "there is no token 'other'" in shell.complaint("tokens", "delete", "other", code=3)


def test_who_may_not_alter_the_cluster_is_told_so(shell: Shell, node: FakeNode) -> None:
    node.may_alter = False
    assert "no access rule permits this" in shell.complaint("tokens", "list", code=4)

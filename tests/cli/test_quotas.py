"""`muster quotas`: limits of users, client ids and addresses."""

import pytest

from muster.cli.accounts import quotas
from protocol.errors import ErrorCode
from protocol.messages.quotas import DescribeClientQuotasReply, QuotaEntity
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def test_limits_are_set_listed_and_deleted(shell: Shell, node: FakeNode) -> None:
    assert quotas.app.registered_commands
    assert "There are no limits" in shell.lines("quotas", "list")[0]
    assert shell.lines("quotas", "set", "--user", "billing", "commit_rate=100", "join_rate=0.5") == [
        "Set commit_rate=100, join_rate=0.5 of user billing."
    ]
    shell.run("quotas", "set", "--default-user", "--client-id", "etl", "producer_byte_rate=1e6", "member_count=50")
    assert node.quotas[QuotaEntity("user"), QuotaEntity("client-id", "etl")] == {
        "producer_byte_rate": 1e6,
        "member_count": 50,
    }
    assert shell.lines("quotas", "list") == [
        "WHOM                           LIMIT               VALUE",
        "user (default), client-id etl  member_count        50",
        "user (default), client-id etl  producer_byte_rate  1000000",
        "user billing                   commit_rate         100",
        "user billing                   join_rate           0.5",
    ]
    assert shell.json("quotas", "list")[0] == {
        "entity": {"user": "billing"},
        "limits": {"commit_rate": 100.0, "join_rate": 0.5},
    }
    assert shell.lines("quotas", "delete", "--user", "billing", "commit_rate", "join_rate") == [
        "Deleted commit_rate, join_rate of user billing."
    ]
    assert len(node.quotas) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("set", "commit_rate=1"), "a limit needs --user"),
        (("set", "--user", "a", "--default-user", "commit_rate=1"), "cannot both be meant"),
        (("set", "--user", "a", "commit_rate"), "'commit_rate' is no limit: LIMIT=VALUE is wanted"),
    ],
)
def test_what_cannot_be_a_limit_is_said_in_a_sentence(shell: Shell, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in shell.complaint("quotas", *arguments, code=2)


def test_what_the_node_refuses_is_said_in_its_words(shell: Shell) -> None:
    said = shell.complaint("quotas", "set", "--user", "a", "request_percentage=1", code=4)
    assert "'request_percentage' is no limit here" in said


def test_beside_brokers_the_nodes_sentence_is_told(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = DescribeClientQuotasReply(ErrorCode.UNSUPPORTED_VERSION, "limits are the cluster's: ask its brokers")
    monkeypatch.setattr(node, "DescribeClientQuotas", lambda _message: reply)
    assert "limits are the cluster's: ask its brokers" in shell.complaint("quotas", "list", code=4)


def test_who_may_not_is_told_what_is_missing(shell: Shell, node: FakeNode) -> None:
    node.may_alter = False
    assert "limits need DESCRIBE_CONFIGS" in shell.complaint("quotas", "list", code=4)

"""`muster acls`: access rules by Kafka's requests."""

import csv

import pytest

from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    CreateAclsReply,
    DeleteAcls,
    DescribeAclsReply,
)
from protocol.messages.node import ErrorReply
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode

BOB = ("--allow", "User:bob")
TABLE = [
    "PRINCIPAL  PERMISSION  OPERATION         RESOURCE              PATTERN   HOST",
    "User:bob   ALLOW       READ              topic orders          LITERAL   *",
    "User:eve   DENY        ALL               topic orders          LITERAL   10.0.0.1",
    "User:bob   ALLOW       READ              group pay             LITERAL   *",
    "User:bob   ALLOW       DESCRIBE_CONFIGS  cluster               LITERAL   *",
    "User:bob   ALLOW       WRITE             transactional id tx-  PREFIXED  *",
]


@pytest.fixture
def ruled(shell: Shell) -> Shell:
    shell.run("acls", "create", *BOB, "--operation", "read", "--topic", "orders", "--group", "pay")
    shell.run("acls", "create", "--deny", "User:eve", "--operation", "ALL", "--topic", "orders", "--host", "10.0.0.1")
    shell.run("acls", "create", *BOB, "--operation", "write", "--transactional-id", "tx-", "--prefixed")
    shell.run("acls", "create", *BOB, "--operation", "DescribeConfigs", "--cluster")
    return shell


def test_a_rule_is_made_for_each_principal_operation_and_resource(shell: Shell, node: FakeNode) -> None:
    assert "no access rules yet" in shell.lines("acls", "list")[0]
    principals = (*BOB, "--allow", "User:*", "--deny", "User:eve")
    operations = ("--operation", "read", "--operation", "describe-configs")
    printed = shell.lines("acls", "create", *principals, *operations, "--topic", "a", "--topic", "b", "--prefixed")
    assert printed[0] == "Made 12 access rules."
    assert len(printed) == 14 and len(node.acls) == 12
    assert next(iter(node.acls)) == AclCreation(
        AclResourceType.TOPIC,
        "a",
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
        AclPatternType.PREFIXED,
    )


def test_rules_are_listed_in_a_table_json_and_csv(ruled: Shell) -> None:
    assert ruled.lines("acls", "list") == TABLE
    assert ruled.json("acls", "list")[1] == {
        "principal": "User:eve",
        "permission": "DENY",
        "operation": "ALL",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "host": "10.0.0.1",
    }
    rows = list(csv.reader(ruled.lines("acls", "list", "--csv")))
    assert rows[1] == ["User:bob", "ALLOW", "READ", "topic orders", "LITERAL", "*"]
    assert "say one of --csv and --json" in ruled.run("acls", "list", "--csv", "--json", code=2).stderr


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), (1, 2, 3, 4, 5)),
        (BOB, (1, 3, 4, 5)),
        (("--deny", "User:eve"), (2,)),
        (("--allow", "User:eve"), ()),
        (("--operation", "read", "--operation", "write"), (1, 3, 5)),
        (("--topic", "orders", "--group", "pay"), (1, 2, 3)),
        (("--topic", "orders", *BOB), (1,)),
        (("--topic", "orders", "--prefixed"), ()),
        (("--prefixed",), (5,)),
        (("--cluster",), (4,)),
        (("--transactional-id", "tx-"), ()),
        (("--host", "10.0.0.1"), (2,)),
    ],
)
def test_options_choose_which_rules_are_listed(ruled: Shell, options: tuple[str, ...], found: tuple[int, ...]) -> None:
    lines = [" ".join(line.split()) for line in ruled.lines("acls", "list", *options)]
    assert lines == ([" ".join(TABLE[one].split()) for one in (0, *found)] if found else ["No access rule matches."])


def test_one_rule_is_deleted_without_a_question(ruled: Shell, node: FakeNode) -> None:
    printed = ruled.lines("acls", "delete", "--deny", "User:eve")
    assert printed[0] == "Deleted 1 access rule." and "10.0.0.1" in printed[2]
    assert len(node.acls) == 4
    assert "no access rule matches" in ruled.complaint("acls", "delete", "--deny", "User:eve", code=3)


def test_several_rules_are_deleted_after_a_question(ruled: Shell, node: FakeNode) -> None:
    shown = ruled.run("acls", "delete", *BOB, typed="n\n", code=1).stdout
    assert "Delete these 4 access rules?" in shown and "group pay" in shown and len(node.acls) == 5
    assert "Deleted 4 access rules." in ruled.run("acls", "delete", *BOB, typed="y\n").stdout
    assert len(node.acls) == 1
    ruled.run("acls", "create", *BOB, "--operation", "read", "--topic", "a", "--topic", "b")
    assert ruled.lines("acls", "delete", *BOB, "--yes")[0] == "Deleted 2 access rules."


def test_a_rule_that_came_after_the_question_is_not_deleted(
    ruled: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = node.DeleteAcls
    late = AclCreation(AclResourceType.TOPIC, "late", "User:bob", "*", AclOperation.READ, AclPermission.ALLOW)

    def delayed(message: DeleteAcls) -> object:
        node.acls[late] = None
        return delete(message)

    monkeypatch.setattr(node, "DeleteAcls", delayed)
    ruled.run("acls", "delete", *BOB, "--yes")
    assert late in node.acls


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("create", "--operation", "read", "--topic", "a"), "needs --allow or --deny"),
        (("create", *BOB, "--topic", "a"), "needs --operation"),
        (("create", *BOB, "--operation", "read"), "needs --topic, --group, --transactional-id or --cluster"),
        (("create", "--allow", "bob", "--operation", "read", "--topic", "a"), "'bob' is no principal"),
        (("create", *BOB, "--operation", "commit", "--topic", "a"), "'commit' is no operation: say one of all, read"),
        (("create", *BOB, "--operation", "any", "--topic", "a"), "'any' is no operation"),
        (("create", *BOB, "--operation", "write", "--group", "a"), "write is no operation on a group: say one of read"),
        (("create", *BOB, "--operation", "alter", "--cluster", "--prefixed"), "cannot both be meant"),
        (("delete",), "say which rules"),
    ],
)
def test_what_cannot_be_a_rule_is_said_in_a_sentence(
    shell: Shell, node: FakeNode, arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in " ".join(shell.complaint("acls", *arguments, code=2).split())
    assert node.questions == 0


def test_what_the_server_refuses_is_said_in_its_words(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (AclCreationResult(), AclCreationResult(ErrorCode.INVALID_REQUEST, "Host should not be empty"))
    monkeypatch.setattr(node, "CreateAcls", lambda _message: CreateAclsReply(made))
    said = shell.complaint("acls", "create", *BOB, "--operation", "read", "--topic", "a", "--topic", "b", code=4)
    assert said == "muster: 1 of 2 access rules made: Host should not be empty\n"


@pytest.mark.parametrize(
    "reply",
    [DescribeAclsReply(ErrorCode.SECURITY_DISABLED, "no"), ErrorReply(ErrorCode.SECURITY_DISABLED, "no")],
)
def test_a_server_without_rules_is_named(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch, reply: object
) -> None:
    monkeypatch.setattr(node, "DescribeAcls", lambda _message: reply)
    assert "authorizer.class.name" in shell.complaint("acls", "list", code=4)


def test_who_may_not_is_told_what_is_missing(shell: Shell, node: FakeNode) -> None:
    node.may_alter = False
    assert "rules are for those who may DESCRIBE, and ALTER" in shell.complaint("acls", "list", code=4)


def test_a_server_that_is_not_reached_has_its_exit_code(shell: Shell, node: FakeNode) -> None:
    node.reachable = False
    shell.complaint("acls", "list", code=5)

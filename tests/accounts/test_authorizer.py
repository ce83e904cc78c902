"""Decisions of the authorizer: those of Kafka's StandardAuthorizer, rule by rule."""

from itertools import product

import pytest

from coordinator.accounts.acls import Acl, AclFilter, problem_of
from coordinator.accounts.authorizer import Authorizer
from coordinator.accounts.permission import CLUSTER, GROUP, TOPIC, Permission, authorized_operations
from protocol.errors import ErrorCode
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

LITERAL, PREFIXED = AclPatternType.LITERAL, AclPatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
READ, WRITE, DESCRIBE, ALTER, DELETE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALTER,
    AclOperation.DELETE,
    AclOperation.ALL,
)
CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
ALICE, HERE = "User:alice", "10.0.0.1"


def acl(  # one binding on a group, for alice from anywhere unless said otherwise
    operation: AclOperation,
    permission: AclPermission = ALLOW,
    name: str = "pay",
    pattern: AclPatternType = LITERAL,
    principal: str = ALICE,
    host: str = "*",
    kind: AclResourceType = AclResourceType.GROUP,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, **settings: bool) -> Authorizer:
    made = Authorizer(super_users=frozenset({"User:root"}), **settings)
    for one in acls:
        made.add(one)
    return made


@pytest.mark.parametrize(
    ("acls", "operation", "is_permitted"),
    [
        ((), READ, False),
        ((acl(READ),), READ, True),
        ((acl(ALL),), READ, True),
        ((acl(WRITE),), READ, False),
        ((acl(READ, name="other"),), READ, False),
        ((acl(READ, name="*"),), READ, True),
        ((acl(READ, name="p", pattern=PREFIXED),), READ, True),
        ((acl(READ, name="pay", pattern=PREFIXED),), READ, True),
        ((acl(READ, name="payment", pattern=PREFIXED),), READ, False),
        ((acl(READ, name="*", pattern=PREFIXED),), READ, False),
        ((acl(READ, principal="User:*"),), READ, True),
        ((acl(READ, principal="User:bob"),), READ, False),
        ((acl(READ, host=HERE),), READ, True),
        ((acl(READ, host="10.0.0.2"),), READ, False),
        ((acl(READ), acl(READ, DENY)), READ, False),
        ((acl(READ), acl(READ, DENY, name="p", pattern=PREFIXED)), READ, False),
        ((acl(READ), acl(READ, DENY, name="*")), READ, False),
        ((acl(READ), acl(ALL, DENY)), READ, False),
        ((acl(READ), acl(READ, DENY, host="10.0.0.2")), READ, True),
        ((acl(READ), acl(READ, DENY, principal="User:bob")), READ, True),
        ((acl(READ), acl(WRITE, DENY)), READ, True),
        ((acl(READ),), DESCRIBE, True),
        ((acl(WRITE),), DESCRIBE, True),
        ((acl(DELETE),), DESCRIBE, True),
        ((acl(ALTER),), DESCRIBE, True),
        ((acl(ALTER_CONFIGS),), DESCRIBE, False),
        ((acl(ALTER_CONFIGS),), CONFIGS, True),
        ((acl(DESCRIBE),), READ, False),
        ((acl(DESCRIBE), acl(READ, DENY)), DESCRIBE, True),  # a denial implies nothing
        ((acl(READ), acl(DESCRIBE, DENY)), DESCRIBE, False),
    ],
)
def test_a_decision(acls: tuple[Acl, ...], operation: AclOperation, is_permitted: bool) -> None:
    view = authorizer(*acls).of(ALICE, HERE)
    assert view.permits(GROUP, "pay", operation) is is_permitted
    assert view.permits(GROUP, "pay", operation) is is_permitted, "remembered"


def test_bindings_on_another_type_of_resource_say_nothing() -> None:
    view = authorizer(acl(ALL)).of(ALICE, HERE)
    assert not view.permits(TOPIC, "pay", READ)
    assert not view.permits(CLUSTER, "", DESCRIBE)


def test_super_users_may_do_everything_whatever_is_denied() -> None:
    view = authorizer(acl(ALL, DENY, principal="User:*")).of("User:root", HERE)
    assert view.permits(GROUP, "pay", READ)


def test_without_a_binding_on_the_resource_everybody_may_if_the_key_says_so() -> None:
    made = authorizer(acl(WRITE, principal="User:bob"), allow_if_no_acl=True)
    assert made.of(ALICE, HERE).permits(GROUP, "other", READ)
    assert not made.of(ALICE, HERE).permits(GROUP, "pay", READ)


def test_without_an_authorizer_everybody_may() -> None:
    assert authorizer(is_on=False).of("User:ANONYMOUS", HERE).permits(CLUSTER, "", ALTER)


def test_a_binding_that_comes_or_goes_is_in_force_for_those_who_are_connected() -> None:
    made = authorizer()
    view = made.of(ALICE, HERE)
    assert not view.permits(GROUP, "pay", READ)
    for pattern in (LITERAL, PREFIXED):
        made.add(acl(READ, pattern=pattern))
        assert view.permits(GROUP, "pay", READ)
        made.remove(acl(READ, pattern=pattern))
        assert not view.permits(GROUP, "pay", READ)
    made.remove(acl(READ))
    assert not made.acls


def test_connections_of_a_principal_at_a_host_share_their_decisions() -> None:
    made = authorizer()
    view = made.of(ALICE, HERE)
    assert made.of(ALICE, HERE) is view
    assert made.of(ALICE, "10.0.0.2") is not view


def test_names_that_clients_choose_fill_no_memory() -> None:
    view = authorizer(acl(READ)).of(ALICE, HERE)
    for number in range(1_000):
        assert not view.permits(GROUP, f"{number}" + "x" * 100_000, READ)
    assert sum(len(name) for _, name, _ in view.known) < 5 << 20
    assert view.permits(GROUP, "pay", READ)


def test_the_index_decides_as_a_search_through_all_bindings_does() -> None:
    names, patterns = ("pay", "p", "*", "payment"), (LITERAL, PREFIXED)
    acls = [
        acl(operation, permission, name, pattern, principal)
        for name, pattern, permission, principal, operation in product(
            names, patterns, (ALLOW, DENY), (ALICE, "User:*"), (READ, ALL)
        )
    ]
    for number in range(0, 2 ** len(acls), 2 ** len(acls) // 200 + 1):
        chosen = [one for place, one in enumerate(acls) if number >> place & 1]
        view = authorizer(*chosen).of(ALICE, HERE)
        for name in ("pay", "payment", "p", "other"):
            matching = [
                one
                for one in chosen
                if (one.pattern_type == PREFIXED and name.startswith(one.name))
                or (one.pattern_type == LITERAL and one.name in (name, "*"))
            ]
            wanted = bool(matching) and all(one.permission == ALLOW for one in matching)
            assert view.permits(GROUP, name, READ) is wanted, (number, name)


TOPIC_ALLOW = acl(WRITE, name="orders", kind=AclResourceType.TOPIC)


@pytest.mark.parametrize(
    ("acls", "is_permitted"),
    [
        ((), False),
        ((TOPIC_ALLOW,), True),
        ((acl(READ, name="orders", kind=AclResourceType.TOPIC),), False),
        ((acl(WRITE, name="orders"),), False),
        ((TOPIC_ALLOW, TOPIC_ALLOW._replace(permission=DENY)), False),
        ((TOPIC_ALLOW, TOPIC_ALLOW._replace(permission=DENY, name="*")), False),
        ((TOPIC_ALLOW, TOPIC_ALLOW._replace(permission=DENY, name="ord", pattern_type=PREFIXED)), False),
        ((TOPIC_ALLOW, TOPIC_ALLOW._replace(permission=DENY, name="other")), True),
        ((TOPIC_ALLOW._replace(pattern_type=PREFIXED), TOPIC_ALLOW._replace(permission=DENY)), True),
        ((TOPIC_ALLOW._replace(name="*"), TOPIC_ALLOW._replace(permission=DENY)), True),
    ],
)
def test_an_operation_on_any_topic(acls: tuple[Acl, ...], is_permitted: bool) -> None:
    """KIP-679: producers with idempotence need WRITE on some topic."""
    assert authorizer(*acls).of(ALICE, HERE).permits_on_any_topic(WRITE) is is_permitted


def test_authorized_operations_are_the_bits_of_what_is_permitted() -> None:
    view = authorizer(acl(READ), acl(ALTER_CONFIGS)).of(ALICE, HERE)

    def code_of(permission: Permission) -> ErrorCode:
        name = permission.name
        assert isinstance(name, str)
        return ErrorCode.NONE if view.permits(permission.kind, name, permission.operation) else permission.denial

    every = tuple(AclOperation)[2:]
    bits = authorized_operations(GROUP, "pay", every, code_of)
    assert bits == sum(1 << one for one in (READ, DESCRIBE, CONFIGS, ALTER_CONFIGS))


PREFIX = acl(READ, name="pay", pattern=PREFIXED)


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        (AclFilter(), {acl(READ), PREFIX, acl(READ, name="*")}),
        (AclFilter(name="pay"), {acl(READ), PREFIX}),
        (AclFilter(name="pay", pattern_type=LITERAL), {acl(READ)}),
        (AclFilter(name="pay", pattern_type=PREFIXED), {PREFIX}),
        (AclFilter(name="payment", pattern_type=AclPatternType.MATCH), {PREFIX, acl(READ, name="*")}),
        (AclFilter(name="pay", pattern_type=AclPatternType.MATCH), {acl(READ), PREFIX, acl(READ, name="*")}),
        (AclFilter(resource_type=AclResourceType.TOPIC), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host=HERE), set()),
        (AclFilter(operation=WRITE), set()),
        (AclFilter(permission=DENY), set()),
    ],
)
def test_a_filter(condition: AclFilter, matching: set[Acl]) -> None:
    assert {one for one in (acl(READ), PREFIX, acl(READ, name="*")) if condition.matches(one)} == matching


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"resource_type": AclResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": AclPatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission": AclPermission.ANY}, "Invalid permissionType ANY"),
        ({"name": ""}, "Resource name should not be empty"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
        ({"host": ""}, "Host should not be empty"),
        ({"resource_type": AclResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"name": "x" * 9_000}, "more than 8000 characters"),
    ],
)
def test_a_binding_that_makes_no_sense_is_refused(changed: dict[str, int | str], sentence: str) -> None:
    assert sentence in (problem_of(acl(READ)._replace(**changed)) or "")  # type: ignore[arg-type]
    assert problem_of(acl(READ)) is None

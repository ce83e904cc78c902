"""Questions about permissions, and what their answers mean."""

import pytest

from coordinator.accounts.permission import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Permission
from coordinator.accounts.requests import GROUP_REQUESTS
from coordinator.gateway.permissions import NAMES_PER_QUERY, PermissionCache, permission_queries
from coordinator.gateway.session.apis import CONFIG_APIS, LOCAL_APIS, SERVER_DRIVEN_APIS, TRANSACTION_APIS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.configs import (
    AlteredConfigs,
    DescribeConfigsReply,
    DescribedConfigs,
    IncrementalAlterConfigsReply,
)
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopicReply
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply
from tests.upstream.guarded import ALTER_CONFIGS, CONFIGS, DELETE, DESCRIBE, READ

REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PERMITTED = (
    ErrorCode.NONE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
NOT_TOLD = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode(999))


def verdict(need: Permission, reply: Message) -> ErrorCode | None:
    (query,) = permission_queries([need])
    return query.read(query.permissions, reply)[need]


def test_names_that_clients_choose_fill_no_memory() -> None:
    cache = PermissionCache()
    for number in range(200):
        cache.learn({Permission(GROUP, f"{number}" + "x" * 30_000, READ): ErrorCode.NONE}, 0)
        cache.trim()
    assert sum(len(one.name) for one in cache._known) <= 1 << 20
    kept = Permission(GROUP, "pay", READ)
    for now_ms in range(1_000):
        cache.learn({kept: ErrorCode.NONE}, now_ms)
        cache.trim()
        assert cache.knows([kept])


def test_every_request_about_groups_that_is_answered_here_is_guarded() -> None:
    assert {*LOCAL_APIS, *SERVER_DRIVEN_APIS, *TRANSACTION_APIS, *CONFIG_APIS} == GROUP_REQUESTS


@pytest.mark.parametrize(
    ("code", "expected"),
    [*((code, ErrorCode.NONE) for code in PERMITTED), (REFUSED, REFUSED), *((code, None) for code in NOT_TOLD)],
)
def test_a_broker_authorizes_before_it_looks_for_the_coordinator(code: ErrorCode, expected: ErrorCode | None) -> None:
    assert verdict(Permission(GROUP, "g", READ), HeartbeatReply(code)) == expected
    assert verdict(Permission(GROUP, "g", DELETE), OffsetDeleteReply(code)) == expected
    assert verdict(Permission(GROUP, "g", DESCRIBE), DescribeGroupsReply((DescribedGroup("g", code),))) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (REFUSED, REFUSED),
        (ErrorCode.INVALID_REQUEST, REFUSED),
        (ErrorCode.UNSUPPORTED_VERSION, REFUSED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_brokers_without_settings_of_groups_permit_none(code: ErrorCode, expected: ErrorCode | None) -> None:
    assert (
        verdict(Permission(GROUP, "g", CONFIGS), DescribeConfigsReply((DescribedConfigs(32, "g", code),))) == expected
    )
    altered = IncrementalAlterConfigsReply((AlteredConfigs(32, "g", code),))
    assert verdict(Permission(GROUP, "g", ALTER_CONFIGS), altered) == expected


def test_what_an_answer_does_not_name_is_not_known() -> None:
    assert verdict(Permission(GROUP, "g", DESCRIBE), DescribeGroupsReply()) is None
    assert verdict(Permission(GROUP, "g", CONFIGS), DescribeConfigsReply()) is None
    assert verdict(Permission(TOPIC, "t", READ), MetadataReply()) is None


def test_topics_tell_their_operations() -> None:
    def of(bits: int, code: ErrorCode = ErrorCode.NONE, name: str | bytes = "t") -> ErrorCode | None:
        is_id = isinstance(name, bytes)
        topic = MetadataTopicReply(None if is_id else "t", b"i" * 16, code, topic_authorized_operations=bits)
        return verdict(Permission(TOPIC, name, READ), MetadataReply(topics=(topic,)))

    assert of(1 << READ) is ErrorCode.NONE
    assert of(1 << READ, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is ErrorCode.NONE
    assert of(1 << DESCRIBE) is TOPIC_REFUSED
    assert of(-(2**31)) is TOPIC_REFUSED, "not told"
    assert of(-(2**31), TOPIC_REFUSED) is TOPIC_REFUSED
    assert of(1 << READ, name=b"i" * 16) is ErrorCode.NONE
    assert of(-(2**31), ErrorCode.UNKNOWN_TOPIC_ID, b"i" * 16) is ErrorCode.UNKNOWN_TOPIC_ID


def test_the_cluster_tells_its_operations() -> None:
    need = Permission(CLUSTER, "", DESCRIBE)
    assert verdict(need, MetadataReply(cluster_authorized_operations=1 << DESCRIBE)) is ErrorCode.NONE
    for bits in (0, 1 << DELETE, -(2**31)):
        told = MetadataReply(cluster_authorized_operations=bits)
        assert verdict(need, told) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_queries_are_few_and_do_nothing() -> None:
    names = [f"g{number}" for number in range(NAMES_PER_QUERY + 1)]
    asked = list(permission_queries(Permission(GROUP, name, DESCRIBE) for name in names))
    assert [len(one.permissions) for one in asked] == [NAMES_PER_QUERY, 1]
    assert all(isinstance(one.message, DescribeGroups) and one.newest <= 5 for one in asked)
    both = list(
        permission_queries(
            [Permission(TOPIC, "a", READ), Permission(TOPIC, "a", DESCRIBE), Permission(TOPIC, b"i" * 16, READ)]
        )
    )
    assert [isinstance(one.message, Metadata) and len(one.message.topics or ()) for one in both] == [1, 1]
    assert [one.oldest for one in both] == [8, 12], "names and ids by themselves: brokers look at ids alone"
    (beat,), (delete,) = (list(permission_queries([Permission(GROUP, "g", one)])) for one in (READ, DELETE))
    assert isinstance(beat.message, Heartbeat)
    assert delete.message == OffsetDelete("g", ())


def test_what_was_never_answered_is_refused() -> None:
    permissions, need = PermissionCache(), Permission(GROUP, "g", READ)
    assert permissions.code(need) is REFUSED
    assert not permissions.knows([need])
    permissions.learn({need: None}, 0)
    assert not permissions.knows([need])
    permissions.learn({need: ErrorCode.NONE}, 0)
    permissions.learn({need: None}, 5)
    assert permissions.code(need) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NONE),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_the_use_of_a_transactional_id_is_asked_by_adding_offsets_of_no_producer(
    code: ErrorCode, expected: ErrorCode | None
) -> None:
    need = Permission(TRANSACTIONAL_ID, "x", AclOperation.WRITE)
    (query,) = permission_queries([need])
    assert query.message == AddOffsetsToTxn("x", -1, -1, "")
    assert verdict(need, AddOffsetsToTxnReply(code)) is expected

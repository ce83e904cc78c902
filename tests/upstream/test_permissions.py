"""Questions about permissions, and what their answers mean."""

import pytest

from coordinator.gateway.authorized_parts import GUARDED
from coordinator.gateway.permissions import CLUSTER, GROUP, NAMES_A_QUESTION, TOPIC, Need, Permissions, questions
from coordinator.gateway.session.apis import CONFIG_APIS, LOCAL_APIS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    AlteredConfigs,
    DescribeConfigsReply,
    DescribedConfigs,
    IncrementalAlterConfigsReply,
)
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopicReply
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


def verdict(need: Need, reply: Message) -> ErrorCode | None:
    (question,) = questions([need])
    return question.read(question.needs, reply)[need]


def test_every_request_about_groups_that_is_answered_here_is_guarded() -> None:
    assert set(LOCAL_APIS) | set(CONFIG_APIS) == GUARDED


@pytest.mark.parametrize(
    ("code", "expected"),
    [*((code, ErrorCode.NONE) for code in PERMITTED), (REFUSED, REFUSED), *((code, None) for code in NOT_TOLD)],
)
def test_a_broker_authorizes_before_it_looks_for_the_coordinator(code: ErrorCode, expected: ErrorCode | None) -> None:
    assert verdict(Need(GROUP, "g", READ), HeartbeatReply(code)) == expected
    assert verdict(Need(GROUP, "g", DELETE), OffsetDeleteReply(code)) == expected
    assert verdict(Need(GROUP, "g", DESCRIBE), DescribeGroupsReply((DescribedGroup("g", code),))) == expected


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
    assert verdict(Need(GROUP, "g", CONFIGS), DescribeConfigsReply((DescribedConfigs(32, "g", code),))) == expected
    altered = IncrementalAlterConfigsReply((AlteredConfigs(32, "g", code),))
    assert verdict(Need(GROUP, "g", ALTER_CONFIGS), altered) == expected


def test_what_an_answer_does_not_name_is_not_known() -> None:
    assert verdict(Need(GROUP, "g", DESCRIBE), DescribeGroupsReply()) is None
    assert verdict(Need(GROUP, "g", CONFIGS), DescribeConfigsReply()) is None
    assert verdict(Need(TOPIC, "t", READ), MetadataReply()) is None


def test_topics_tell_their_operations() -> None:
    def of(bits: int, code: ErrorCode = ErrorCode.NONE, name: str | bytes = "t") -> ErrorCode | None:
        is_id = isinstance(name, bytes)
        topic = MetadataTopicReply(None if is_id else "t", b"i" * 16, code, topic_authorized_operations=bits)
        return verdict(Need(TOPIC, name, READ), MetadataReply(topics=(topic,)))

    assert of(1 << READ) is ErrorCode.NONE
    assert of(1 << READ, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is ErrorCode.NONE
    assert of(1 << DESCRIBE) is TOPIC_REFUSED
    assert of(-(2**31)) is TOPIC_REFUSED, "not told"
    assert of(-(2**31), TOPIC_REFUSED) is TOPIC_REFUSED
    assert of(1 << READ, name=b"i" * 16) is ErrorCode.NONE
    assert of(-(2**31), ErrorCode.UNKNOWN_TOPIC_ID, b"i" * 16) is ErrorCode.UNKNOWN_TOPIC_ID


def test_the_cluster_tells_its_operations() -> None:
    need = Need(CLUSTER, "", DESCRIBE)
    assert verdict(need, MetadataReply(cluster_authorized_operations=1 << DESCRIBE)) is ErrorCode.NONE
    for bits in (0, 1 << DELETE, -(2**31)):
        told = MetadataReply(cluster_authorized_operations=bits)
        assert verdict(need, told) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_questions_are_few_and_do_nothing() -> None:
    names = [f"g{number}" for number in range(NAMES_A_QUESTION + 1)]
    asked = list(questions(Need(GROUP, name, DESCRIBE) for name in names))
    assert [len(one.needs) for one in asked] == [NAMES_A_QUESTION, 1]
    assert all(isinstance(one.message, DescribeGroups) and one.newest <= 5 for one in asked)
    both = list(questions([Need(TOPIC, "a", READ), Need(TOPIC, "a", DESCRIBE), Need(TOPIC, b"i" * 16, READ)]))
    assert [isinstance(one.message, Metadata) and len(one.message.topics or ()) for one in both] == [1, 1]
    assert [one.oldest for one in both] == [8, 12], "names and ids by themselves: brokers look at ids alone"
    (beat,), (delete,) = (list(questions([Need(GROUP, "g", one)])) for one in (READ, DELETE))
    assert isinstance(beat.message, Heartbeat)
    assert delete.message == OffsetDelete("g", ())


def test_what_was_never_answered_is_refused() -> None:
    permissions, need = Permissions(), Need(GROUP, "g", READ)
    assert permissions.code(need) is REFUSED
    assert not permissions.knows([need])
    permissions.learn({need: None}, 0)
    assert not permissions.knows([need])
    permissions.learn({need: ErrorCode.NONE}, 0)
    permissions.learn({need: None}, 5)
    assert permissions.code(need) is ErrorCode.NONE

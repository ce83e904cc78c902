"""Old versions of Kafka's protocol, read as if they were new; against our own server's codec."""

import pytest

from muster.net.dialects.kafka import KafkaClientSession
from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.session import KafkaDialect
from protocol.messages import Message
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
)
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import Metadata, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from tests.client.dialects.server import MAX_FRAME_BYTES, greeted


def asked(message: Message, version: int, reply: Message) -> Message:
    """Return what a client hears of `reply` when the server knows versions up to this one."""
    key = BY_MESSAGE[type(message)].key
    session: KafkaClientSession = greeted((key, 0, version))
    server = KafkaDialect(MAX_FRAME_BYTES, {api.message for api in WIRE_APIS.values()}).open()
    server.receive_data(session.encode_request(message)[1])
    request = server.next_request()
    assert request is not None
    (answer,) = session.receive_data(server.encode_reply(request[0], reply))
    return answer.reply  # type: ignore[union-attr]


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_of_the_group_that_was_asked_for(version: int) -> None:
    topic = OffsetFetchTopicReply("t", (OffsetFetchPartitionReply(0, 42),))
    reply = OffsetFetchReply((OffsetFetchGroupReply("g", (topic,)),))
    message = OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("t", (0,)),)),), require_stable=True)
    assert asked(message, version, reply) == reply


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_that_of_the_key_that_was_asked_for(version: int) -> None:
    found = FoundCoordinator("g", 3, "host", 9)
    (heard,) = asked(FindCoordinator(("g",)), version, FindCoordinatorReply((found,))).coordinators  # type: ignore[attr-defined]
    assert (heard.key, heard.node_id, heard.host, heard.port, heard.error_code) == ("g", 3, "host", 9, ErrorCode.NONE)
    assert not heard.error_message
    lost = FoundCoordinator("g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="none yet")
    (heard,) = asked(FindCoordinator(("g",)), version, FindCoordinatorReply((lost,))).coordinators  # type: ignore[attr-defined]
    assert (heard.key, heard.error_code) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert heard.error_message == ("none yet" if version else None)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_left_is_named(version: int, code: ErrorCode) -> None:
    reply = LeaveGroupReply(members=(LeftMember("m", None, code),))
    assert asked(LeaveGroup("g", (LeavingMember("m"),)), version, reply) == reply


@pytest.mark.parametrize("version", range(6))
def test_a_coordinator_that_refuses_the_whole_is_no_members_error(version: int) -> None:
    reply = LeaveGroupReply(ErrorCode.NOT_COORDINATOR)
    assert asked(LeaveGroup("g", (LeavingMember("m"),)), version, reply) == reply


@pytest.mark.parametrize("version", range(14))
def test_epochs_of_leaders_are_believed_from_version_9_on(version: int) -> None:
    parts = (MetadataPartitionReply(0, 1, leader_epoch=7),)
    reply = MetadataReply(topics=(MetadataTopicReply("t", partitions=parts),))
    heard = asked(Metadata(None), version, reply)
    assert isinstance(heard, MetadataReply)
    assert heard.topics[0].partitions[0].leader_epoch == (7 if version >= 9 else -1)


def test_the_versions_themselves_can_be_asked_for_too() -> None:
    session = greeted((18, 0, 4))
    server = KafkaDialect(MAX_FRAME_BYTES, {api.message for api in WIRE_APIS.values()}).open()
    server.receive_data(session.encode_request(ApiVersions("c", "1"))[1])
    assert server.next_request() is None
    (answer,) = session.receive_data(server.take_data())
    assert ApiVersion(12, 0, 4) in answer.reply.api_keys  # type: ignore[union-attr]

"""Facts about a version of an API: framing of replies, and replies that are adapted first."""

import pytest

from protocol.apis import WIRE_APIS
from protocol.kafka.version_codec import API_VERSIONS, VersionCodec
from protocol.messages.data import FetchPartitionReply, FetchReply, FetchTopicReply
from protocol.messages.groups import HeartbeatReply
from protocol.messages.node import ApiVersionsReply
from protocol.messages.offsets import OffsetFetchReply

PRODUCE, FETCH, COMMIT, OFFSET_FETCH, HEARTBEAT = 0, 1, 8, 9, 12


@pytest.mark.parametrize("version", [11, 12])
def test_a_reply_that_is_joined_once_is_as_its_pieces_say(version: int) -> None:
    records = bytes(range(256)) * 4096
    part = FetchPartitionReply(partition_index=0, high_watermark=7, last_stable_offset=7, records=records)
    frame = VersionCodec(WIRE_APIS[FETCH], version).frame(5, FetchReply(responses=(FetchTopicReply("t", (part,)),)))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:8] == (5).to_bytes(4, "big")
    assert records in frame


def test_a_heartbeats_ready_answers_are_what_its_writer_says() -> None:
    for version in range(5):
        codec = VersionCodec(WIRE_APIS[HEARTBEAT], version)
        assert codec.ready
        for error, ready in codec.ready.items():
            frame = codec.frame(3, HeartbeatReply(error))
            assert (len(frame) - 4, frame[8:]) == (codec.ready_size, ready)


def test_what_is_asked_before_versions_are_known_is_answered_without_tags() -> None:
    assert VersionCodec(WIRE_APIS[API_VERSIONS], 3).frame(3, ApiVersionsReply())[8:10] == b"\0\0"


def test_replies_that_versions_change_are_looked_at_and_others_are_not() -> None:
    assert VersionCodec(WIRE_APIS[OFFSET_FETCH], 1).plain is None
    assert VersionCodec(WIRE_APIS[OFFSET_FETCH], 2).plain is OffsetFetchReply
    assert VersionCodec(WIRE_APIS[PRODUCE], 9).plain is None
    assert VersionCodec(WIRE_APIS[COMMIT], 9).plain is None
    assert VersionCodec(WIRE_APIS[FETCH], 12).plain is FetchReply

"""Commits that a session recognizes as its last one with other offsets, in every version."""

import tracemalloc
from random import Random
from struct import unpack_from
from typing import Any

import pytest
from msgspec.structs import replace

from protocol.apis import BY_MESSAGE
from protocol.kafka.client import encode_request
from protocol.kafka.fields import FieldGroup, Inline, Many, Maybe, Nested
from protocol.kafka.positions import positions
from protocol.kafka.repeats import layout_of
from protocol.kafka.session import KafkaDialect, KafkaSession
from protocol.kafka.source import present
from protocol.kafka.version_codec import VersionCodec
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import ApiVersions
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
)
from protocol.session import RepeatedCommit
from tests.protocol.kafka.samples import CASES, Case, Chosen, Filled, sample
from tests.protocol.kafka.sessions import EVERYTHING, FRAME_BYTES

_API = BY_MESSAGE[OffsetCommit]
VERSIONS = range(_API.request.oldest, _API.request.newest + 1)
CLIENT = "client"
BODY_AT = 14 + len(CLIENT)


def body_at(codec: VersionCodec) -> int:
    return BODY_AT + (1 if codec.is_flexible else 0)


def opened(*, knows: bool = True) -> KafkaSession:
    return KafkaDialect(FRAME_BYTES, EVERYTHING, knows_repeated_commits=knows).open()


def heard(session: KafkaSession, frame: bytes) -> Any:
    """The request in the frame; it is answered at once."""
    session.receive_data(frame)
    request = session.next_request()
    assert request is not None
    session.encode_reply(request[0], OffsetCommitReply())
    return request[1]


def with_offsets(message: OffsetCommit, random: Random) -> OffsetCommit:
    topics = [
        replace(
            topic,
            partitions=tuple(
                replace(part, committed_offset=random.randrange(-(2**63), 2**63)) for part in topic.partitions
            ),
        )
        for topic in message.topics
    ]
    return replace(message, topics=tuple(topics))


def offsets_of(message: OffsetCommit) -> tuple[int, ...]:
    return tuple(part.committed_offset for topic in message.topics for part in topic.partitions)


def drawn(version: int, random: Random) -> OffsetCommit:
    message: Any = sample(Case(_API, version, _API.request), Chosen(random))
    return message  # type: ignore[no-any-return]


def wide_fields(group: FieldGroup, version: int, value: Any) -> list[tuple[str, int]]:
    """Names and values of all fields of eight bytes, in the order of the wire."""
    found: list[tuple[str, int]] = []
    for row in present(group, version):
        kind = row.type
        inner = kind.item if isinstance(kind, Many) else kind
        if row.tag is not None or not row.name:
            continue
        given = getattr(value, row.name)
        if isinstance(inner, Inline | Maybe | Nested):
            inner = inner.group
        if isinstance(inner, FieldGroup):
            many = given if isinstance(given, tuple) else () if given is None else (given,)
            for one in many:
                found += wide_fields(inner, version, one)
        elif getattr(inner, "code", "") == "q" and not isinstance(kind, Many) and not row.read_as:
            found.append((row.name, given))
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case.is_request], ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_positions_are_where_a_reader_finds_the_values(case: Case, nulls: bool) -> None:
    message = sample(case, Filled(entries=0 if nulls else 2, nulls=nulls))
    codec = VersionCodec(case.api, case.version)
    frame = encode_request(message, case.version, 9, CLIENT)
    wide = wide_fields(case.schema.group, case.version, message)
    for name in {name for name, _ in wide}:
        places = positions(case.schema, case.version, frame, body_at(codec), name)
        assert [unpack_from(">q", frame, at)[0] for at in places] == [value for one, value in wide if one == name]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_layout_gives_the_offsets_and_refuses_every_other_change(version: int) -> None:
    random, codec = Random(version), VersionCodec(_API, version)
    for _ in range(40):
        first = drawn(version, random)
        frame = encode_request(first, version, 9, CLIENT)
        layout = layout_of(codec, frame, body_at(codec))
        assert layout.offsets(frame) == offsets_of(first)
        second = with_offsets(first, random)
        again = encode_request(second, version, 10, CLIENT)
        assert layout.offsets(again) == offsets_of(second)
        of_offsets = {
            at + byte
            for at in positions(codec.api.request, version, frame, body_at(codec), "committed_offset")
            for byte in range(8)
        }
        for at in {random.randrange(12, len(again)) for _ in range(20)} - of_offsets:
            broken = bytearray(again)
            broken[at] ^= 1 << random.randrange(8)
            assert layout.offsets(bytes(broken)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_recognizes_the_third_commit_of_a_kind(version: int) -> None:
    random = Random(version)
    for _ in range(30):
        first = drawn(version, random)
        session, plain = opened(), opened(knows=False)
        said = [with_offsets(first, random) for _ in range(6)]
        frames = [encode_request(message, version, number, CLIENT) for number, message in enumerate(said)]
        got = [heard(session, frame) for frame in frames]
        read = [heard(plain, frame) for frame in frames]
        assert [type(one) for one in got] == [OffsetCommit] * 2 + [RepeatedCommit] * 4 or len(frames[0]) > 1_024
        assert len({id(one.first) for one in got if isinstance(one, RepeatedCommit)}) <= 1
        assert [one.whole() if isinstance(one, RepeatedCommit) else one for one in got] == read


def test_what_is_not_the_same_is_read_and_learned_anew() -> None:
    def commit(topic: str, offset: int, text: str = "") -> bytes:
        part = OffsetCommitPartition(3, offset, -1, text)
        return encode_request(OffsetCommit("g", (OffsetCommitTopic(topic, (part,)),), 1, "m"), 7, 1, CLIENT)

    session = opened()
    frames = [commit("a", 1), commit("a", 2), commit("a", 3), commit("b", 4), commit("b", 5), commit("b", 6)]
    kinds = [type(heard(session, frame)) for frame in frames]
    assert kinds == [OffsetCommit, OffsetCommit, RepeatedCommit, OffsetCommit, OffsetCommit, RepeatedCommit]
    # Texts that differ each time, of one length: every frame is read.
    assert {type(heard(session, commit("b", 9, f"{number:04}"))) for number in range(9)} == {OffsetCommit}


def test_the_reply_to_a_repeated_commit_is_that_to_any_other() -> None:
    reply = OffsetCommitReply((OffsetCommitTopicReply("a", ()),))
    commit = OffsetCommit("g", (OffsetCommitTopic("a", (OffsetCommitPartition(0, 5),)),), 1, "m")
    answers = []
    for knows in (False, True):
        session = opened(knows=knows)
        for number in range(4):
            session.receive_data(encode_request(commit, 8, number, CLIENT))
            request = session.next_request()
            assert request is not None
            answers.append(session.encode_reply(request[0], reply))
    assert answers[:4] == answers[4:]


def test_large_commits_and_other_dialects_are_not_kept() -> None:
    parts = tuple([OffsetCommitPartition(index, index) for index in range(200)])
    frame = encode_request(OffsetCommit("g", (OffsetCommitTopic("a", parts),), 1, "m"), 7, 1, CLIENT)
    session, plain = opened(), opened(knows=False)
    assert {type(heard(session, frame)) for _ in range(4)} == {OffsetCommit}
    assert {type(heard(plain, frame[:])) for _ in range(4)} == {OffsetCommit}


def test_a_large_commit_is_not_kept_with_its_connection() -> None:
    parts = tuple([OffsetCommitPartition(index, index) for index in range(20_000)])
    frame = encode_request(OffsetCommit("g", (OffsetCommitTopic("a", parts),), 1, "m"), 7, 1, CLIENT)
    session = opened()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        heard(session, frame[:])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept - before < 100_000, "an idle connection keeps some KiB"


def test_a_commit_is_read_again_when_its_client_has_named_itself_otherwise() -> None:
    commit = OffsetCommit("g", (OffsetCommitTopic("a", (OffsetCommitPartition(0, 5),)),), 1, "m")
    frame = encode_request(commit, 7, 1, CLIENT)
    beat = encode_request(Heartbeat("g", 1, "m"), 4, 1, "another")
    for between in (beat, encode_request(ApiVersions("app", "2.0"), 3, 1, CLIENT)):
        session = opened()
        assert type([heard(session, frame) for _ in range(3)][-1]) is RepeatedCommit
        session.receive_data(between)
        if (request := session.next_request()) is not None:
            session.encode_reply(request[0], HeartbeatReply())
        assert type(heard(session, frame)) is OffsetCommit
        assert session.client_id == CLIENT

"""A broker that answers nonsense, and a client that asks it: whatever the bytes, a sentence and a closed connection, or
something that the client can make of it what it likes; never another exception."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.gateway.session.replies import reply_rewriter
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.node import DescribeClusterReply, DescribedBroker, FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import MetadataBroker, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from tests.enumerations import share_of
from tests.upstream.session.frames import HERE, opened, requests_of, told

REPLIES: list[tuple[int, int, Message]] = [
    *(
        (
            3,
            version,
            MetadataReply(
                (MetadataBroker(1, "hidden", 9092, "r"),),
                "c",
                1,
                (MetadataTopicReply("t", b"i" * 16, ErrorCode.NONE, False, (MetadataPartitionReply(0, 1),)),),
            ),
        )
        for version in range(14)
    ),
    *((10, version, FindCoordinatorReply((FoundCoordinator("tx", 1, "hidden", 9092),))) for version in range(7)),
    *((60, version, DescribeClusterReply("c", 1, (DescribedBroker(1, "hidden", 9092),))) for version in range(3)),
]


@settings(max_examples=share_of(1_500), deadline=None)
@given(st.sampled_from(REPLIES), st.lists(st.tuples(st.integers(8, 300), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_bent_answer_is_rewritten_or_refused(reply: tuple[int, int, Message], bends: list[tuple[int, int]]) -> None:
    key, version, message = reply
    frame = bytearray(told(key, version, 7, message))
    for at, byte in bends:
        frame[8 + at % (len(frame) - 8)] = byte
    with suppress(ProtocolViolation):
        out, _said = reply_rewriter(key, version).rewrite(bytes(frame), 7, HERE)
        assert out[4:8] == (7).to_bytes(4, "big")
        assert int.from_bytes(out[:4], "big") == len(out) - 4


@settings(max_examples=share_of(1_000), deadline=None)
@given(
    st.lists(
        st.binary(max_size=60) | st.binary(max_size=20).map(lambda body: len(body).to_bytes(4, "big") + body),
        max_size=6,
    )
)
def test_a_client_that_sends_anything_is_heard_or_refused(pieces: list[bytes]) -> None:
    session = opened()
    with suppress(ProtocolViolation):
        for piece in pieces:
            session.receive_data(piece)
            requests_of(session)
            session.take_data()
    assert session.buffered_bytes <= sum(map(len, pieces))


@settings(max_examples=share_of(1_000), deadline=None)
@given(
    st.sampled_from([(0, 3), (0, 9), (1, 12), (3, 9), (10, 0), (10, 4), (12, 4), (17, 1), (18, 3), (36, 2), (60, 0)]),
    st.binary(max_size=40),
    st.integers(-2, 40),
    st.lists(st.binary(max_size=40), max_size=4),
)
def test_a_header_with_anything_behind_it_is_heard_or_refused(
    api: tuple[int, int], body: bytes, name_size: int, answers: list[bytes]
) -> None:
    session = opened()
    key, version = api
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + name_size.to_bytes(2, "big", signed=True)
    with suppress(ProtocolViolation):
        session.receive_data((len(head) + len(body)).to_bytes(4, "big") + head + body)
        requests_of(session)
        for answer in answers:
            session.receive_upstream(answer)
            requests_of(session)
    assert session.unanswered in (0, 1)

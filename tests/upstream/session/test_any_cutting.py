"""Both byte streams cut anywhere, with slow parties: order and bytes stay the same. The oracle never sees a piece: it
is a list of requests with the reply to each."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.gateway.session import session
from coordinator.gateway.session.byte_queue import FRAGMENT_BYTES, ByteQueue
from protocol.apis import WIRE_APIS
from protocol.kafka.client import encode_request
from protocol.kafka.version_codec import VersionCodec
from protocol.messages.groups import HeartbeatReply
from protocol.messages.node import ApiVersions, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import Metadata
from tests.enumerations import share_of
from tests.upstream.session.frames import (
    BEAT,
    FETCH,
    HERE,
    LIST_OFFSETS,
    METADATA,
    TOPOLOGY,
    answer,
    at_our_addresses,
    frames_in,
    number_of,
    opened,
    produce,
    raw,
    told,
)


@dataclass
class Exchange:
    """A request, the broker's answer if it goes there, and what the client is to see."""

    request: bytes
    brokers: bytes | None
    seen: bytes | None


def through(number: int, body: bytes, said: bytes) -> Exchange:
    return Exchange(
        raw(FETCH if number % 2 else LIST_OFFSETS, 5, number, body), answer(number, said), answer(number, said)
    )


def unanswered(number: int, body: bytes, said: bytes) -> Exchange:
    return Exchange(produce(number, 0, records=body), b"", b"")


def produced(number: int, body: bytes, said: bytes) -> Exchange:
    return Exchange(produce(number, -1, records=body), answer(number, said), answer(number, said))


def ours(number: int, body: bytes, said: bytes) -> Exchange:
    return Exchange(
        encode_request(BEAT, 4, number, "c"), None, VersionCodec(WIRE_APIS[12], 4).frame(number, HeartbeatReply())
    )


def versions(number: int, body: bytes, said: bytes) -> Exchange:
    asked = opened()
    request = encode_request(ApiVersions("c", "1"), 3, number, "c")
    asked.receive_data(request)
    assert asked.next_request() is None
    return Exchange(request, None, asked.take_data())


def topology(number: int, body: bytes, said: bytes) -> Exchange:
    reply = told(METADATA, 9, number, TOPOLOGY)
    return Exchange(encode_request(Metadata(), 9, number, "c"), reply, at_our_addresses(9, number, TOPOLOGY))


def transactions(number: int, body: bytes, said: bytes) -> Exchange:
    found = FindCoordinatorReply((FoundCoordinator("tx", 2, "hidden-2", 9092),))
    seen = FindCoordinatorReply((FoundCoordinator("tx", 2, *HERE[2]),))
    request = encode_request(FindCoordinator(("tx",), 1), 4, number, "c")
    return Exchange(request, told(10, 4, number, found), told(10, 4, number, seen))


KINDS = st.sampled_from([through, unanswered, produced, ours, versions, topology, transactions])
BODIES = st.integers(0, 300).map(bytes) | st.integers(0, 9_000).map(bytes)


@st.composite
def conversations(draw: st.DrawFn) -> list[Exchange]:
    asked = draw(st.lists(st.tuples(KINDS, BODIES, BODIES), min_size=1, max_size=9))
    return [kind(number, body, said) for number, (kind, body, said) in enumerate(asked)]


@st.composite
def cuttings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 14, 60, 200, 4_096, 20_000]), min_size=1, max_size=12))
    ends = [0, *accumulate(sizes * (len(data) // sum(sizes) + 1)), len(data)]
    return [data[low:high] for low, high in pairwise(sorted(min(end, len(data)) for end in ends)) if low < high]


class Run:
    """A client, a broker and a node around one session, each of which may be slow."""

    def __init__(self, conversation: list[Exchange], pieces: list[bytes]) -> None:
        self.session = opened()
        self.conversation = {number_of(one.request): one for one in conversation}
        self.pieces = pieces[::-1]
        self.at_broker = b""
        self.answers = b""
        self.seen: list[bytes] = []
        self.got = b""
        self.allowed = 0
        """Bytes of the broker's next ones that may be spliced to the client."""
        self.parked: list[int] = []

    def pull(self) -> None:
        """Do everything that follows from an event, as a node does."""
        while (request := self.session.next_request()) is not None:
            self.parked.append(request[0])
        assert len(self.parked) <= 1
        self.seen.append(self.session.take_data())
        self.at_broker += b"".join(self.session.take_forward())
        self.allowed = self.session.take_splice() or self.allowed

    def client_sends(self, _size: int) -> None:
        if self.pieces and not self.session.is_behind:
            self.session.receive_data(self.pieces.pop())
            self.pull()

    def broker_reads(self, _size: int) -> None:
        *frames, self.at_broker = frames_in(self.at_broker)
        for frame in frames:
            asked = self.conversation[number_of(frame)]
            assert asked.brokers is not None
            assert frame == asked.request
            self.got += frame
            self.answers += asked.brokers

    def broker_sends(self, size: int) -> None:
        piece, self.answers = self.answers[:size], self.answers[size:]
        if piece:
            self.allowed = 0
            self.seen += self.session.receive_upstream(piece)
            self.pull()

    def broker_passes(self, size: int) -> None:
        size = min(size, self.allowed)
        piece, self.answers = self.answers[:size], self.answers[size:]
        if piece:
            self.allowed -= len(piece)
            self.seen.append(piece)
            if self.session.spliced(len(piece)):
                self.pull()

    def node_answers(self, _size: int) -> None:
        if self.parked:
            self.seen.append(self.session.encode_reply(self.parked.pop(), HeartbeatReply()))
            self.pull()


@settings(max_examples=share_of(200), deadline=None)
@given(st.data())
def test_any_cutting_gives_the_same_order_and_the_same_bytes(data: st.DataObject) -> None:
    conversation = data.draw(conversations())
    pieces = data.draw(cuttings(b"".join(one.request for one in conversation)))
    run = Run(conversation, pieces)
    steps = (run.client_sends, run.broker_reads, run.broker_sends, run.node_answers, run.broker_passes)
    plan = data.draw(st.lists(st.tuples(st.sampled_from(range(5)), st.sampled_from([1, 5, 100, 70_000])), max_size=60))
    expected = b"".join(one.seen or b"" for one in conversation)
    with patch.object(session, "SPLICE_MIN_BYTES", data.draw(st.sampled_from([1, 100, 5_000]))):
        for which, size in plan:
            steps[which](size)
            assert expected.startswith(b"".join(run.seen))
        for _ in range(len(pieces) + 4 * len(conversation)):
            for step in steps:
                step(1 << 20)
    assert b"".join(run.seen) == expected
    assert run.got == b"".join(one.request for one in conversation if one.brokers is not None)
    assert run.session.buffered_bytes == 0
    assert not run.session.awaits_broker


@settings(max_examples=share_of(60), deadline=None)
@given(st.data())
def test_an_inbox_gives_what_was_put_in(data: st.DataObject) -> None:
    whole = bytes(data.draw(st.integers(0, 255)) for _ in range(8)) * data.draw(st.integers(0, 1_500))
    inbox, out, put = ByteQueue(), b"", 0
    for piece in data.draw(cuttings(whole)) if whole else ():
        inbox.add(piece)
        put += len(piece)
        assert inbox.size == put - len(out)
        wanted = data.draw(st.integers(0, inbox.size))
        assert inbox.peek(wanted) == whole[len(out) : len(out) + wanted]
        if wanted:
            out += inbox.take(wanted) if data.draw(st.booleans()) else inbox.take_whole(wanted)
    if inbox.size:
        out += inbox.take_whole(inbox.size)
    assert out == whole


def test_what_is_taken_whole_ends_anywhere() -> None:
    for count in range(1, 31):
        inbox = ByteQueue()
        for number in range(3):
            inbox._chunks.append(bytes(range(10 * number, 10 * number + 10)))
        inbox.size = 30
        assert inbox.take(1) == b"\0"
        assert inbox.take_whole(count - 1 or 1) == bytes(range(1, max(count, 2)))
        rest = inbox.size
        assert rest == 30 - max(count, 2)
        assert not rest or inbox.take_whole(rest) == bytes(range(30 - rest, 30))


def test_crumbs_are_put_together() -> None:
    inbox = ByteQueue()
    for _ in range(2 * FRAGMENT_BYTES):
        inbox.add(b"c")
    assert len(inbox._chunks) < 4
    inbox.clear()
    assert inbox.peek(4) == b""
    assert inbox.size == 0

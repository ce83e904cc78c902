"""A client's connection in front of a broker: see `protocol.session` for what a session promises.

Group requests are ours and go to the node; every other frame is handed to the broker as it came, and its answers to the
client as they came: no byte of them is decoded but the heads, nor gathered, save the few answers that name addresses.

Order is Kafka's: answers leave in the order of the requests. One of ours is looked at only when everything before it
has been answered, and nothing behind it goes to the broker until it is answered itself; so the two streams of answers
never have to be merged, and what waits is requests, which are not read any further when they are many.
"""

from collections import deque
from collections.abc import Generator
from struct import Struct
from typing import Final, NamedTuple

from coordinator.gateway.session.acks import acks_of
from coordinator.gateway.session.apis import API_VERSIONS, PRODUCE, SASL_HANDSHAKE, SHARED_KEYS
from coordinator.gateway.session.front import Proxy, Way
from coordinator.gateway.session.inbox import Inbox
from coordinator.gateway.session.replies import Rewriting, rewriting
from protocol.apis import BY_MESSAGE
from protocol.errors import ProtocolViolation
from protocol.kafka.client import encode_request
from protocol.kafka.session import MAX_WAITING_BYTES
from protocol.messages import Message
from protocol.messages.topics import Metadata, MetadataReply
from protocol.session import Request
from protocol.strangers import guess

MAX_AWAITED: Final = 1_024
"""Requests of one connection that the broker may owe an answer; more are not handed on."""
MAX_ACKS_AT: Final = 1 << 17
"""How far into a Produce its `acks` may stand: behind two names."""
PASS_BYTES: Final = 64 * 1024
"""What must be left of an answer at least, to let it pass by itself."""
_HEAD_BYTES: Final = 14
_LEAST_FRAME: Final = 10
_REPLY_HEAD_BYTES: Final = 8
_FIRST_LOOK: Final = 64
_PROBE_NUMBER: Final = -7
_QUESTION_NUMBER: Final = -8

_LENGTH: Final = Struct(">i").unpack_from
_HEAD: Final = Struct(">ihhi").unpack_from
_REPLY_HEAD: Final = Struct(">ii").unpack_from


class _Awaited(NamedTuple):
    """An answer the broker owes. `is_own`: we asked, and the client is told nothing. `question`: how the answer to a
    question of `ProxySession.ask` is read."""

    number: int
    rewriting: Rewriting | None = None
    is_own: bool = False
    question: Rewriting | None = None


class ProxySession:
    """One connection. `receive_data` and `take_forward` are its client's half, `receive_upstream` is the broker's."""

    __slots__ = (
        "_answers",
        "_awaited",
        "_front",
        "_has_exchange",
        "_heard",
        "_inbox",
        "_inner",
        "_is_blocked",
        "_is_exchanging",
        "_is_out",
        "_let_in_at",
        "_may_pass",
        "_must_stay",
        "_passing",
        "_replies",
        "_reply_left",
        "_to_broker",
        "_wanted",
        "_wanted_reply",
        "heard_bytes",
    )

    def __init__(self, front: Proxy) -> None:
        self._front = front
        self._inner = front.inner()
        self._inbox = Inbox()
        self._wanted = 4
        """Bytes that must be there before it is worth looking at them."""
        self._passing = 0
        """What is left of the frame that is being handed on."""
        self._is_blocked = False
        self._is_out = False
        self._to_broker: list[bytes] = []
        self._awaited: deque[_Awaited] | None = None
        self._replies = Inbox()
        self._wanted_reply = _REPLY_HEAD_BYTES
        self._reply_left = 0
        self._may_pass = False
        self._is_exchanging = False
        """Whether a SASL exchange was begun, and we have not seen that it succeeded."""
        self._has_exchange = False
        self._let_in_at = -1
        """The minute in which the broker was last seen to know the client; logins end (KIP-368)."""
        self._must_stay = False
        """Whether a request went to the broker that nobody answers."""
        self._heard: list[MetadataReply | None] = []
        self._answers: list[Message] = []
        self.heard_bytes = 0

    # ------------------------------------------------------------------------------------------------ from the client

    @property
    def client_id(self) -> str:
        return self._inner.client_id

    def receive_data(self, data: bytes) -> None:
        self._inbox.add(data)

    def next_request(self) -> Request | None:
        inbox = self._inbox
        self._is_blocked = False
        while inbox.size and not self._is_out:
            if self._passing:
                piece = inbox.take(self._passing)
                self._passing -= len(piece)
                self._to_broker.append(piece)
                continue
            if inbox.size < self._wanted or not self._look():
                return None
            request = self._inner.next_request()
            if request is not None:
                self._is_out = True
                return request
        return None

    def _look(self) -> bool:
        """At the frame that is next: whether it was taken, or begun to be handed on. Else it must be longer first, or
        what is before it answered."""
        head = self._inbox.head(_HEAD_BYTES)
        (size,) = _LENGTH(head)
        if not _LEAST_FRAME <= size <= self._front.max_frame_bytes:
            allowed = f"{_LEAST_FRAME} to {self._front.max_frame_bytes} are allowed"
            raise ProtocolViolation(f"a frame of {size} bytes; {allowed}{guess(head[:4])}")
        if not self._has(_HEAD_BYTES):
            return False
        size, key, version, number = _HEAD(head)
        way = self._front.way(key, version)
        if way.is_ours or self._front.is_ours_now(key):
            return self._take(4 + size, key, version, number, way)
        if self._unheard >= MAX_AWAITED:
            self._is_blocked = True
            return False
        if key == PRODUCE:
            has_no_answer = self._has_no_answer(4 + size, version)
            if has_no_answer is None:
                return False
            if has_no_answer:
                self._must_stay = True
                self._hand_on(4 + size)
                return True
        if key == SASL_HANDSHAKE:
            self._is_exchanging = self._has_exchange = True
        self._await(number, way.rewriting)
        self._hand_on(4 + size)
        return True

    def _take(self, length: int, key: int, version: int, number: int, way: Way) -> bool:
        """One that is read here, so all of it must be there."""
        if self._awaited and not self._awaits_questions_alone:
            self._is_blocked = True
            return False
        if not self._has(length):
            return False
        if key in SHARED_KEYS and self._front.is_brokers(key, version, self._inbox.head(length)):
            self._await(number, way.rewriting)
            self._hand_on(length)
            return True
        if self._front.wants_exchange and not self._has_exchange and key != API_VERSIONS:
            raise ProtocolViolation("a request about groups before any exchange of SASL, which the broker wants")
        is_old = self._has_exchange and self._let_in_at != self._front.reach.minute
        if (self._is_exchanging or is_old) and key != API_VERSIONS:
            # Only the broker knows whether the exchange has succeeded, and holds: else it answers nothing like this.
            probe = encode_request(Metadata(()), self._front.metadata_version, _PROBE_NUMBER, "muster")
            self._to_broker.append(probe)
            self._await(_PROBE_NUMBER, None, is_own=True)
            self._is_blocked = True
            return False
        self._wanted = 4
        self._inner.receive_data(self._inbox.take_whole(length))
        return True

    def _has(self, length: int) -> bool:
        self._wanted = 4 if self._inbox.size >= length else length
        return self._inbox.size >= length

    def _hand_on(self, length: int) -> None:
        self._passing = length
        self._wanted = 4

    def _await(
        self, number: int, how: Rewriting | None, *, is_own: bool = False, question: Rewriting | None = None
    ) -> None:
        if self._awaited is None:
            self._awaited = deque()
        self._awaited.append(_Awaited(number, how, is_own, question))

    def _has_no_answer(self, length: int, version: int) -> bool | None:
        """Whether a Produce has `acks` 0; None if more must arrive first."""
        have = min(self._inbox.size, length)
        try:
            return acks_of(self._inbox.head(min(have, MAX_ACKS_AT)), version) == 0
        except IndexError:
            if have == length or have >= MAX_ACKS_AT:
                raise ProtocolViolation("a Produce that does not say which acks it wants") from None
            self._wanted = min(length, max(2 * have, _FIRST_LOOK))  # doubled: however small the crumbs, few looks
            return None

    # ------------------------------------------------------------------------------------------------- to the client

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        return self._inner.encoding(reply)

    def encode_reply(self, number: int, reply: Message) -> bytes:
        self._is_out = False
        return self._inner.encode_reply(number, reply)

    def encode_push(self, message: Message) -> bytes:
        return b""

    def take_data(self) -> bytes:
        return self._inner.take_data()

    # ------------------------------------------------------------------------------------------------------ the broker

    def take_forward(self) -> list[bytes]:
        """What the broker is to be sent, in pieces."""
        pieces, self._to_broker = self._to_broker, []
        return pieces

    def receive_upstream(self, data: bytes) -> list[bytes]:
        """What the client is to be sent of what the broker answered. Requests that waited for it may come out of
        `next_request` now. Raises ProtocolViolation for what is no answer to what was asked."""
        self.heard_bytes += len(data)
        replies, out = self._replies, []
        replies.add(data)
        while replies.size:
            if self._reply_left:
                piece = replies.take(self._reply_left)
                self._reply_left -= len(piece)
                assert self._awaited
                if not self._awaited[0].is_own:
                    out.append(piece)
                if not self._reply_left:
                    self._answered()
            elif replies.size < self._wanted_reply or not self._look_at_reply(out):
                break
        self._may_pass = self._reply_left >= PASS_BYTES and not (self._awaited and self._awaited[0].is_own)
        return out

    def take_heard(self) -> list[MetadataReply | None]:
        """What the broker said of topics, for whoever wants to know; None for an answer that was too long to read."""
        heard, self._heard = self._heard, []
        return heard

    def ask(self, message: Message, oldest: int, newest: int) -> bool:
        """Put a question of our own to the broker on this connection, where the broker takes it for the client's, while
        a request of the client's is out. False if the broker speaks none of these versions."""
        version = self._front.version_of(type(message), oldest, newest)
        if version is None:
            return False
        assert self._is_out and not self._passing
        self._to_broker.append(encode_request(message, version, _QUESTION_NUMBER, "muster"))
        reading = rewriting(BY_MESSAGE[type(message)].key, version)
        self._await(_QUESTION_NUMBER, None, is_own=True, question=reading)
        return True

    def take_answers(self) -> list[Message]:
        """Answers to the questions of `ask`, in their order."""
        answers, self._answers = self._answers, []
        return answers

    def take_pass(self) -> int:
        """How many bytes the broker sends next that are the client's as they are, if it is worth not looking at them.
        Those that went by themselves are told to `passed`, all others to `receive_upstream`, in whatever parts."""
        if not self._may_pass:
            return 0
        self._may_pass = False
        return self._reply_left

    def passed(self, count: int) -> bool:
        """So many bytes of an answer went to the client by themselves. Whether that was the end of it, so that requests
        that waited for it may come out of `next_request` now."""
        assert 0 < count <= self._reply_left
        self.heard_bytes += count
        self._reply_left -= count
        if self._reply_left:
            return False
        self._answered()
        return True

    def _look_at_reply(self, out: list[bytes]) -> bool:
        size, number = _REPLY_HEAD(self._replies.head(_REPLY_HEAD_BYTES))
        if not self._awaited:
            raise ProtocolViolation("the broker sent what nobody asked for")
        awaited = self._awaited[0]
        if number != awaited.number:
            raise ProtocolViolation(f"the broker answered request {number}, but {awaited.number} is next")
        reads_it = awaited.rewriting is not None or awaited.question is not None
        if size < 4 or (reads_it and size > self._front.max_frame_bytes):
            raise ProtocolViolation(f"the broker's answer has a length of {size} bytes")
        if not reads_it:
            self._reply_left = 4 + size
            return True
        if self._replies.size < 4 + size:
            self._wanted_reply = 4 + size
            return False
        self._wanted_reply = _REPLY_HEAD_BYTES
        frame = self._replies.take_whole(4 + size)
        if awaited.question is not None:
            self._answers.append(awaited.question.read(frame))
            self._answered()
            return True
        assert awaited.rewriting is not None
        frame, said = awaited.rewriting.apply(frame, number, self._front.addresses)
        if said is None or isinstance(said, MetadataReply):
            self._heard.append(said)
        out.append(frame)
        self._answered()
        return True

    def _answered(self) -> None:
        assert self._awaited
        answered = self._awaited.popleft()
        if answered.is_own and answered.question is None:
            self._is_exchanging, self._let_in_at = False, self._front.reach.minute
        if not self._awaited:
            self._awaited = None

    def upstream_lost(self, reason: str) -> None:
        """The broker's side is gone, and with it the answers to questions of ours. Raises ProtocolViolation where the
        client must hear of it: something was not answered, or whoever is connected to the broker next is not known
        there."""
        if not self._awaits_questions_alone or self._has_exchange or self._must_stay or self._passing:
            raise ProtocolViolation(f"the broker's side of the connection is gone: {reason}")
        self._awaited = None
        self._replies.clear()
        self._wanted_reply = _REPLY_HEAD_BYTES

    # ------------------------------------------------------------------------------------------------------- how it is

    @property
    def _unheard(self) -> int:
        return len(self._awaited) if self._awaited else 0

    @property
    def _awaits_questions_alone(self) -> bool:
        """Whether the broker owes the client nothing."""
        return all(one.question is not None for one in self._awaited or ())

    @property
    def awaits_broker(self) -> bool:
        """Whether the broker owes an answer; not to what the client is still saying."""
        return self._unheard > (1 if self._passing else 0)

    @property
    def awaits_names(self) -> bool:
        """Whether it is one of the answers that name addresses which the broker owes next: others could say as much."""
        return self._awaited is not None and self.awaits_broker and self._awaited[0].rewriting is not None

    @property
    def unanswered(self) -> int:
        """Of the node alone."""
        return 1 if self._is_out else 0

    @property
    def is_idle(self) -> bool:
        return not (self._is_out or self.awaits_broker)

    @property
    def buffered_bytes(self) -> int:
        return self._inbox.size + self._replies.size

    @property
    def has_waiting_request(self) -> bool:
        return not self._passing and self._inbox.has_frame

    @property
    def is_behind(self) -> bool:
        return (self._is_out or self._is_blocked) and self._inbox.size > MAX_WAITING_BYTES

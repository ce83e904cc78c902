"""A server of Kafka's protocol without sockets: Muster's own codec, with replies made by the test."""

from collections.abc import Callable

from muster.net.dialects.kafka import KafkaClientSession
from protocol.apis import WIRE_APIS
from protocol.kafka.session import KafkaDialect
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.node import ApiVersion, ApiVersionsReply
from protocol.native.client import NativeAnswer

ALL = {api.message for api in WIRE_APIS.values()}
MAX_FRAME_BYTES = 1 << 20


def frame(correlation_id: int, body: bytes) -> bytes:
    """A reply with the header that has no tagged fields."""
    return (len(body) + 4).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


def versions(*known: tuple[int, int, int]) -> bytes:
    """Return the reply to ApiVersions, in its newest version: API, oldest and newest."""
    reply = ApiVersionsReply(api_keys=tuple(ApiVersion(*one) for one in known))
    return frame(0, writer(WIRE_APIS[18].reply, 4)(reply))


def greeted(*known: tuple[int, int, int]) -> KafkaClientSession:
    """Return a session that knows these versions, with nothing to send."""
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    session.take_data()
    assert session.receive_data(versions(*known)) == []
    assert session.take_data() == b""
    return session


class Server:
    """Answers as `answer` does, with the versions that a musterd offers."""

    def __init__(self, answer: Callable[[Message], Message], served: set[type[Message]] | None = None) -> None:
        self._session = KafkaDialect(MAX_FRAME_BYTES, served or ALL).open()
        self._answer = answer
        self.asked: list[Message] = []

    def receive(self, data: bytes) -> bytes:
        if data:
            self._session.receive_data(data)
        out = b""
        while (request := self._session.next_request()) is not None:
            self.asked.append(request[1])
            out += self._session.encode_reply(request[0], self._answer(request[1]))
        return out + self._session.take_data()


def converse(session: KafkaClientSession, server: Server, *messages: Message) -> list[NativeAnswer]:
    """Exchange all requests and replies until everything is answered."""
    data = b"".join(session.encode_request(message)[1] for message in messages)
    answers: list[NativeAnswer] = []
    while len(answers) < len(messages):
        said = session.receive_data(server.receive(data))
        data = session.take_data()
        assert said or data, "nobody has anything to say"
        answers += [one for one in said if isinstance(one, NativeAnswer)]
    return answers

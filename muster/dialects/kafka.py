"""A connection to a server that speaks Kafka's protocol: of any age, and with topics by name, since that is all our
client knows of them.

The first thing said is ApiVersions, in its newest version; who does not know that answers in the oldest form
(KIP-511) and is asked again. Requests wait meanwhile, and then each goes out in the newest version that both know and
in which it means what it should (`versions`). What an older answer leaves unsaid is put in (`meaning`).
"""

from typing import Any, Final, NamedTuple

from muster.dialects.meaning import in_full
from muster.dialects.unwelcome import Unwelcome, unsayable
from muster.dialects.versions import CannotBeSaid, choose
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.node import ApiVersion, ApiVersions, ApiVersionsReply, Refused
from protocol.native.client import Answer, Push

_ITSELF: Final = BY_MESSAGE[ApiVersions]
_SOFTWARE: Final = ("muster-python", "0.1.0")


class _Sent(NamedTuple):
    number: int
    message: Message
    version: int


class KafkaSession:
    """Requests are numbered as they are made, and those that the server sees are answered in that order."""

    __slots__ = ("_client", "_next_number", "_offered", "_out", "_refused", "_sent", "_waiting")

    def __init__(self, client_id: str, max_frame_bytes: int) -> None:
        self._client = KafkaClient(client_id, max_frame_bytes)
        self._offered: dict[int, ApiVersion] | None = None
        self._out = b""
        self._sent: dict[int, _Sent] = {}
        """By the wire's own number, which the greetings have too."""
        self._waiting: list[tuple[int, Message]] = []
        self._refused: list[Answer | Push] = []
        self._next_number = 0
        self._greet(_ITSELF.request.newest)

    @property
    def is_ready(self) -> bool:
        return self._offered is not None

    def encode_request(self, message: Message) -> tuple[int, bytes]:
        number = self._next_number
        self._next_number += 1
        if self._offered is None:
            self._waiting.append((number, message))
        else:
            self._say(number, message, self._offered)
        return number, self.take_data()

    def receive_data(self, data: bytes) -> list[Answer | Push]:
        said: list[Answer | Push] = []
        for correlation_id, reply in self._client.receive_data(data):
            sent = self._sent.pop(correlation_id)
            if sent.number < 0:
                self._hear_versions(sent, reply)
            else:
                said.append(Answer(sent.number, in_full(sent.message, sent.version, reply), _sentence(reply)))
        said += self._refused
        self._refused.clear()
        return said

    def take_data(self) -> bytes:
        data, self._out = self._out, b""
        return data

    def _greet(self, version: int) -> None:
        self._send(_Sent(-1, ApiVersions(*_SOFTWARE), version))

    def _hear_versions(self, sent: _Sent, reply: Any) -> None:
        assert isinstance(reply, ApiVersionsReply)
        offered = {one.api_key: one for one in reply.api_keys}
        if reply.error_code == ErrorCode.UNSUPPORTED_VERSION and sent.version > 0:
            known = offered.get(_ITSELF.key)
            self._greet(min(known.max_version, sent.version - 1) if known else 0)
            return
        if reply.error_code != ErrorCode.NONE:
            raise Unwelcome(reply.error_code, f"it does not tell its versions: {reply.error_code.name}")
        self._offered = offered
        waiting, self._waiting = self._waiting, []
        for number, message in waiting:
            self._say(number, message, offered)

    def _say(self, number: int, message: Message, offered: dict[int, ApiVersion]) -> None:
        try:
            self._send(_Sent(number, message, choose(message, offered)))
        except CannotBeSaid as cannot:
            self._refuse(number, Refused(ErrorCode.UNSUPPORTED_VERSION, str(cannot)))
        except Exception as reason:  # noqa: BLE001  (as in `Exchange.say`: whatever the encoder trips over)
            self._refuse(number, unsayable(message, reason))

    def _refuse(self, number: int, refusal: Refused) -> None:
        self._refused.append(Answer(number, refusal, refusal.error_message))

    def _send(self, sent: _Sent) -> None:
        awaited = self._client.unanswered
        correlation_id, data = self._client.encode_request(sent.message, sent.version)
        if self._client.unanswered > awaited:
            self._sent[correlation_id] = sent
        self._out += data


def _sentence(reply: Message) -> str:
    """What the server says for people, if its reply has a place for that."""
    return getattr(reply, "error_message", None) or ""

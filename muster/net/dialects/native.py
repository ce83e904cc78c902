"""A native connection, greeting included."""

from typing import Final

from muster.net.dialects.handshake_errors import HandshakeRefused
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import Hello
from protocol.native.client import NativeAnswer, NativeClient, Push


class NativeClientSession:
    """Says `Hello` and what it is given, without waiting. Answers may come in any order, and pushes between them."""

    __slots__ = ("_client", "_greeting", "_hello")

    is_ready: Final = True

    def __init__(self, client_id: str, max_frame_bytes: int) -> None:
        self._client = NativeClient(max_frame_bytes)
        self._hello, self._greeting = self._client.encode_request(Hello(client_id))

    def encode_request(self, message: Message, now_ms: int = 0) -> tuple[int, bytes]:
        number, data = self._client.encode_request(message)
        return number, self.take_data() + data

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        said = self._client.receive_data(data)
        return [one for one in said if not self._is_welcome(one)]

    def take_data(self) -> bytes:
        data, self._greeting = self._greeting, b""
        return data

    def _is_welcome(self, said: NativeAnswer | Push) -> bool:
        if not isinstance(said, NativeAnswer) or said.number != self._hello:
            return False
        self._hello = -1
        code = getattr(said.reply, "error_code", ErrorCode.NONE)
        if code != ErrorCode.NONE:
            raise HandshakeRefused(code, f"it does not let us in: {said.error_message or code.name}")
        return True

"""A connection to a server that speaks Kafka's protocol, of any version, with topics by name, since the client has no
topic ids.

The first request is ApiVersions, in its newest version; a server that does not have it replies in the oldest form
(KIP-511) and is asked again. Then the client logs in, if it has a login. Requests wait meanwhile; each is then sent in
the newest version that both sides support and that can express it (`versions`). Fields that an older reply lacks are
filled in (`reply_normalisation`).

A login with a lifetime (KIP-368) is renewed on the same connection, ahead of the first request near its end. A server
accepts that even after the end, so that no request is lost, and no timer is needed.
"""

from typing import Any, Final, NamedTuple

from muster.net.dialects.handshake_errors import (
    HandshakeRefused,
    LoginFailed,
    Logins,
    login_refused,
    new_login,
    no_login,
    unsayable,
)
from muster.net.dialects.reply_normalisation import in_full
from muster.net.dialects.versions import NoCommonVersion, choose
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import ApiVersion, ApiVersions, ApiVersionsReply, ErrorReply
from protocol.native.client import NativeAnswer, Push

_ITSELF: Final = BY_MESSAGE[ApiVersions]
_SOFTWARE: Final = ("muster-python", "0.1.0")
_OF_US: Final = -1
"""Number of the session's own requests."""


class _SentRequest(NamedTuple):
    number: int
    message: Message
    version: int


class KafkaClientSession:
    """The client's side of one connection. Requests are numbered in order, and those that are sent are answered in that
    order."""

    __slots__ = (
        "_client",
        "_login",
        "_logins",
        "_next_number",
        "_now_ms",
        "_offered",
        "_out",
        "_refused",
        "_renew_at_ms",
        "_sent",
        "_waiting",
    )

    def __init__(self, client_id: str, max_frame_bytes: int, logins: Logins = no_login) -> None:
        self._client = KafkaClient(client_id, max_frame_bytes)
        self._logins = logins
        self._login: SaslClient | None = None
        """The login under way."""
        self._renew_at_ms: int | None = None
        self._now_ms = 0
        self._offered: dict[int, ApiVersion] | None = None
        self._out = b""
        self._sent: dict[int, _SentRequest] = {}
        """Sent requests by correlation id; the session's own have one, too."""
        self._waiting: list[tuple[int, Message]] = []
        self._refused: list[NativeAnswer | Push] = []
        self._next_number = 0
        self._request_versions(_ITSELF.request.newest)

    @property
    def is_ready(self) -> bool:
        return self._offered is not None and self._login is None

    def encode_request(self, message: Message, now_ms: int = 0) -> tuple[int, bytes]:
        number = self._next_number
        self._next_number += 1
        self._now_ms = now_ms
        if self._renew_at_ms is not None and now_ms >= self._renew_at_ms and self._offered is not None:
            self._renew_at_ms = None
            self._begin_login(self._offered)
        if self._offered is None or self._login is not None:
            self._waiting.append((number, message))
        else:
            self._send_request(number, message, self._offered)
        return number, self.take_data()

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        said: list[NativeAnswer | Push] = []
        for correlation_id, reply in self._client.receive_data(data):
            sent = self._sent.pop(correlation_id)
            if sent.number == _OF_US:
                self._on_own_reply(sent, reply)
            else:
                said.append(NativeAnswer(sent.number, in_full(sent.message, sent.version, reply), _sentence(reply)))
        said += self._refused
        self._refused.clear()
        return said

    def take_data(self) -> bytes:
        data, self._out = self._out, b""
        return data

    def _request_versions(self, version: int) -> None:
        self._send(_SentRequest(_OF_US, ApiVersions(*_SOFTWARE), version))

    def _on_own_reply(self, sent: _SentRequest, reply: Any) -> None:
        if isinstance(reply, ApiVersionsReply):
            self._on_versions(sent, reply)
        else:
            self._on_login(reply)

    def _on_versions(self, sent: _SentRequest, reply: ApiVersionsReply) -> None:
        offered = {one.api_key: one for one in reply.api_keys}
        if reply.error_code == ErrorCode.UNSUPPORTED_VERSION and sent.version > 0:
            known = offered.get(_ITSELF.key)
            self._request_versions(min(known.max_version, sent.version - 1) if known else 0)
            return
        if reply.error_code != ErrorCode.NONE:
            raise HandshakeRefused(reply.error_code, f"it does not report its versions: {reply.error_code.name}")
        self._offered = offered
        self._begin_login(offered)

    def _begin_login(self, offered: dict[int, ApiVersion]) -> None:
        self._login = new_login(self._logins)
        if self._login is None:
            self._send_waiting(offered)
        else:
            self._send_login(self._login.begin(), offered)

    def _on_login(self, reply: Message) -> None:
        login, offered = self._login, self._offered
        assert login is not None and offered is not None
        try:
            more = login.on_reply(reply)
        except LoginRefused as refused:
            raise login_refused(refused) from None
        if more is not None:
            self._send_login(more, offered)
            return
        self._login = None
        if login.session_lifetime_ms:
            # Counted from the time of an earlier request, which is too early, but never too late.
            self._renew_at_ms = self._now_ms + login.session_lifetime_ms * 4 // 5
        self._send_waiting(offered)

    def _send_login(self, message: Message, offered: dict[int, ApiVersion]) -> None:
        try:
            self._send(_SentRequest(_OF_US, message, choose(message, offered)))
        except NoCommonVersion as cannot:
            raise LoginFailed(ErrorCode.UNSUPPORTED_VERSION, f"one cannot log in there: {cannot}") from None

    def _send_waiting(self, offered: dict[int, ApiVersion]) -> None:
        waiting, self._waiting = self._waiting, []
        for number, message in waiting:
            self._send_request(number, message, offered)

    def _send_request(self, number: int, message: Message, offered: dict[int, ApiVersion]) -> None:
        try:
            self._send(_SentRequest(number, message, choose(message, offered)))
        except NoCommonVersion as cannot:
            self._refuse(number, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, str(cannot)))
        except Exception as reason:  # noqa: BLE001  (as in `Exchange.say`: whatever the encoder trips over)
            self._refuse(number, unsayable(message, reason))

    def _refuse(self, number: int, refusal: ErrorReply) -> None:
        self._refused.append(NativeAnswer(number, refusal, refusal.error_message))

    def _send(self, sent: _SentRequest) -> None:
        awaited = self._client.unanswered
        correlation_id, data = self._client.encode_request(sent.message, sent.version)
        if self._client.unanswered > awaited:
            self._sent[correlation_id] = sent
        self._out += data


def _sentence(reply: Message) -> str:
    """Return the server's error message, if the reply has a field for that."""
    return getattr(reply, "error_message", None) or ""

"""A native connection, greeting and login included.

`Hello` is sent with the first step of the login, if there is one, or with the first request. Requests wait for the
login's end. A login with a lifetime (KIP-368) is renewed as over Kafka's protocol: ahead of the first request near its
end.
"""

from typing import Final

from muster.net.dialects.handshake_errors import (
    HandshakeRefused,
    LoginFailed,
    Logins,
    login_refused,
    new_login,
    no_login,
)
from protocol.errors import ErrorCode
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import (
    Hello,
    HelloReply,
    Login,
    LoginReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshakeReply,
)
from protocol.native.client import NativeAnswer, NativeClient, Push

_NONE: Final = -1
_ASKS_NOBODY: Final = "its native listener asks for no login: the security protocol PLAINTEXT or SSL is wanted"
_ASKS: Final = "its native listener wants a login: the security protocol SASL_PLAINTEXT or SASL_SSL is wanted"


class NativeClientSession:
    """The client's side of one connection. `Hello` and requests are sent without waiting. Replies may come in any
    order, and notifications in between."""

    __slots__ = (
        "_client",
        "_hello",
        "_held",
        "_is_greeted",
        "_login",
        "_logins",
        "_now_ms",
        "_out",
        "_renew_at_ms",
        "_step",
    )

    def __init__(self, client_id: str, max_frame_bytes: int, logins: Logins = no_login) -> None:
        self._client = NativeClient(max_frame_bytes)
        self._logins = logins
        self._login: SaslClient | None = None
        """The login under way."""
        self._step = _NONE
        """Number of the login's last request."""
        self._held = b""
        """Requests that wait for the login."""
        self._renew_at_ms: int | None = None
        self._now_ms = 0
        self._hello, self._out = self._client.encode_request(Hello(client_id))
        self._begin_login()

    @property
    def is_ready(self) -> bool:
        return self._login is None

    def encode_request(self, message: Message, now_ms: int = 0) -> tuple[int, bytes]:
        self._now_ms = now_ms
        if self._renew_at_ms is not None and now_ms >= self._renew_at_ms:
            self._renew_at_ms = None
            self._begin_login()
        number, data = self._client.encode_request(message)
        if self._login is None:
            self._out += data
        else:
            self._held += data
        return number, self.take_data()

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        said = self._client.receive_data(data)
        return [one for one in said if not self._is_for_us(one)]

    def take_data(self) -> bytes:
        data, self._out = self._out, b""
        return data

    def _is_for_us(self, said: NativeAnswer | Push) -> bool:
        if isinstance(said, Push):
            return False
        if said.number == self._hello:
            self._hello = _NONE
            self._on_greeting(said)
            return True
        if said.number == self._step:
            self._step = _NONE
            self._on_login(said)
            return True
        return False

    def _on_greeting(self, said: NativeAnswer) -> None:
        code = getattr(said.reply, "error_code", ErrorCode.NONE)
        if code != ErrorCode.NONE:
            raise HandshakeRefused(code, f"it does not let us in: {said.error_message or code.name}")
        wants_login = isinstance(said.reply, HelloReply) and "Login" in said.reply.methods
        if wants_login and self._logins is no_login:
            raise LoginFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, _ASKS)

    # -- login

    def _begin_login(self) -> None:
        self._login = login = new_login(self._logins)
        if login is not None:
            login.begin()
            self._continue_login(
                login, SaslHandshakeReply()
            )  # the native protocol has no handshake: a Login names its mechanism

    def _on_login(self, said: NativeAnswer) -> None:
        login, reply = self._login, said.reply
        assert login is not None
        assert isinstance(reply, LoginReply)
        sentence = said.error_message
        if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
            sentence = _ASKS_NOBODY
        sasl_reply = SaslAuthenticateReply(
            reply.error_code, sentence or None, reply.auth_bytes, reply.session_lifetime_ms
        )
        self._continue_login(login, sasl_reply)
        if login.is_done:
            self._login = None
            if login.session_lifetime_ms:
                # Counted from the time of an earlier request, which is too early, but never too late.
                self._renew_at_ms = self._now_ms + login.session_lifetime_ms * 4 // 5
            self._out, self._held = self._out + self._held, b""

    def _continue_login(self, login: SaslClient, reply: SaslHandshakeReply | SaslAuthenticateReply) -> None:
        try:
            more: SaslAuthenticate | None = login.on_reply(reply)
        except LoginRefused as refused:
            raise login_refused(refused) from None
        if more is not None:
            self._step, data = self._client.encode_request(Login(login.mechanism, more.auth_bytes))
            self._out += data

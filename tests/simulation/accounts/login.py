"""A login of a simulated client, in its dialect: what the client sends waits until it is complete."""

from collections.abc import Callable
from typing import Any, Protocol

from bench.scram import MECHANISM, SaltedLogin
from coordinator.accounts.oauth import ACKNOWLEDGED
from protocol.kafka.client import KafkaClient
from protocol.messages.node import Login, LoginReply, SaslAuthenticate, SaslHandshake, SaslHandshakeReply
from protocol.native.client import NativeAnswer, NativeClient
from tests.simulation.network import Link
from tests.simulation.wires import MAX_FRAME_BYTES


class Exchange(Protocol):
    """The client's side of a mechanism."""

    mechanism: str

    def first(self) -> bytes:
        """Return the first message."""

    def next(self, answer: bytes) -> bytes | None:
        """Return the response to the server's message; None if the exchange is over."""


class Scram:
    """SCRAM with the salted password."""

    mechanism = MECHANISM

    def __init__(self, username: str, secret: bytes, nonce: str) -> None:
        self._login = SaltedLogin(username, secret, nonce)
        self._has_proved = False

    def first(self) -> bytes:
        return self._login.first()

    def next(self, answer: bytes) -> bytes | None:
        if self._has_proved:
            return None
        self._has_proved = True
        return self._login.final(answer)


class OneMessage:
    """PLAIN, or OAUTHBEARER, whose server may send the reason before it refuses."""

    def __init__(self, mechanism: str, message: bytes) -> None:
        self.mechanism = mechanism
        self._message = message

    def first(self) -> bytes:
        return self._message

    def next(self, answer: bytes) -> bytes | None:
        return ACKNOWLEDGED if answer else None


class SimLogin:
    """Logins of one connection. `hear` passes on what comes after them to `received`; `ended` is called after each with
    whether it succeeded. `lifetime_ms` is that of the last one, 0 if it does not end."""

    def __init__(
        self, exchange: Exchange, *, is_native: bool, received: Callable[[bytes], None], ended: Callable[[bool], None]
    ) -> None:
        self._exchange = exchange
        self._is_native = is_native
        self._native, self._kafka = NativeClient(MAX_FRAME_BYTES), KafkaClient("sim", MAX_FRAME_BYTES)
        self._received, self._ended = received, ended
        self._is_done = False
        self._link: Link | None = None
        self.lifetime_ms = 0

    def begin(self, link: Link) -> None:
        """Send the first message."""
        self._link = link
        link.to_daemon.wait()
        if self._is_native:
            self._say(self._exchange.first())
        else:
            link.to_daemon.send_now(self._kafka.encode_request(SaslHandshake(self._exchange.mechanism), 1)[1])

    def renew(self, exchange: Exchange) -> None:
        """Log in once more (KIP-368). No request may be in flight on the connection."""
        assert self._is_done and self._link is not None
        self._exchange, self._is_done = exchange, False
        self.begin(self._link)

    def hear(self, data: bytes) -> None:
        """Take bytes of the daemon."""
        if self._is_done:
            self._received(data)
            return
        for reply in self._replies(data):
            self._heard(reply)

    def _replies(self, data: bytes) -> list[Any]:
        if self._is_native:
            return [one.reply for one in self._native.receive_data(data) if isinstance(one, NativeAnswer)]
        return [reply for _number, reply in self._kafka.receive_data(data)]

    def _heard(self, reply: Any) -> None:
        if reply.error_code:
            self._ended(False)
        elif isinstance(reply, SaslHandshakeReply):
            self._say(self._exchange.first())
        elif (token := self._exchange.next(reply.auth_bytes)) is not None:
            self._say(token)
        else:
            assert not isinstance(reply, LoginReply) or reply.done
            self._is_done, self.lifetime_ms = True, reply.session_lifetime_ms
            self._ended(True)
            if self._link is not None:
                self._link.to_daemon.go_on()

    def _say(self, token: bytes) -> None:
        assert self._link is not None
        if self._is_native:
            data = self._native.encode_request(Login(self._exchange.mechanism, token))[1]
        else:
            data = self._kafka.encode_request(SaslAuthenticate(token), 2)[1]
        self._link.to_daemon.send_now(data)

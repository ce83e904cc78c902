"""A login of a simulated client, in its dialect: before it is done, what the client sends waits."""

from collections.abc import Callable
from typing import Any

from bench.scram import MECHANISM, SaltedLogin
from protocol.kafka.client import KafkaClient
from protocol.messages.node import Login, LoginReply, SaslAuthenticate, SaslHandshake, SaslHandshakeReply
from protocol.native.client import NativeAnswer, NativeClient
from tests.simulation.network import Link
from tests.simulation.wires import MAX_FRAME_BYTES


class SimLogin:
    """One exchange. `hear` passes on what comes after it to `received`; `ended` is told whether the client is in."""

    def __init__(
        self,
        username: str,
        secret: bytes,
        nonce: str,
        *,
        is_native: bool,
        received: Callable[[bytes], None],
        ended: Callable[[bool], None],
    ) -> None:
        self._login = SaltedLogin(username, secret, nonce)
        self._is_native = is_native
        self._native, self._kafka = NativeClient(MAX_FRAME_BYTES), KafkaClient("sim", MAX_FRAME_BYTES)
        self._received, self._ended = received, ended
        self._has_proved = self._is_done = False
        self._link: Link | None = None

    def begin(self, link: Link) -> None:
        """Send the first message."""
        self._link = link
        link.to_daemon.wait()
        if self._is_native:
            self._say(self._login.first())
        else:
            link.to_daemon.send_now(self._kafka.encode_request(SaslHandshake(MECHANISM), 1)[1])

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
            self._say(self._login.first())
        elif not self._has_proved:
            self._has_proved = True
            self._say(self._login.final(reply.auth_bytes))
        else:
            assert not isinstance(reply, LoginReply) or reply.done
            self._is_done = True
            self._ended(True)
            if self._link is not None:
                self._link.to_daemon.go_on()

    def _say(self, token: bytes) -> None:
        assert self._link is not None
        if self._is_native:
            data = self._native.encode_request(Login(MECHANISM, token))[1]
        else:
            data = self._kafka.encode_request(SaslAuthenticate(token), 2)[1]
        self._link.to_daemon.send_now(data)

"""Logging in over a native connection: with the greeting, before all else, and again before the time is over."""

import pytest

from muster.net.dialects import HandshakeRefused, LoginFailed, NativeAnswer
from muster.net.dialects.native import NativeClientSession
from protocol.errors import ErrorCode
from protocol.kafka.login import SaslClient
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import HelloReply, Login, LoginReply
from protocol.native import codec
from protocol.native.session import NativeDialect, NativeSession

BEAT = Heartbeat("g", 1, "m")
GREETING = HelloReply("musterd", "0", 1, ("Heartbeat", "Hello", "Login"), {})


class Server:
    """Answers `Login` with what its script says, and heartbeats."""

    def __init__(self, *script: LoginReply) -> None:
        self._script = list(script)
        self._session = NativeSession(NativeDialect(1 << 20, GREETING))
        self.asked: list[Message] = []

    def receive(self, data: bytes) -> bytes:
        said = b""
        self._session.receive_data(data)
        while (request := self._session.next_request()) is not None:
            self.asked.append(request[1])
            reply = self._script.pop(0) if isinstance(request[1], Login) else HeartbeatReply()
            said += self._session.encode_reply(request[0], reply)
        return self._session.take_data() + said


def plain() -> SaslClient:
    return SaslClient("PLAIN", "me", "secret")


def talk(session: NativeClientSession, server: Server, data: bytes) -> list[object]:
    answers: list[object] = []
    while data:
        answers += session.receive_data(server.receive(data))
        data = session.take_data()
    return answers


def test_requests_wait_for_the_login_and_go_out_after_it() -> None:
    session = NativeClientSession("c", 1 << 20, plain)
    server = Server(LoginReply(done=True))
    assert not session.is_ready
    number, data = session.encode_request(BEAT)
    assert b"Heartbeat" not in data
    assert talk(session, server, data) == [NativeAnswer(number, HeartbeatReply())]
    assert server.asked == [Login("PLAIN", b"\0me\0secret"), BEAT]
    assert session.is_ready


def test_a_refused_login_fails_with_the_servers_sentence_and_without_the_password() -> None:
    session = NativeClientSession("c", 1 << 20, plain)
    refused = LoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no: secret")
    with pytest.raises(LoginFailed, match=r"'me' is not let in by PLAIN: no: \*\*\*"):
        talk(session, Server(refused), session.take_data())


def test_a_refusal_for_now_is_no_failed_login() -> None:
    session = NativeClientSession("c", 1 << 20, plain)
    refused = LoginReply(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(HandshakeRefused) as caught:
        talk(session, Server(refused), session.take_data())
    assert not isinstance(caught.value, LoginFailed)


def test_a_listener_that_wants_a_login_is_told_of_at_its_greeting() -> None:
    session = NativeClientSession("c", 1 << 20)
    _number, data = session.encode_request(BEAT)
    with pytest.raises(LoginFailed, match="wants a login: the security protocol SASL_PLAINTEXT or SASL_SSL is wanted"):
        session.receive_data(Server().receive(data))


def test_a_listener_that_asks_for_none_is_told_of() -> None:
    session = NativeClientSession("c", 1 << 20, plain)
    session.take_data()
    unknown = codec.encode_error(1, ErrorCode.UNSUPPORTED_VERSION, "'Login' is no method of this server", {})
    with pytest.raises(LoginFailed, match="asks for no login: the security protocol PLAINTEXT or SSL is wanted"):
        session.receive_data(unknown)


def test_a_login_is_renewed_ahead_of_the_first_request_near_its_end() -> None:
    session = NativeClientSession("c", 1 << 20, plain)
    server = Server(*[LoginReply(done=True, session_lifetime_ms=1_000)] * 2)
    for now_ms in (0, 799, 800, 801):
        _number, data = session.encode_request(BEAT, now_ms)
        assert len(talk(session, server, data)) == 1
    names = [type(one).__name__ for one in server.asked]
    assert names == ["Login", "Heartbeat", "Heartbeat", "Login", "Heartbeat", "Heartbeat"]

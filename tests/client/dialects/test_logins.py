"""Logging in over a Kafka connection: after the greeting, before all else, and again before the time is over."""

from collections.abc import Callable, Iterable

import pytest

from membership.events import CallFailed, MemberEvent, Replied, SendRequest
from muster.net.dialects import ClientDialect, LoginFailed, open_session
from muster.net.dialects.handshake_errors import HandshakeRefused
from muster.net.dialects.kafka import KafkaClientSession
from muster.net.exchange import Exchange, receive_data
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.login import SaslClient
from protocol.kafka.reading import reader
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    ApiVersionsReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.native.client import NativeAnswer

MAX_FRAME_BYTES = 1 << 20
BEAT = Heartbeat("g", 1, "m")
EVERYTHING = ((12, 0, 4), (17, 0, 1), (18, 0, 4), (36, 0, 2))
IN = SaslAuthenticateReply()
OFFER = SaslHandshakeReply()
NO = SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")


class Broker:
    """Answers in order what its script says; requests are kept as (message, version)."""

    def __init__(self, *script: Message, versions: Iterable[tuple[int, int, int]] = EVERYTHING) -> None:
        self._script = list(script)
        self._versions = ApiVersionsReply(api_keys=tuple(ApiVersion(*one) for one in versions))
        self.asked: list[tuple[Message, int]] = []

    def receive(self, data: bytes) -> bytes:
        said = b""
        while data:
            size = int.from_bytes(data[:4], "big") + 4
            said += self._answer(data[4:size])
            data = data[size:]
        return said

    def _answer(self, request: bytes) -> bytes:
        key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
        api = WIRE_APIS[key]
        position = 10 + int.from_bytes(request[8:10], "big") + (1 if api.is_flexible(version) else 0)
        message = reader(api.request, version, 1000)(request, position)
        self.asked.append((message, version))
        reply = self._versions if key == 18 else HeartbeatReply() if key == 12 else self._script.pop(0)
        tags = b"\0" if api.is_flexible(version) and key != 18 else b""
        body = request[4:8] + tags + writer(api.reply, version)(reply)
        return len(body).to_bytes(4, "big") + body

    @property
    def order(self) -> list[str]:
        return [type(message).__name__ for message, _ in self.asked]


def talk(session: KafkaClientSession, broker: Broker, data: bytes) -> list[NativeAnswer]:
    """Until nobody has anything more to say."""
    answers: list[NativeAnswer] = []
    while data:
        answers += [one for one in session.receive_data(broker.receive(data)) if isinstance(one, NativeAnswer)]
        data = session.take_data()
    return answers


def converse(exchange: Exchange, broker: Broker, data: bytes) -> list[MemberEvent]:
    events: list[MemberEvent] = []
    while data:
        events += exchange.receive_data(broker.receive(data))
        data = exchange.take_data()
    return events


def plain() -> SaslClient:
    return SaslClient("PLAIN", "me", "secret")


def session_of(logins: Callable[[], SaslClient | None] = plain) -> KafkaClientSession:
    return KafkaClientSession("c", MAX_FRAME_BYTES, logins)


def test_requests_wait_until_we_are_let_in() -> None:
    session, broker = session_of(), Broker(OFFER, IN)
    number, data = session.encode_request(BEAT)
    was_ready = session.is_ready
    assert talk(session, broker, data) == [NativeAnswer(number, HeartbeatReply())]
    assert (was_ready, session.is_ready) == (False, True)
    assert broker.asked == [
        (ApiVersions("muster-python", "0.1.0"), 4),
        (SaslHandshake("PLAIN"), 1),
        (SaslAuthenticate(b"\0me\0secret"), 2),
        (BEAT, 4),
    ]
    assert len(talk(session, broker, session.encode_request(BEAT)[1])) == 1
    assert broker.order.count("SaslHandshake") == 1


def test_an_old_broker_is_logged_in_to_as_well() -> None:
    session, broker = session_of(), Broker(OFFER, IN, versions=[(12, 0, 1), (17, 0, 1), (18, 0, 1), (36, 0, 0)])
    assert len(talk(session, broker, session.encode_request(BEAT)[1])) == 1
    assert [version for _, version in broker.asked][1:] == [1, 0, 1]


@pytest.mark.parametrize("known", [[(12, 0, 4), (17, 0, 0), (36, 0, 2)], [(12, 0, 4), (17, 0, 1)], [(12, 0, 4)]])
def test_a_broker_that_cannot_be_logged_in_to_says_so_at_once(known: list[tuple[int, int, int]]) -> None:
    session, broker = session_of(), Broker(OFFER, versions=known)
    with pytest.raises(LoginFailed, match=r"one cannot log in there: .*Sasl"):
        talk(session, broker, session.encode_request(BEAT)[1])


def test_a_refused_login_is_told_in_the_brokers_words() -> None:
    session, broker = session_of(), Broker(OFFER, NO)
    with pytest.raises(LoginFailed, match="'me' is not let in by PLAIN: Authentication failed: Invalid") as refused:
        talk(session, broker, session.encode_request(BEAT)[1])
    assert refused.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Heartbeat" not in broker.order


def test_a_broker_that_cannot_say_yet_may_be_tried_again() -> None:
    later = SaslAuthenticateReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    session, broker = session_of(), Broker(OFFER, later)
    with pytest.raises(HandshakeRefused) as refused:
        talk(session, broker, session.encode_request(BEAT)[1])
    assert not isinstance(refused.value, LoginFailed)


def test_a_login_is_renewed_before_a_request_that_comes_near_its_end() -> None:
    lasting = SaslAuthenticateReply(session_lifetime_ms=10_000)
    session, broker = session_of(), Broker(OFFER, lasting, OFFER, lasting, OFFER, IN)
    for now_ms in (100_000, 107_999, 108_000, 115_999, 200_000, 900_000):
        data = session.encode_request(BEAT, now_ms)[1]
        assert len(talk(session, broker, data)) == 1
    logins = [at for at, name in enumerate(broker.order) if name == "SaslHandshake"]
    beats = [at for at, name in enumerate(broker.order) if name == "Heartbeat"]
    assert len(logins) == 3, "at first, at 108,000 and at 200,000: the last one lasts"
    assert [sum(login < beat for login in logins) for beat in beats] == [1, 1, 2, 2, 3, 3]


def test_what_is_under_way_is_answered_while_a_login_is_renewed_and_what_is_new_waits() -> None:
    lasting = SaslAuthenticateReply(session_lifetime_ms=10_000)
    session, broker = session_of(), Broker(OFFER, lasting, OFFER, lasting)
    talk(session, broker, session.encode_request(BEAT, 0)[1])
    under_way, first = session.encode_request(BEAT, 7_000)
    waiting, second = session.encode_request(BEAT, 9_000)
    later, third = session.encode_request(BEAT, 9_001)
    assert third == b""
    assert not session.is_ready
    answers = talk(session, broker, first + second)
    assert [one.number for one in answers] == [under_way, waiting, later]
    assert broker.order[-4:] == ["SaslHandshake", "SaslAuthenticate", "Heartbeat", "Heartbeat"]


def test_each_login_is_a_new_one() -> None:
    made: list[SaslClient] = []

    def logins() -> SaslClient:
        made.append(SaslClient("PLAIN", "me", "secret"))
        return made[-1]

    lasting = SaslAuthenticateReply(session_lifetime_ms=1_000)
    session, broker = session_of(logins), Broker(OFFER, lasting, OFFER, lasting)
    talk(session, broker, session.encode_request(BEAT, 0)[1])
    talk(session, broker, session.encode_request(BEAT, 5_000)[1])
    assert len(made) == len({id(one) for one in made}) == 2


def test_without_a_login_there_is_none() -> None:
    session, broker = session_of(lambda: None), Broker()
    assert len(talk(session, broker, session.encode_request(BEAT)[1])) == 1
    assert broker.order == ["ApiVersions", "Heartbeat"]


def test_an_exchange_says_when_it_is_let_in_and_what_was_asked_in_vain() -> None:
    exchange, broker = Exchange(open_session(ClientDialect.KAFKA, "c", logins=plain)), Broker(OFFER, IN)
    data = exchange.encode_request(SendRequest(1, None, BEAT), 5)
    was_let_in = exchange.is_let_in
    assert converse(exchange, broker, data) == [Replied(1, HeartbeatReply(), "")]
    assert (was_let_in, exchange.is_let_in) == (False, True)
    refused = Exchange(open_session(ClientDialect.KAFKA, "c", logins=plain))
    data = refused.encode_request(SendRequest(1, None, BEAT), 5)
    broker = Broker(OFFER, NO)
    with pytest.raises(LoginFailed):
        converse(refused, broker, data)
    assert refused.lost() == [CallFailed(1, is_unreached=True)]


@pytest.mark.parametrize("dialect", list(ClientDialect))
def test_a_listener_with_tls_is_known_by_its_alert(dialect: ClientDialect) -> None:
    session = open_session(dialect, "c")
    session.encode_request(BEAT)
    with pytest.raises(ProtocolViolation, match="speaks TLS: the security protocol SSL is wanted"):
        receive_data(session, bytes.fromhex("15030300020246"))


@pytest.mark.parametrize("dialect", list(ClientDialect))
def test_other_nonsense_is_told_as_it_is(dialect: ClientDialect) -> None:
    session = open_session(dialect, "c")
    session.encode_request(BEAT)
    with pytest.raises(ProtocolViolation) as raised:
        receive_data(session, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "TLS" not in str(raised.value)

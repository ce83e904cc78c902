"""Requests over one connection: their answers, and those that are never answered."""

import pytest

from membership.events import Departed, MemberEvent, Replied, SendRequest
from muster.net.dialects import ClientDialect, open_session
from muster.net.exchange import Exchange
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import ErrorReply
from tests.client.dialects.server import Server, versions


def silent(call: int, records: bytes = b"x") -> SendRequest:
    return SendRequest(call, None, Produce((ProduceTopic("t", (ProducePartition(0, records),)),), acks=0))


def beat(call: int) -> SendRequest:
    return SendRequest(call, None, Heartbeat("g", 1, "m"))


def opened(dialect: ClientDialect) -> Exchange:
    """Greetings are over."""
    exchange = Exchange(open_session(dialect, "c"))
    if dialect is ClientDialect.KAFKA:
        exchange.take_data()
        exchange.receive_data(versions((0, 0, 13), (12, 0, 4)))
    return exchange


@pytest.mark.parametrize("dialect", ClientDialect)
def test_what_is_never_answered_is_over_when_its_last_byte_has_left(dialect: ClientDialect) -> None:
    exchange = opened(dialect)
    first, second = exchange.encode_request(silent(1)), exchange.encode_request(silent(2))
    assert exchange.departed(len(first) + len(second)) == []
    assert exchange.departed(len(second) + 1) == []
    assert exchange.departed(len(second)) == [Departed(1)]
    assert exchange.owes
    assert exchange.departed(0) == [Departed(2)]
    assert exchange.departed(0) == []
    assert not exchange.owes


def test_what_waits_for_the_greeting_has_not_left() -> None:
    exchange = Exchange(open_session(ClientDialect.KAFKA, "c"))
    assert exchange.encode_request(silent(1))  # the greeting
    assert exchange.departed(0) == []
    assert exchange.owes
    assert exchange.receive_data(versions((0, 0, 13))) == []
    data = exchange.take_data()
    assert exchange.departed(len(data)) == []
    assert exchange.departed(0) == [Departed(1)]


def test_what_the_server_could_not_understand_is_refused_here() -> None:
    exchange = opened(ClientDialect.KAFKA)
    exchange = Exchange(open_session(ClientDialect.KAFKA, "c"))
    exchange.encode_request(silent(1))
    (event,) = exchange.receive_data(versions((12, 0, 4)))
    assert isinstance(event, Replied)
    assert isinstance(event.reply, ErrorReply)
    assert (event.call, event.reply.error_code) == (1, ErrorCode.UNSUPPORTED_VERSION)
    exchange.take_data()
    assert exchange.departed(0) == []


@pytest.mark.parametrize("dialect", ClientDialect)
def test_a_lost_connection_loses_what_was_not_answered_and_what_had_not_left(dialect: ClientDialect) -> None:
    exchange = opened(dialect)
    exchange.encode_request(silent(1))
    exchange.departed(0)
    exchange.encode_request(beat(2))
    exchange.encode_request(silent(3))
    assert [one.call for one in exchange.lost()] == [2, 3]
    assert not exchange.owes
    assert exchange.departed(0) == []


def test_answers_belong_to_their_calls_whatever_left_silently_between_them() -> None:
    exchange, server = Exchange(open_session(ClientDialect.KAFKA, "c")), Server(lambda _: HeartbeatReply())
    data = exchange.encode_request(beat(1)) + exchange.encode_request(silent(2)) + exchange.encode_request(beat(3))
    events: list[MemberEvent] = []
    for _ in range(3):
        events += exchange.receive_data(server.receive(data))
        data = exchange.take_data()
        events += exchange.departed(0)
    assert events == [Departed(2), Replied(1, HeartbeatReply()), Replied(3, HeartbeatReply())]


@pytest.mark.parametrize("dialect", ClientDialect)
def test_what_no_bytes_can_say_is_refused_and_costs_the_others_nothing(dialect: ClientDialect) -> None:
    exchange = opened(dialect)
    assert exchange.encode_request(SendRequest(1, None, Heartbeat("\ud800", 1, "m"))) == b""
    (event,) = exchange.receive_data(b"")
    assert isinstance(event, Replied)
    assert isinstance(event.reply, ErrorReply)
    assert (event.call, event.reply.error_code) == (1, ErrorCode.INVALID_REQUEST)
    assert event.reply.error_message.startswith("Heartbeat cannot be sent: ")
    assert exchange.receive_data(b"") == []
    assert exchange.encode_request(beat(2))
    assert [one.call for one in exchange.lost()] == [2]


def test_what_no_bytes_can_say_is_refused_also_after_it_waited_for_the_greeting() -> None:
    exchange = Exchange(open_session(ClientDialect.KAFKA, "c"))
    exchange.encode_request(SendRequest(1, None, Heartbeat("\ud800", 1, "m")))
    exchange.encode_request(beat(2))
    (event,) = exchange.receive_data(versions((12, 0, 4)))
    assert isinstance(event, Replied)
    assert (event.call, getattr(event.reply, "error_code", None)) == (1, ErrorCode.INVALID_REQUEST)
    assert exchange.take_data()
    assert [one.call for one in exchange.lost()] == [2]

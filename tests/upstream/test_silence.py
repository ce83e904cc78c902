"""Who is owed an answer and hears nothing."""

from collections.abc import Mapping

from coordinator.core import Connection
from coordinator.effects import GiveUp
from coordinator.upstream.silence import Silence
from protocol.kafka.client import encode_request
from protocol.kafka.front.front import Front
from protocol.kafka.front.session import FrontSession
from protocol.messages.node import ApiVersion, ApiVersionsReply
from protocol.messages.offsets import ListOffsets

_ALLOWED_MS = 5_000
_LIST_OFFSETS = 2


def asked() -> tuple[FrontSession, Mapping[int, Connection]]:
    """A connection whose broker owes an answer."""
    broker = ApiVersionsReply(api_keys=(ApiVersion(_LIST_OFFSETS, 0, 9),))
    session = FrontSession(Front(broker, {}, 1_000_000))
    session.receive_data(encode_request(ListOffsets(()), 6, 1, "c"))
    assert session.next_request() is None
    assert session.awaits_broker
    return session, {1: Connection(1, "kafka", "10.0.0.1", session, 1)}


def test_who_says_nothing_for_so_long_is_given_up_counted_from_the_first_look() -> None:
    _, connections = asked()
    silence = Silence(_ALLOWED_MS)
    silence.watch(1)
    assert silence.given_up(connections, 1_000) == []
    assert silence.given_up(connections, 1_000 + _ALLOWED_MS - 1) == []
    assert silence.given_up(connections, 1_000 + _ALLOWED_MS) == [GiveUp(1, "it has said nothing for 5000 ms")]


def test_a_byte_in_between_is_not_silence() -> None:
    session, connections = asked()
    silence = Silence(_ALLOWED_MS)
    silence.watch(1)
    silence.given_up(connections, 0)
    session.receive_upstream(b"\0")
    assert silence.given_up(connections, _ALLOWED_MS) == []
    silence.watch(1)
    assert silence.given_up(connections, 2 * _ALLOWED_MS - 1) == []
    assert len(silence.given_up(connections, 2 * _ALLOWED_MS)) == 1


def test_who_is_owed_nothing_any_more_is_not_watched() -> None:
    session, connections = asked()
    silence = Silence(_ALLOWED_MS)
    silence.watch(1)
    session.receive_upstream(b"\0\0\0\4\0\0\0\1")
    assert silence.given_up(connections, 0) == []
    assert not silence.watched

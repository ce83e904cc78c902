"""Timeouts of brokers that owe a reply and send nothing."""

from collections.abc import Mapping

from coordinator.core.core import Connection
from coordinator.gateway.broker_timeout import BrokerTimeouts
from coordinator.gateway.effects import AbandonUpstream
from coordinator.gateway.session.router import Router
from coordinator.gateway.session.session import ProxySession
from protocol.kafka.client import encode_request
from protocol.messages.node import ApiVersion, ApiVersionsReply
from protocol.messages.offsets import ListOffsets

_ALLOWED_MS, _EVERY_MS = 5_000, 1_000
_LIST_OFFSETS = 2


def asked() -> tuple[ProxySession, Mapping[int, Connection]]:
    """A connection whose broker owes an answer."""
    broker = ApiVersionsReply(api_keys=(ApiVersion(_LIST_OFFSETS, 0, 9),))
    session = ProxySession(Router(broker, {}, 1_000_000))
    session.receive_data(encode_request(ListOffsets(()), 6, 1, "c"))
    assert session.next_request() is None
    assert session.awaits_broker
    return session, {1: Connection(1, "kafka", "10.0.0.1", session, 1)}


def looked_at(silence: BrokerTimeouts, connections: Mapping[int, Connection], first_ms: int, last_ms: int) -> list[int]:
    """Return the times at which a broker was given up, with a check a second."""
    return [now_ms for now_ms in range(first_ms, last_ms + 1, _EVERY_MS) if silence.expired(connections, now_ms)]


def watching() -> BrokerTimeouts:
    silence = BrokerTimeouts(_ALLOWED_MS, _EVERY_MS)
    silence.watch(1)
    return silence


def test_who_says_nothing_for_so_long_is_given_up_counted_from_the_first_look() -> None:
    _, connections = asked()
    silence = watching()
    assert looked_at(silence, connections, 1_000, 5_000) == []
    assert silence.expired(connections, 6_000) == [AbandonUpstream(1, "the broker has sent nothing for 5000 ms")]
    assert looked_at(silence, connections, 7_000, 12_000) == [11_000]


def test_a_byte_in_between_is_not_silence() -> None:
    session, connections = asked()
    silence = watching()
    assert looked_at(silence, connections, 0, 4_000) == []
    session.receive_upstream(b"\0")
    silence.watch(1)
    assert looked_at(silence, connections, 5_000, 11_000) == [10_000]


def test_while_this_process_stood_still_nobody_could_be_heard() -> None:
    _, connections = asked()
    silence = watching()
    assert looked_at(silence, connections, 0, 1_000) == []
    assert silence.expired(connections, 100_000) == []
    assert looked_at(silence, connections, 101_000, 103_000) == [102_000]


def test_who_is_owed_nothing_any_more_is_not_watched() -> None:
    session, connections = asked()
    silence = watching()
    session.receive_upstream(b"\0\0\0\4\0\0\0\1")
    assert silence.expired(connections, 0) == []
    assert not silence.watched

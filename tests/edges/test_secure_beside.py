"""A client that musterd lets in and the broker beside it does not: whoever waits hears of it at once."""

import time
from collections.abc import Iterator

import pytest

import muster.aio
from muster import AuthenticationFailed, Consumer, Producer, RequestTimedOut, TopicPartition
from tests.edges.musterd import Daemon, free_port, running
from tests.edges.sasl_proxy import SaslProxy
from tests.edges.test_secure_clients import LOGIN, guarded, proxy

__all__ = ["guarded", "proxy"]  # fixtures

WRONG = {**LOGIN, "sasl.password": "guess"}
WHAT = "'me' is not let in by PLAIN"
SLOW_MS = 120_000
SOON_S = 50.0


@pytest.fixture
def front(proxy: SaslProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """In front of the musterd behind the proxy, which accepts its login."""
    settings = (
        "group.initial.rebalance.delay.ms=0",
        f"upstream.servers=127.0.0.1:{proxy.port}",
        "upstream.sasl.username=me",
        "upstream.sasl.password=secret",
        f"upstream.listener.ports={free_port()}",
    )
    with running(tmp_path_factory.mktemp("front") / "data", *settings, with_kafka=True) as daemon:
        yield daemon


def test_a_wrong_password_at_the_broker_is_told_at_once_to_whoever_writes(front: Daemon) -> None:
    begun = time.monotonic()
    producer = Producer(front.bootstrap, broker_security=WRONG, request_timeout_ms=60_000, delivery_timeout_ms=SLOW_MS)
    producer.send("orders", b"x", partition=0)
    with pytest.raises(AuthenticationFailed, match=WHAT):
        producer.flush()
    sent = producer.send("orders", b"x", partition=0)
    with pytest.raises(AuthenticationFailed, match=WHAT):
        sent.result()
    assert time.monotonic() - begun < SOON_S
    with pytest.raises(AuthenticationFailed, match=WHAT):
        producer.close()


async def test_so_it_is_in_an_event_loop(front: Daemon) -> None:
    begun = time.monotonic()
    producer = muster.aio.Producer(
        front.bootstrap, broker_security=WRONG, request_timeout_ms=60_000, delivery_timeout_ms=SLOW_MS
    )
    sent = await producer.send("orders", b"x", partition=0)
    with pytest.raises(AuthenticationFailed, match=WHAT):
        await producer.flush()
    with pytest.raises(AuthenticationFailed, match=WHAT):
        await sent
    assert time.monotonic() - begun < SOON_S
    with pytest.raises(AuthenticationFailed, match=WHAT):
        await producer.close()


def test_whoever_reads_hears_of_it_too(front: Daemon) -> None:
    with Consumer(front.bootstrap, broker_security=WRONG) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(AuthenticationFailed, match=WHAT):
            consumer.poll(SOON_S)


def test_a_record_that_runs_out_of_time_says_why(front: Daemon) -> None:
    brief = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 2_000}
    with Producer(front.bootstrap, **brief) as producer:  # type: ignore[arg-type]
        sent = producer.send("orders", b"x", partition=0)
        with pytest.raises(RequestTimedOut, match=r"not acknowledged within 2000 ms\..* maybe it wants a login"):
            sent.result()

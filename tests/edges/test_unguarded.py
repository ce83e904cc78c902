"""Listeners beside a cluster that has ACLs, or gets them."""

import asyncio
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.config.config import Config, ConfigError, load_config
from coordinator.config.keys import ListenerKinds, UnguardedKinds
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from tests.edges.musterd import free_port, running, within

KAFKA = Config().native
PLAIN = Config(kafka=KAFKA)
ASKING = replace(PLAIN, tls_certificate_location="a", tls_client_ca_location="b")


def opened(config: Config, has_authorizer: bool | None, folder: Path) -> set[str]:
    kept = UnguardedListeners(config, ClusterIdentity(folder)).permitted(has_authorizer)
    return {kind for kind in ("native", "http", "kafka") if getattr(kept, kind) is not None}


def test_which_listeners_open(tmp_path: Path) -> None:
    everything = {"native", "http", "kafka"}
    assert opened(PLAIN, False, tmp_path) == everything
    assert opened(PLAIN, True, tmp_path) == {"kafka"}
    assert opened(PLAIN, None, tmp_path) == everything, "it was never seen"
    named = Config(kafka=KAFKA, upstream_unguarded_listeners=UnguardedKinds(("http",)))
    assert opened(named, True, tmp_path) == {"kafka", "http"}
    assert opened(ASKING, True, tmp_path) == everything
    half = replace(ASKING, tls_listeners=ListenerKinds(("native",)))
    assert opened(half, True, tmp_path) == {"kafka", "native"}


def test_what_the_cluster_said_last_holds_for_a_start_that_does_not_reach_it(tmp_path: Path) -> None:
    config = PLAIN
    asyncio.run(UnguardedListeners(config, ClusterIdentity(tmp_path)).update(has_authorizer=True))
    assert opened(config, None, tmp_path) == {"kafka"}
    asyncio.run(UnguardedListeners(config, ClusterIdentity(tmp_path)).update(has_authorizer=False))
    assert opened(config, None, tmp_path) == {"native", "http", "kafka"}


def test_an_authorizer_that_comes_closes_what_is_open_once(tmp_path: Path) -> None:
    closed: list[str] = []

    async def story() -> None:
        named = Config(kafka=KAFKA, upstream_unguarded_listeners=UnguardedKinds(("http",)))
        unguarded = UnguardedListeners(named, ClusterIdentity(tmp_path))
        for kind in ("native", "http"):

            async def close(kind: str = kind) -> None:
                closed.append(kind)

            unguarded.opened(kind, close)
        await unguarded.update(has_authorizer=False)
        assert closed == []
        for _ in range(2):
            await unguarded.update(has_authorizer=True)

    asyncio.run(story())
    assert closed == ["native"]


def test_a_note_that_cannot_be_written_is_no_reason_to_end(tmp_path: Path) -> None:
    asyncio.run(UnguardedListeners(Config(), ClusterIdentity(tmp_path / "gone")).update(has_authorizer=True))


def test_the_brokers_listeners_need_no_such_word() -> None:
    with pytest.raises(ConfigError, match=r"upstream\.unguarded\.listeners = kafka .*some of native,http"):
        load_config(["--set", "upstream.unguarded.listeners=kafka"], {}, lambda path: b"")


def test_a_cluster_whose_brokers_know_no_acls_has_none(tmp_path: Path) -> None:
    with running(tmp_path / "broker", with_kafka=True) as broker:
        plan = (f"upstream.servers=127.0.0.1:{broker.kafka_port}", f"upstream.listener.ports={free_port()}")
        with running(tmp_path / "front", *plan, "upstream.refresh.ms=200", with_http=True, with_kafka=True) as front:
            assert front.open == {"native", "kafka", "http"}
            with socket.create_connection(("127.0.0.1", front.port), timeout=5):
                pass
            assert within(5, (tmp_path / "front" / "upstream-cluster-id").exists)
            assert not (tmp_path / "front" / "upstream-authorizer").exists()

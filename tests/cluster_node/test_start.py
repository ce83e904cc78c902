"""The part in the cluster's log that the configuration asks for."""

import asyncio
from typing import Any, cast

import pytest

from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.config.config import Address, Config, ConfigError, load_config
from coordinator.config.keys import Addresses
from coordinator.gateway.io.cluster.from_config import ClusterPart
from coordinator.io.server import Server
from coordinator.node.effects import Effect


class Hooks:
    """Stand-in for the server: keeps which effects a part wants to carry out."""

    def __init__(self) -> None:
        self.kinds: list[type[Effect]] = []

    def happen(self, event: object) -> None: ...

    def carry_out(self, kind: type[Effect], how: object) -> None:
        self.kinds.append(kind)


class Beside:
    open_client = cluster_mismatch = staticmethod(lambda *_: None)


def part_of(**settings: Any) -> tuple[ClusterPart, Hooks]:
    hooks = Hooks()
    upstream = Addresses((Address("127.0.0.1", 9),))
    return ClusterPart(Config(upstream_servers=upstream, **settings), cast(Server, hooks), cast(Any, Beside())), hooks


def test_a_node_with_a_log_of_its_own_has_no_part() -> None:
    async def whole_life() -> None:
        part, hooks = part_of()
        await part.join({})
        await part.leave()
        await part.stop()
        assert part.shards is None and not hooks.kinds

    asyncio.run(whole_life())


def test_a_node_whose_log_is_in_the_cluster_has_its_requests_carried_out() -> None:
    async def begin() -> None:
        part, hooks = part_of(offsets_log="cluster", upstream_nodes_session_timeout_ms=7_000)
        assert {kind.__name__ for kind in hooks.kinds} == {"ShardRequest", "HandedOver", "CaughtUp", "PublishNews"}
        assert part.shards is not None and not part.shards.lease.holds(0)
        part.shards.lease.heartbeat_succeeded(1_000, 1_000)
        assert part.shards.lease.holds(6_999) and not part.shards.lease.holds(7_000)
        await part.stop()

    asyncio.run(begin())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ("offsets.log=cluster",),
            "offsets.log = cluster (--set): the log is kept by a Kafka cluster, which upstream.servers (--upstream)",
        ),
        (
            ("offsets.log=cluster", "upstream.servers=a:1", "upstream.nodes.heartbeat.interval.ms=2001"),
            "a third of upstream.nodes.session.timeout.ms (2000) or less is allowed",
        ),
        (
            ("upstream.nodes.session.timeout.ms=2999",),
            "upstream.nodes.session.timeout.ms = 2999 (--set): a whole number from 3000 to 2147483647 is allowed",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(settings: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config([part for one in settings for part in ("--set", one)], {}, lambda path: b"")
    assert sentence in str(refused.value)


def test_the_shortest_session_leaves_most_of_it_for_the_lease() -> None:
    load_config(["--set", "upstream.nodes.session.timeout.ms=3000"], {}, lambda path: b"")
    lease = Lease(ClusterLogSettings(session_ms=3_000))
    lease.heartbeat_succeeded(0, 0)
    assert lease.holds(1_999)

"""franz-go's own TestTxnEtl while coordinators are killed: through several musterd, or through the brokers themselves.

franz-go gives a request up whose connection is refused, and the test counts that as a failure, whoever refuses. So
nodes and brokers are behind addresses that stay, and hang up instead.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from interop import franz_go
from interop.cluster_nodes import node_behind_a_balancer
from interop.exactly_once.killer import Coordinator, Killer
from interop.kafka_cluster import Broker, Cluster
from interop.nodes.cuttable_proxy import CuttableProxy

ETL = "TestTxnEtl"
"""franz-go's own test, which brings its own records."""
_PAUSE_S = 8.0
"""Time between two kills."""


class _KilledBroker:
    """A broker as a coordinator to kill. It has started when it has its replicas of the coordinators' logs again: a
    second one killed before would leave these without the replicas that they need."""

    def __init__(self, cluster: Cluster, broker: Broker) -> None:
        self._cluster = cluster
        self._broker = broker

    def end(self) -> None:
        self._broker.kill()

    def start(self) -> None:
        self._broker.start()
        for topic in ("__consumer_offsets", "__transaction_state"):
            self._cluster.until_whole(topic)


def etl_through_nodes(cluster: Cluster, work: Path, nodes: int, records: int, kills: int) -> list[str]:
    """Run it through so many nodes of their own; what failed."""
    count = len(cluster.brokers)
    with ExitStack() as stack:
        each = [
            stack.enter_context(node_behind_a_balancer(number + 1, cluster.bootstrap, count, work / "balanced"))
            for number in range(nodes)
        ]
        return _run(",".join(one.bootstrap for one in each), each, f"{nodes} nodes", count, records, kills)


def etl_through_brokers(cluster: Cluster, records: int, kills: int) -> None:
    """Run it through the brokers, whose own coordinators have the groups, and print what came of it. They have one
    way. Raises TimeoutError if a broker does not come back."""
    (way,) = cluster.ways
    killed = [_KilledBroker(cluster, broker) for broker in cluster.brokers]
    with closing(CuttableProxy(way.advertised, way.ports)) as proxy:
        _run(proxy.bootstrap, killed, f"{len(killed)} brokers without Muster", len(killed), records, kills)


def _run(
    bootstrap: str, coordinators: Sequence[Coordinator], through: str, copies: int, records: int, most: int
) -> list[str]:
    killer = Killer(coordinators)
    with franz_go.Suite(bootstrap, f"^{ETL}$", records, copies=copies) as suite:
        while killer.kills < most:
            time.sleep(_PAUSE_S)
            if suite.has_ended:
                break
            killer.kill_next()
        outcome = suite.outcome()
    counts = {how: sum(one[how] for one in outcome.values()) for how in ("PASS", "FAIL", "SKIP")}
    print(f"{ETL} through {through}, {killer.kills} kills: {counts}", flush=True)
    failed = []
    if killer.kills < min(most, 1):
        failed.append(f"{ETL}: it ended before a coordinator was killed")
    if not counts["PASS"] or counts["FAIL"]:
        failed.append(f"{ETL}: {counts}")
    return failed

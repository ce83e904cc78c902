"""Commits through one, two and three musterd over the log of a cluster of three Apache Kafka brokers, beside the
cluster's own coordinator, and beside one musterd with a log of its own (docs/cluster.md).

`groupload.c` makes the load and finds each group's coordinator. The ways follow each other, since nodes join one by
one: what else the machine does meets them differently, so only a quiet one is worth quoting.
"""

import contextlib
import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import builds, peers
from bench.builds import NotHere
from bench.kafka import Bench, Failed
from bench.peers import KAFKA, OFFSETS_TOPIC, Peer
from bench.processes import Daemon, scratch
from bench.report import Options, Sheet, Value, median
from interop.kafka_cluster import Cluster, kafka_cluster
from tests.edges.musterd import free_port

BROKERS, NODES, SHARDS = 3, 3, 12
LOCAL = "musterd, log of its own"
CONNECTIONS = (60, 6)
"""Each with the member of a group of its own, and one commit outstanding: many tell of the rate, few of the latency."""
_LOADED_S = 120.0
_WARM_UP_S, _WARM_UP_QUICK_S = 20.0, 1.0


class Way(NamedTuple):
    """Processes that take commits."""

    name: str
    servers: Sequence[Peer]
    brokers: Sequence[int]
    """Process ids of the brokers, whose time is counted too."""


Figures = dict[tuple[str, int], list[dict[str, Any]]]
"""Results of groupload by way and number of connections."""


def measure(options: Options) -> list[Sheet]:
    """Skipped, with a sentence, where there is no C compiler or no Apache Kafka."""
    found: Figures = {}
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        try:
            bench = Bench(builds.groupload(), [], options)
            cluster = stack.enter_context(kafka_cluster(folder, BROKERS, heap_mib=1_024))
            peers.make_topics(cluster.brokers[0].port)
            for way in _ways(stack, cluster, folder):
                _warm_up(bench, way)
                for connections in CONNECTIONS:
                    found[way.name, connections] = [
                        _load(bench, way, connections, options.seconds) for _ in range(options.rounds)
                    ]
        except (NotHere, Failed) as reason:
            return [Sheet("Nodes over a cluster's log: skipped", ("why",), [(str(reason),)])]
    return [sheet(found, bench.notes)]


def _ways(stack: ExitStack, cluster: Cluster, folder: Path) -> Iterator[Way]:
    """Kafka's own coordinator; a node with a log of its own; one, two and three nodes over the cluster's log."""
    brokers = [broker.pid for broker in cluster.brokers]
    yield Way(KAFKA, [Peer(KAFKA, cluster.brokers[0].port, brokers[0])], brokers[1:])
    with _front(folder / "local", cluster, {}) as front:
        yield Way(LOCAL, [Peer(LOCAL, front.addresses["kafka"][1], front.pid)], brokers)
    nodes: list[Peer] = []
    for number in range(1, NODES + 1):
        more = {"offsets.log": "cluster", "node.id": str(number)}
        daemon = stack.enter_context(_front(folder / f"node-{number}", cluster, more))
        nodes.append(Peer(f"node {number}", daemon.addresses["kafka"][1], daemon.pid))
        _until_shared(daemon, number)
        yield Way(f"musterd, {number} {'nodes' if number > 1 else 'node'}", tuple(nodes), brokers)


def _front(folder: Path, cluster: Cluster, more: dict[str, str]) -> Daemon:
    first = free_port()
    settings = {
        "upstream.servers": cluster.bootstrap,
        "upstream.listener.ports": f"{first}-{first + 9}",
        "offsets.topic.num.partitions": str(SHARDS),
        "group.initial.rebalance.delay.ms": "0",
    }
    return Daemon(folder, {**settings, **more})


def _until_shared(daemon: Daemon, nodes: int) -> None:
    """Until the newest node serves its share. Raises NotHere."""
    host, port = daemon.addresses["http"]
    deadline = time.monotonic() + _LOADED_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # 503 until it is loaded
            with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=5) as answer:
                ready = json.load(answer)
            if ready["shards_loaded"] == ready["shards_total"] == SHARDS // nodes:
                return
        time.sleep(0.2)
    raise NotHere(f"node {nodes} did not serve its share within {_LOADED_S:g} s")


def _warm_up(bench: Bench, way: Way) -> None:
    """Ask until all coordinators are there, and Kafka's code is compiled. Raises Failed."""
    deadline = time.monotonic() + _LOADED_S
    while True:
        try:
            _load(bench, way, CONNECTIONS[0], _WARM_UP_QUICK_S if bench.options.quick else _WARM_UP_S)
        except Failed:
            if time.monotonic() > deadline:
                raise
        else:
            return


def _load(bench: Bench, way: Way, connections: int, seconds: float) -> dict[str, Any]:
    pids = [*(peer.pid for peer in way.servers[1:]), *way.brokers]
    arguments = ["--conns", str(connections), "--groups", str(connections), "--topic", OFFSETS_TOPIC]
    arguments += ["--seconds", str(seconds)]
    arguments += ["--pid", ",".join(map(str, pids))] if pids else []
    return bench.ask(way.servers[0], "commit", *arguments)


def sheet(found: Figures, notes: Sequence[str]) -> Sheet:
    """Compare each way with the coordinator of Kafka."""
    rows: list[tuple[Value, ...]] = []
    for (name, connections), answers in found.items():
        rate, p50, p99 = (
            median([one["rps"] for one in answers]),
            median([one["lat_us"]["p50"] for one in answers]) / 1_000,
            median([one["lat_us"]["p99"] for one in answers]) / 1_000,
        )
        kafka = found[KAFKA, connections]
        rows.append(
            (
                name,
                connections,
                rate,
                rate / median([one["rps"] for one in kafka]),
                p50,
                p99,
                p99 * 1_000 / median([one["lat_us"]["p99"] for one in kafka]),
                median([one["server_us_per_req"] for one in answers]),
            )
        )
    columns = ("way", "connections", "commits/s", "of Kafka's", "p50 ms", "p99 ms", "of Kafka's", "CPU us a commit")
    return Sheet(
        "Commits of 1 partition: nodes over a cluster's log, beside the cluster's own coordinator",
        columns,
        rows,
        (
            f"{BROKERS} brokers, 3 replicas, min.insync.replicas 2; a group of one member a connection; CPU is that of",
            "nodes and brokers together. Goals: three nodes have Kafka's rate, and 1.5 times its p99 at most.",
            *notes,
        ),
    )

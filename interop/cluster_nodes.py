"""Musterd over the log of one cluster (docs/cluster.md)."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interop.nodes.cuttable_proxy import CuttableProxy
from interop.server import Musterd
from tests.edges.musterd import free_port, is_free

SHARDS = 12
NODES_GROUP = "__muster_nodes"
_BEHIND = "127.0.0.2"
"""Address of nodes behind a balancer, which has their ports at another."""


class Node(Musterd):
    """One of them, which answers over HTTP too."""

    http = "127.0.0.1:0"

    def ask(self, path: str) -> Any:
        """Return what it answers to a GET of the path. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=30) as answer:
            return json.load(answer)


def node(number: int, brokers: str, work: Path, *settings: str) -> Node:
    """Start a node with a folder and listeners of its own."""
    first = free_port()
    return Node(work / f"musterd-{number}", *_settings(number, brokers, f"{first}-{first + 20}"), *settings)


class _BehindNode(Node):
    """A node that clients reach at an address which is not its own."""

    def __init__(self, front: str, behind: str, folder: Path, *settings: str) -> None:
        self.kafka = behind
        super().__init__(folder, *settings, f"advertised.kafka={front}")
        self.bootstrap = front


@contextmanager
def node_behind_a_balancer(number: int, brokers: str, count: int, work: Path) -> Iterator[Node]:
    """Start a node over so many brokers whose addresses stay while it is away, as those of a load balancer do: who
    connects then is let in, and hung up on. It ends with the block."""
    ports: list[int] = []
    while not ports or not all(map(is_free, ports)):
        first = free_port()
        ports = list(range(first, first + count + 1))
    proxy = CuttableProxy(ports, ports, _BEHIND)
    try:
        settings = _settings(number, brokers, f"{ports[1]}-{ports[-1]}")
        folder = work / f"musterd-{number}"
        behind = _BehindNode(f"127.0.0.1:{ports[0]}", f"{_BEHIND}:{ports[0]}", folder, *settings)
        try:
            yield behind
        finally:
            behind.end()
    finally:
        proxy.close()


def _settings(number: int, brokers: str, ports: str) -> tuple[str, ...]:
    return (
        f"node.id={number}",
        "offsets.log=cluster",
        f"offsets.topic.num.partitions={SHARDS}",
        f"upstream.servers={brokers}",
        f"upstream.listener.ports={ports}",
    )

"""Musterd over the log of one cluster (docs/cluster.md)."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from interop.server import Musterd
from tests.edges.musterd import free_port

SHARDS = 12
NODES_GROUP = "__muster_nodes"


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
    return Node(
        work / f"musterd-{number}",
        f"node.id={number}",
        "offsets.log=cluster",
        f"offsets.topic.num.partitions={SHARDS}",
        f"upstream.servers={brokers}",
        f"upstream.listener.ports={first}-{first + 20}",
        *settings,
    )

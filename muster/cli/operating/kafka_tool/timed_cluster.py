"""A client whose requests wait no longer than `--timeout` allows."""

import time
from collections.abc import Iterable, Mapping
from math import inf
from typing import TypeVar

from membership.events import NodeAddress
from membership.topic_partition import TopicPartition
from muster.blocking.cluster import ClusterClient, expect
from muster.cli.asking import Servers
from muster.errors import MusterError
from protocol.messages import Message

_CONNECT_S = 5.0
M = TypeVar("M", bound=Message)


class TimedCluster(ClusterClient):
    """Limits each request, with the search for the node that answers it. As in Kafka's tool, an action of several
    requests may take longer."""

    def __init__(self, servers: Servers, limit_s: float) -> None:
        super().__init__(
            servers.bootstrap,
            client_id="muster-consumer-groups",
            security=servers.security,
            connect_timeout_s=min(_CONNECT_S, limit_s),
        )
        self._limit_s = limit_s

    def ask(self, message: Message, timeout_s: float = inf, *, node: NodeAddress | None = None) -> Message:
        """Ask, with the limit."""
        return super().ask(message, min(timeout_s, self._limit_s), node=node)

    def ask_each(
        self, message: Message, nodes: Iterable[NodeAddress], timeout_s: float = inf
    ) -> dict[NodeAddress, Message | MusterError]:
        """Ask several nodes, with the limit."""
        return super().ask_each(message, nodes, min(timeout_s, self._limit_s))

    def ask_coordinator(self, kind: type[M], group_id: str, message: Message) -> M:
        """Find and ask the coordinator, both within the limit."""
        deadline = time.monotonic() + self._limit_s
        node = self.coordinator(group_id)
        return expect(kind, self.ask(message, max(0.0, deadline - time.monotonic()), node=node))

    def coordinator(self, group_id: str, timeout_s: float = inf) -> NodeAddress:
        """Find the coordinator, with the limit."""
        return super().coordinator(group_id, min(timeout_s, self._limit_s))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        timeout_s: float = inf,
        *,
        isolation_level: str | None = None,
    ) -> Mapping[TopicPartition, int]:
        """Look up offsets, with the limit."""
        return super().offsets(partitions, timestamp, min(timeout_s, self._limit_s), isolation_level=isolation_level)

"""Asking the node that has it: leaders of partitions, coordinators of groups, without membership."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from membership.events import NodeAddress
from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from muster.blocking.connection import Connection
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import dialect_of
from muster.net.fork_guard import ClientCondition
from muster.net.security import SecurityLike
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsTopic,
)
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

RETRY_S = 0.1
EARLIEST, LATEST = -2, -1
R = TypeVar("R", bound=Message)


class Cluster:
    """Nodes known from `bootstrap` on, a connection each, made when first needed. Usable from several threads, which
    wait for each other. `dialect` as for `Connection`; the nodes that others tell of speak the same, or what is said
    of them.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        dialect: str | None = None,
        client_id: str = "muster",
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
    ) -> None:
        self._where = parse_bootstrap(bootstrap, dialect, security, broker_security)
        self._client_id = client_id
        self._lock = ClientCondition()
        self._any = Connection(bootstrap, dialect=dialect, security=security, client_id=client_id)
        self._nodes: dict[tuple[str, int, str], Connection] = {}
        self._leaders: dict[TopicPartition, NodeAddress] = {}
        self._counts: dict[str, int] = {}

    def ask(self, message: Message, timeout_s: float = 30.0, *, node: NodeAddress | None = None) -> Message:
        """The reply of `node`, or of any. Raises as `Connection.ask` does."""
        with self._lock:
            return self._connection(node).ask(message, timeout_s)

    def coordinator(self, group_id: str, timeout_s: float = 30.0) -> NodeAddress:
        """Return who coordinates the group; waits while nobody does. Raises `Refused`, `RequestTimedOut`."""

        def find() -> NodeAddress | None:
            reply = expect(FindCoordinatorReply, self.ask(FindCoordinator((group_id,)), timeout_s))
            found = reply.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                return NodeAddress(found.host, found.port, found.node_id)
            if found.error_code.retriable:
                return None
            raise Refused(found.error_code, found.error_message or f"no coordinator: {found.error_code.name}")

        return until(find, timeout_s, f"nobody coordinates group {group_id}")

    def partition_count(self, topic: str, timeout_s: float = 30.0) -> int:
        """Waits for a topic that is being made, not for a node. Raises `Refused` for a topic that does not exist,
        `CannotConnect`, `RequestTimedOut`.
        """

        def find() -> int | None:
            with self._lock:
                if topic not in self._counts:
                    self._refresh([topic], timeout_s)
                return self._counts.get(topic)

        return until(find, timeout_s, f"topic {topic} has no partitions yet", also_if_lost=False)

    def leader(self, partition: TopicPartition, timeout_s: float = 30.0) -> NodeAddress:
        """Return who has the partition; waits while nobody has. Raises `Refused`, `RequestTimedOut`."""

        def find() -> NodeAddress | None:
            with self._lock:
                if partition not in self._leaders:
                    self._refresh([partition.topic], timeout_s)
                return self._leaders.get(partition)

        return until(find, timeout_s, f"no node has {partition}: does it exist?")

    def forget_leader(self, partition: TopicPartition) -> None:
        """It moved: look again."""
        with self._lock:
            self._leaders.pop(partition, None)

    def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_s: float = 30.0
    ) -> Mapping[TopicPartition, int]:
        """The begin (`EARLIEST`) or end (`LATEST`) of each. Raises `Refused`, `RequestTimedOut`."""
        wanted = sorted(set(partitions))
        found: dict[TopicPartition, int] = {}

        def ask_all() -> Mapping[TopicPartition, int] | None:
            by_node: dict[NodeAddress, list[TopicPartition]] = {}
            for one in wanted:
                if one not in found:
                    by_node.setdefault(self.leader(one, timeout_s), []).append(one)
            for node, ones in by_node.items():
                self._ask_offsets(node, ones, timestamp, timeout_s, found)
            return {one: found[one] for one in wanted} if len(found) == len(wanted) else None

        return until(ask_all, timeout_s, "no offsets came")

    def close(self) -> None:
        with self._lock:
            for connection in (self._any, *self._nodes.values()):
                connection.close()

    def _ask_offsets(
        self,
        node: NodeAddress,
        partitions: list[TopicPartition],
        timestamp: int,
        timeout_s: float,
        found: dict[TopicPartition, int],
    ) -> None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for one in partitions:
            topics.setdefault(one.topic, []).append(ListOffsetsPartition(one.partition, timestamp))
        request = ListOffsets(tuple(ListOffsetsTopic(name, tuple(ones)) for name, ones in topics.items()))
        for topic in expect(ListOffsetsReply, self.ask(request, timeout_s, node=node)).topics:
            for answer in topic.partitions:
                one = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code == ErrorCode.NONE:
                    found[one] = answer.offset
                elif answer.error_code.retriable:
                    self.forget_leader(one)
                else:
                    raise Refused(answer.error_code, f"the offsets of {one}: {answer.error_code.name}")

    def _connection(self, node: NodeAddress | None) -> Connection:
        if node is None:
            return self._any
        key = (node.host, node.port, node.speaks)
        if key not in self._nodes:
            self._nodes[key] = Connection(
                node,
                dialect=dialect_of(node, self._where.dialect),
                security=self._where.security_of(node),
                client_id=self._client_id,
            )
        return self._nodes[key]

    def _refresh(self, topics: list[str], timeout_s: float) -> None:
        asked = Metadata(tuple(MetadataTopic(name) for name in topics))
        reply = expect(MetadataReply, self.ask(asked, timeout_s))
        nodes = nodes_of(reply)
        for topic in reply.topics:
            if topic.name is None or (topic.error_code != ErrorCode.NONE and not topic.partitions):
                code = topic.error_code
                if code.retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise Refused(code, f"there is no topic {topic.name!r}: create it with `muster topics create`")
                raise Refused(code, f"topic {topic.name!r}: {code.name}")
            self._counts[topic.name] = len(topic.partitions)
            for one in topic.partitions:
                if one.leader_id in nodes:
                    self._leaders[TopicPartition(topic.name, one.partition_index)] = nodes[one.leader_id]


def expect(kind: type[R], reply: Message) -> R:
    """The reply, as what it must be. Raises `Refused` with its code where the request failed as a whole."""
    if not isinstance(reply, kind):
        raise MusterError(f"a {type(reply).__name__} came where a {kind.__name__} was due")
    code = getattr(reply, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        raise Refused(code, f"{kind.__name__.removesuffix('Reply')} was refused: {code.name}")
    return reply


T = TypeVar("T")


def until(attempt: Callable[[], T | None], timeout_s: float, sentence: str, *, also_if_lost: bool = True) -> T:
    """Try until there is something. A lost connection is tried again too, unless told otherwise, until time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        failure: MusterError
        try:
            result = attempt()
        except CannotConnect as lost:
            if not also_if_lost:
                raise
            failure = lost
        else:
            if result is not None:
                return result
            failure = RequestTimedOut(f"{sentence} (waited {timeout_s:g} s)")
        if time.monotonic() + RETRY_S >= deadline:
            raise failure
        time.sleep(RETRY_S)

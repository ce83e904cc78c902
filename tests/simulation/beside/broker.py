"""The brokers: a node with embedded topics, which may pose as three brokers."""

from typing import TYPE_CHECKING

from coordinator.node.node import AnyNode, Node
from coordinator.placement import AdvertisedAddress, Placement
from coordinator.topics.registry import Topic
from partition_log.store.log_store import LogStore
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.simulation.daemon import TOPICS, Daemon
from tests.simulation.ids import SimIds

if TYPE_CHECKING:
    from coordinator.node.events import Event
    from tests.simulation.beside.watch import Watch

BROKER_HOST, BROKER_PORTS = "hidden", 10
PHOENIX, LATE = "phoenix", "gamma"
"""A topic that is deleted and created again and again, and one that is created later."""
MADE = {**TOPICS, PHOENIX: 2}


class Spread(Placement):
    """One node that poses as several brokers: each leads some partitions and some shards, and has an address of its
    own."""

    brokers: tuple[int, ...] = (1,)

    def leader_of(self, topic: str, partition: int) -> int:
        return self.brokers[partition % len(self.brokers)]

    def coordinator_of(self, shard: int, dialect: str) -> AdvertisedAddress:
        return self._address(self.brokers[shard % len(self.brokers)])

    @property
    def node_ids(self) -> tuple[int, ...]:
        return self.brokers

    def nodes(self, dialect: str) -> tuple[AdvertisedAddress, ...]:
        return tuple(map(self._address, self.brokers))

    def _address(self, broker: int) -> AdvertisedAddress:
        return AdvertisedAddress(broker, BROKER_HOST, BROKER_PORTS + broker)


class Brokers(Daemon):
    """`ids` are the broker ids under which it is known."""

    ids: tuple[int, ...] = (1,)
    watch: "Watch"

    def _make_node(self, store: LogStore, ids: SimIds) -> AnyNode:
        node = Node(self.config, store, ids, {"kafka": (BROKER_HOST, BROKER_PORTS)}, self.moment())
        spread = node.core.placement
        spread.__class__ = Spread  # whoever was given it goes by it from now on
        assert isinstance(spread, Spread)
        spread.brokers = self.ids
        for topic in node.core.embedded:
            topic.reply = Topic(topic.record, node.core.embedded.settings, spread).reply
        return node

    def _make_topics(self, node: AnyNode) -> None:
        missing = tuple(
            CreatableTopic(name, count) for name, count in MADE.items() if node.core.embedded.id_of(name) is None
        )
        if missing:
            self.ask(CreateTopics(missing))

    def ask(self, message: object) -> None:
        """Send an operator's request; the answer is not read."""
        from coordinator.node.events import Call

        self.step(Call(1, message))  # type: ignore[arg-type]

    def _step(self, node: AnyNode, events: "list[Event]") -> None:
        super()._step(node, events)
        if self.node is node:
            self.watch.after_broker_step(node)

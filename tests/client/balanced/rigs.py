"""Test worlds with the model, or with a real node on a simulated disk, and operations for scenarios."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from membership.events import Pushed
from muster.core.producing.batch import Pending, _payload
from protocol.messages import Message
from protocol.messages.balanced import (
    DescribeBalanced,
    DescribeBalancedReply,
    LeaveMember,
    PartitionsChanged,
    PartitionsLost,
)
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.topics import CreatePartitions, GrowingTopic
from protocol.partition_key import parse_key
from protocol.record_batch import seal_batch
from tests.client.balanced.model import Headers
from tests.client.balanced.world import GROUP, World
from tests.node.node_rig import NodeRig


class Owner(NamedTuple):
    consumer_id: str
    reg_epoch: int


class BalancedRig(World):
    """Operations on a world with either coordinator. Keys are those of broker 1."""

    def make(self, topic: str = "t", partitions: int = 2) -> "BalancedRig":
        """Create the topic, or grow it, to this number of partitions."""
        raise NotImplementedError

    def append(self, key: str, *values: bytes, headers: list[Headers] | None = None) -> None:
        """Append a batch."""
        raise NotImplementedError

    def flip(self, key: str, *, subscribable: bool) -> None:
        raise NotImplementedError

    def remove(self, consumer_id: str) -> None:
        """Make the coordinator forget a member, without a notification."""
        raise NotImplementedError

    def owners(self) -> dict[str, Owner]:
        raise NotImplementedError

    def committed(self) -> dict[str, int]:
        raise NotImplementedError

    def members(self) -> list[str]:
        raise NotImplementedError


class ModelRig(BalancedRig):
    def make(self, topic: str = "t", partitions: int = 2) -> "BalancedRig":
        for number in range(partitions):
            self.model.configure(f"1:{topic}:{number}")
        return self

    def append(self, key: str, *values: bytes, headers: list[Headers] | None = None) -> None:
        self.model.configured[key].append(list(values), headers)

    def flip(self, key: str, *, subscribable: bool) -> None:
        self.model.configure(key, subscribable=subscribable)

    def remove(self, consumer_id: str) -> None:
        self.model.remove(consumer_id)

    def owners(self) -> dict[str, Owner]:
        return {key: Owner(one.consumer_id, one.epoch) for key, one in self.model.owners.items()}

    def committed(self) -> dict[str, int]:
        return dict(self.model.stored)

    def members(self) -> list[str]:
        return list(self.model.members)


class BalancedNodeRig(BalancedRig):
    """A world with a real node. Every member has a connection of its own, on which it gets notifications."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(self)
        self.node_rig = NodeRig(**settings)
        self._connections: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._helper = self.node_rig.connect(9_999)
        self._wake()

    def answer(self, message: Message, now_ms: int) -> Message:
        who = getattr(message, "consumer_id", "")
        if who not in self._connections:
            self._connections[who] = self.node_rig.connect(len(self._connections) + 1)
        self._wake()
        heard = self.node_rig.ask(self._connections[who], message)
        (reply,) = [one for one in heard if not isinstance(one, PartitionsLost | PartitionsChanged)]
        self._push(who, [one for one in heard if one is not reply])
        self._deliver_pushes()
        return reply

    def make(self, topic: str = "t", partitions: int = 2) -> "BalancedRig":
        self._wake()
        if topic in self._partitions:
            self._inside(CreatePartitions((GrowingTopic(topic, partitions),)))
        else:
            self.node_rig.make_topic(topic, partitions)
        self._partitions[topic] = partitions
        self._deliver_pushes()
        return self

    def append(self, key: str, *values: bytes, headers: list[Headers] | None = None) -> None:
        place = parse_key(key)
        assert place is not None
        data = batch_of(values, headers)
        self._inside(Produce((ProduceTopic(place.topic, (ProducePartition(place.partition, data),)),), acks=-1))

    def flip(self, key: str, *, subscribable: bool) -> None:
        place = parse_key(key)
        assert place is not None
        name = f"{place.topic}-{place.partition}"
        if subscribable:
            self.node_rig.store.damaged.pop(name)
        else:
            self.node_rig.store.damaged[name] = "torn"
        self.make(f"other{len(self._partitions)}", 1)  # makes the node read its topics again

    def remove(self, consumer_id: str) -> None:
        members = {one.consumer_id: one for one in self._view().groups[0].members}
        self._wake()
        self.node_rig.ask(self._helper, LeaveMember(GROUP, consumer_id, members[consumer_id].member_epoch))

    def owners(self) -> dict[str, Owner]:
        partitions = self._view().groups[0].partitions
        return {one.key: Owner(one.owner, one.reg_epoch) for one in partitions if one.owner is not None}

    def committed(self) -> dict[str, int]:
        shard = self.node_rig.node.core.shard_of(GROUP)
        places = ((topic, number) for topic, count in self._partitions.items() for number in range(count))
        found = {place: shard.offsets.get(GROUP, *place) for place in places}
        return {f"1:{topic}:{number}": one.offset for (topic, number), one in found.items() if one is not None}

    def members(self) -> list[str]:
        return [one.consumer_id for one in self._view().groups[0].members]

    def _view(self) -> DescribeBalancedReply:
        self._wake()
        (reply,) = self.node_rig.ask(self._helper, DescribeBalanced((GROUP,)))
        assert isinstance(reply, DescribeBalancedReply)
        return reply

    def _inside(self, message: Message) -> None:
        self._wake()
        assert self.node_rig.ask_inside(message, call=97) is not None

    def _wake(self) -> None:
        self.node_rig.now_ms = self.now_ms
        self.node_rig.wake_until_idle()

    def _deliver_pushes(self) -> None:
        for who, number in self._connections.items():
            self._push(who, self.node_rig.heard(number))

    def _push(self, who: str, pushes: Sequence[Message]) -> None:
        for player in self.players:
            for push in pushes if player.who == who else ():
                self.after(self.latency_ms, partial(player.feed, Pushed(push)))


def batch_of(values: Sequence[bytes], headers: list[Headers] | None) -> bytes:
    given = headers or [()] * len(values)
    records = [Pending(None, value, of_it, 1, None) for value, of_it in zip(values, given, strict=True)]
    return seal_batch(_payload(records, 1), len(values), 1)


RIGS: dict[str, Callable[[], BalancedRig]] = {"model": ModelRig, "node": BalancedNodeRig}

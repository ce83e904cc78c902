"""A group that the coordinator balances (KIP-848) at a node by itself: what one more member costs until everybody owns
its share, and a heartbeat that says nothing new. Part of `python -m bench alone`.

Members share connections, as in `bench.consumer_groups`, and send heartbeats in rounds, without a pause.
"""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.balanced_members import VERSION, BalancedGroup, BalancedMember
from bench.node_rig import Rig
from protocol.kafka.client import KafkaClient
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatReply

PARTITIONS = 10_000
_TOPIC = "balanced"
_CONNECTIONS = 10
_MOST_REPLY_BYTES = 1 << 24
_INTERVAL_MS = 1_000
"""Least time between two computations of the target; so long a round lasts for the node."""


class AddedAlone(NamedTuple):
    """One member was added. `rounds`: heartbeats of each member. `members_ms`: what the bench's own members took."""

    node_ms: float
    members_ms: float
    rounds: int


class BalancedAlone:
    """A group of so many members, on connections from `first` on."""

    def __init__(self, rig: Rig, size: int, first: int) -> None:
        self._rig = rig
        self._took_us = 0.0
        self._group = BalancedGroup({(topic := f"{_TOPIC}-{size}"): PARTITIONS}, ())
        rig.make_topic(topic, PARTITIONS)
        numbers = range(first, first + _CONNECTIONS)
        self._clients = {number: KafkaClient("bench", _MOST_REPLY_BYTES) for number in numbers}
        for number in self._clients:
            rig.open(number)
        self._group.make(size)
        self._settle()

    def add_one(self) -> AddedAlone:
        """Add a member, and wait until everybody owns its share."""
        self._rig.wait(_INTERVAL_MS)
        before_us, began_ns = self._took_us, time.thread_time_ns()
        self._beat([self._group.make(1)])
        rounds = self._settle()
        node_ms = (self._took_us - before_us) / 1_000
        return AddedAlone(node_ms, (time.thread_time_ns() - began_ns) / 1e6 - node_ms, rounds)

    def beat_us(self) -> float:
        """Send a heartbeat of each member that owns its share. Return the microseconds of one."""
        before_us = self._took_us
        self._beat(self._group.members)
        return (self._took_us - before_us) / len(self._group.members)

    def _settle(self) -> int:
        rounds = 0
        while not self._group.is_balanced:
            self._rig.wait(_INTERVAL_MS)
            self._beat(self._group.members)
            rounds += 1
        return rounds

    def _beat(self, members: Sequence[BalancedMember]) -> None:
        for turn in _turns(members):
            asking = dict(zip(self._clients, turn, strict=False))
            frames = {
                number: self._clients[number].encode_request(member.request(), VERSION)[1]
                for number, member in asking.items()
            }
            took_us, sent = self._rig.serve(frames)
            self._took_us += took_us
            for number, member in asking.items():
                reply = self._clients[number].receive_data(sent[number])[0].reply
                assert isinstance(reply, ConsumerGroupHeartbeatReply)
                member.hear(reply)


def _turns(members: Sequence[BalancedMember]) -> Iterator[Sequence[BalancedMember]]:
    """One member of each connection at a time."""
    for at in range(0, len(members), _CONNECTIONS):
        yield members[at : at + _CONNECTIONS]

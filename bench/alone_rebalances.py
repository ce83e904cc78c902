"""A group of many members at a node by itself: milliseconds of the processor when one is added. Part of `python -m
bench alone`.

Each member has a connection of Kafka's protocol. The new one joins; the others learn of it by a heartbeat and join
again; all sync, and the leader brings the assignments.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.node_rig import SESSION_MS, Rig
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)

_VERSION = 3
"""Version of all requests: the last in which a new member joins by one request."""
_OFFERS = (JoinProtocol("range", bytes(32)),)
_ASSIGNMENT = bytes(48)
_MOST_REPLY_BYTES = 1 << 24


class StandingGroup:
    """A group whose members all have their assignments, on connections from `first` on."""

    def __init__(self, rig: Rig, size: int, first: int) -> None:
        self._rig = rig
        self._group_id = f"group-of-{size}"
        self._next = first
        self._clients: dict[int, KafkaClient] = {}
        self._joined: dict[int, JoinGroupReply] = {}
        self._took_us = 0.0
        self._rebalance([self._connect()])
        self._rebalance([self._connect() for _ in range(size - 1)])

    def add_one(self) -> float:
        """Add a member, and take it out again. Return the milliseconds that the first of these took."""
        began_us, added = self._took_us, self._connect()
        self._rebalance([added])
        took_ms = (self._took_us - began_us) / 1_000
        entry = LeavingMember(self._joined.pop(added).member_id)
        self._ask({added: LeaveGroup(self._group_id, (entry,))})
        self._rebalance([])
        return took_ms

    def _connect(self) -> int:
        number = self._next
        self._next += 1
        self._rig.open(number)
        self._clients[number] = KafkaClient("bench", _MOST_REPLY_BYTES)
        return number

    def _rebalance(self, added: Sequence[int]) -> None:
        standing = list(self._joined)
        answered = self._ask({number: self._join("") for number in added})
        beats = {number: Heartbeat(self._group_id, *self._named(number)) for number in standing}
        assert all(beat.error_code for beat in self._ask(beats).values()), "a heartbeat knows of no rebalance"
        answered |= self._ask({number: self._join(self._joined[number].member_id) for number in standing})
        self._joined = {number: answered[number] for number in (*standing, *added)}
        given = tuple([SyncGroupAssignment(one.member_id, _ASSIGNMENT) for one in self._joined.values()])
        syncs = {
            number: SyncGroup(self._group_id, *self._named(number), assignments=given if joined.members else ())
            for number, joined in self._joined.items()
        }
        assert all(one.assignment == _ASSIGNMENT for one in self._ask(syncs).values()), "a member has no assignment"

    def _join(self, member_id: str) -> JoinGroup:
        return JoinGroup(self._group_id, SESSION_MS, member_id, "consumer", _OFFERS, SESSION_MS)

    def _named(self, number: int) -> tuple[int, str]:
        joined = self._joined[number]
        return joined.generation_id, joined.member_id

    def _ask(self, messages: Mapping[int, Message]) -> dict[int, Any]:
        """Send the messages, by connection. Return the replies that have come to any connection since."""
        clients = self._clients
        frames = {number: clients[number].encode_request(message, _VERSION)[1] for number, message in messages.items()}
        took_us, sent = self._rig.serve(frames)
        self._took_us += took_us
        return {number: clients[number].receive_data(data)[0].reply for number, data in sent.items()}

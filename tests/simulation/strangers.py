"""Clients that are not members: a zombie, a repeated request, many requests at once."""

from random import Random
from typing import Protocol

import msgspec

from protocol.messages import Message
from protocol.messages.groups import JoinGroup, SyncGroup, SyncGroupAssignment
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.native.client import NativeAnswer
from tests.simulation.faults import Seen
from tests.simulation.members import Exchange, SimMember
from tests.simulation.network import Link
from tests.simulation.wires import Dialect


class Caller(Protocol):
    """Client with a connection."""

    link: Link | None
    dialect: Dialect


class Ghost:
    """A late commit of a killed member under its old id, long after others have taken over."""

    def __init__(self, dead: "SimMember", exchange: Exchange, seen: Seen) -> None:
        self.link: Link | None = None
        self._exchange, self._seen, self._dead = exchange, seen, dead
        self.dialect = dead.dialect
        self._client = self.dialect.connect(f"ghost of {dead.name}")
        topics = tuple(
            OffsetCommitTopic(partition.topic, (OffsetCommitPartition(partition.partition, position),))
            for partition, position in dead.held.items()
            if position is not None
        )
        self.message = OffsetCommit(
            dead.settings.group_id,
            topics,
            generation_id=dead.membership.generation_id,
            member_id=dead.membership.member_id,
        )

    def haunt(self) -> None:
        """Send it."""
        if self.link is not None and self.message.topics and self.message.generation_id >= 0:
            self._exchange.asked(self._dead, self.message)
            self.link.to_daemon.send(self._client.encode_request(self.message)[1])

    def received(self, data: bytes) -> None:
        """The answer, which the checkers judge."""
        for item in self._client.receive_data(data):
            if isinstance(item, NativeAnswer):
                self._exchange.heard(self._dead, self.message, item.reply)
                self._seen.add("late commits of the dead")
                assert isinstance(item.reply, OffsetCommitReply)
                refused = any(part.error_code for topic in item.reply.topics for part in topic.partitions)
                self._seen.add("refused late commits", refused)


class Echo:
    """A duplicate of a member's last request, on a connection of its own, as after a lost connection. Never of a
    commit: the order of two commits in flight is not known."""

    def __init__(self, member: SimMember, exchange: Exchange, seen: Seen) -> None:
        self.link: Link | None = None
        self.dialect = member.dialect
        self._member, self._exchange, self._seen = member, exchange, seen
        self._client = self.dialect.connect(f"echo of {member.name}")
        self._message: Message | None = member.last_request

    def call(self) -> None:
        if self.link is None or self._message is None or isinstance(self._message, OffsetCommit):
            return
        self._message = msgspec.structs.replace(self._message)
        self._exchange.asked(self._member, self._message)
        self._seen.add("requests sent again on a new connection")
        self.link.to_daemon.send(self._client.encode_request(self._message)[1])

    def received(self, data: bytes) -> None:
        for item in self._client.receive_data(data):
            if isinstance(item, NativeAnswer):
                self._exchange.heard(self._member, self._message, item.reply)


def foreign(seen: Seen, random: Random, message: SyncGroup) -> SyncGroup:
    """Return a SyncGroup that assigns to ids that are not members, besides the members."""
    seen.add("assignments to strangers")
    lines = [SyncGroupAssignment(f"nobody-{random.randrange(99)}", b"x" * 20), *message.assignments]
    random.shuffle(lines)
    return msgspec.structs.replace(message, assignments=tuple(lines))


def oversized(seen: Seen, size: int, message: SyncGroup) -> SyncGroup:
    """Return a SyncGroup with an assignment larger than any batch."""
    seen.add("assignments too large to store")
    first, *others = message.assignments
    first = msgspec.structs.replace(first, assignment=first.assignment + bytes(size))
    return msgspec.structs.replace(message, assignments=(first, *others))


def may_be_sent_again(message: Message | None) -> bool:
    """See `Echo`. A first join has no member id: its duplicate is another member."""
    return message is not None and not isinstance(message, OffsetCommit)


__all__ = ["Caller", "Echo", "Ghost", "JoinGroup", "foreign", "may_be_sent_again", "oversized"]

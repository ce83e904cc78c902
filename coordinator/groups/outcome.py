"""The outcome of one event of a group: records, replies, notes, operations to watch."""

from collections.abc import Generator, Hashable
from typing import Any, NamedTuple, Protocol

from coordinator.clock import Moment
from coordinator.records.records import Note, ShardRecord
from protocol.messages import Message
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation


class IdSource(Protocol):
    """Source of unguessable ids; seeded in tests."""

    def member_id(self, prefix: str) -> str:
        """Return `<prefix>-<uuid>`: a member id never handed out before."""


Steps = Generator[Any, None, None]
"""Work of a group that takes many steps of the node. Yields the estimated microseconds of its last piece, or an event
of the group, which goes through the table before the next piece. Between two pieces the group may change in any way."""


class Answer(NamedTuple):
    """A reply to send. Unless `at_once`, it is sent when the group's last record is on disk."""

    ref: RequestRef
    reply: Message
    at_once: bool


class Outcome:
    """Result of an action: records first, then everything else. If the records cannot be appended, nothing else
    happens: replies, notes, watches and follow-up events are dropped, and the table gets `AppendFailed` instead.

    `watched` maps a key to the operation to watch, or to None to cancel it. The last entry of a key wins, so watching
    and cancelling in one step cannot be misordered.
    """

    __slots__ = (
        "follow_ups",
        "ids",
        "is_splittable",
        "moment",
        "notes",
        "pushes",
        "records",
        "replies",
        "watched",
        "work",
    )

    def __init__(self, moment: Moment, ids: IdSource) -> None:
        self.moment = moment
        self.ids = ids
        self.records: list[ShardRecord] = []
        self.replies: list[Answer] = []
        self.notes: list[Note] = []
        self.watched: dict[Hashable, DelayedOperation[Any] | None] = {}
        self.pushes: list[tuple[int, Message]] = []
        self.follow_ups: list[Any] = []
        """Follow-up events: events of the same group that go through the table once the records are applied."""
        self.work: list[Steps] = []
        """Work in slices that begins once the records are applied."""
        self.is_splittable = False
        """Permission to append the records as several batches if they are too large for one: each part is valid by
        itself, and the event can be repeated."""

    def reply(self, ref: RequestRef, reply: Message) -> None:
        """Send the reply when the records it depends on are durable."""
        self.replies.append(Answer(ref, reply, False))

    def reply_at_once(self, ref: RequestRef, reply: Message) -> None:
        """Send the reply without waiting for the disk: it promises nothing durable."""
        self.replies.append(Answer(ref, reply, True))

    def watch(self, operation: DelayedOperation[Any]) -> None:
        """Watch the operation, in place of any other under its key."""
        self.watched[operation.key] = operation

    def cancel(self, key: Hashable) -> None:
        """Cancel the operation under the key: it ends without completing."""
        self.watched[key] = None

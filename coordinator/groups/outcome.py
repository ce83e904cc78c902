"""What one step of a group amounts to."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coordinator.clock import Moment
from coordinator.records.records import Note, ShardRecord
from protocol.messages import Message
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation


class IdSource(Protocol):
    """Where unguessable ids come from; seeded in tests."""

    def member_id(self, prefix: str) -> str:
        """`<prefix>-<uuid>`: a member id never handed out before."""


class Answer(NamedTuple):
    """A reply on its way. Unless `at_once`, it leaves when the group's last record is on disk."""

    ref: RequestRef
    reply: Message
    at_once: bool


@dataclass(slots=True)
class Outcome:
    """What an action wants: records first, then everything else. If the records cannot be appended nothing else of it
    happens: replies, notes, watches and followers are dropped and the table gets `AppendFailed` instead.

    `watched` maps a key to the operation to watch, or to None to cancel it: the last word per key wins, so watching and
    cancelling in one step cannot be misordered.
    """

    moment: Moment
    ids: IdSource
    records: list[ShardRecord] = field(default_factory=list)
    replies: list[Answer] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    watched: dict[Hashable, DelayedOperation[Any] | None] = field(default_factory=dict)
    pushes: list[tuple[int, Message]] = field(default_factory=list)
    followers: list[Any] = field(default_factory=list)
    """Events of the same group that go through the table once the records are applied."""
    comes_apart: bool = False
    """Records too large for one batch may be several: each part does good by itself, and the event can come again."""

    def reply(self, ref: RequestRef, reply: Message) -> None:
        """Answer when what the reply promises is durable."""
        self.replies.append(Answer(ref, reply, False))

    def reply_at_once(self, ref: RequestRef, reply: Message) -> None:
        """Answer without waiting for the disk: the reply promises nothing durable."""
        self.replies.append(Answer(ref, reply, True))

    def watch(self, operation: DelayedOperation[Any]) -> None:
        """Let the operation wait, in place of any other under its key."""
        self.watched[operation.key] = operation

    def cancel(self, key: Hashable) -> None:
        """What waits under the key ends without completing."""
        self.watched[key] = None

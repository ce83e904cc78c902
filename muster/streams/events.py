"""Events of a streams connector besides those of its membership, and its effects.

Events go into `Steps.step`, effects come out and are carried out in their order.
"""

from collections.abc import Mapping

from membership.events import MemberEffect, MemberEvent
from membership.topic_partition import TopicPartition
from muster.streams.assignment import Shares
from protocol.errors import ErrorCode

Owned = Mapping[str, Mapping[int, int]]
"""By topic: partition to thread."""


class Begin(MemberEvent, frozen=True):
    """The streams are made: join the group."""


class ListenerDone(MemberEvent, frozen=True):
    """The listener has returned, or raised."""

    error: Exception | None = None


class CommitWanted(MemberEvent, frozen=True):
    """The application wants what is consumed committed, in at most so many tries."""

    number: int
    tries: int


class Shut(MemberEvent, frozen=True):
    """The application is leaving."""


class GrantsLost(MemberEffect, frozen=True):
    """The registry no longer names this member for these."""

    partitions: tuple[TopicPartition, ...]


class TellMember(MemberEffect, frozen=True):
    """Let the membership hear this."""

    event: MemberEvent


class FetchWanted(MemberEffect, frozen=True):
    """Let the pump go on: there is something new to fetch."""


class TellReleasing(MemberEffect, frozen=True):
    """Call the listener's `before_releasing`, and say `ListenerDone`."""

    owned: Owned


class TellStarting(MemberEffect, frozen=True):
    """Call the listener's `before_starting`, and say `ListenerDone`."""

    owned: Owned
    everyone: Shares | None


class Started(MemberEffect, frozen=True):
    """The first rebalance is over: what was waited for is there, or will not be."""

    error: Exception | None = None


class Report(MemberEffect, frozen=True):
    """The application should hear of this; nothing waits for it."""

    error: Exception


class CommitEnded(MemberEffect, frozen=True):
    """The outcome of a `CommitWanted`."""

    number: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, int]
    reason: str = ""


class StreamsEnded(MemberEffect, frozen=True):
    """The group is left; nothing follows."""

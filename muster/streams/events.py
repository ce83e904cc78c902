"""Events of a streams connector besides those of its membership, and its effects.

Events go into `Steps.step`, effects come out and are carried out in their order.
"""

from collections.abc import Mapping

from membership.events import MemberEffect, MemberEvent
from membership.topic_partition import TopicPartition
from muster.streams.assignment import Shares
from protocol.errors import ErrorCode

Owned = Mapping[str, Mapping[int, int]]
"""Threads of partitions, by topic."""


class Begin(MemberEvent, frozen=True):
    """The streams are made: join the group."""


class ListenerDone(MemberEvent, frozen=True):
    """The listener has returned, or raised."""

    error: Exception | None = None


class CommitWanted(MemberEvent, frozen=True):
    """The application requests a commit of the consumed offsets, in at most `tries` attempts."""

    number: int
    tries: int


class Shut(MemberEvent, frozen=True):
    """The application shuts the connector down."""


class GrantsLost(MemberEffect, frozen=True):
    """The registry no longer has this member as the owner of these partitions."""

    partitions: tuple[TopicPartition, ...]


class FeedMember(MemberEffect, frozen=True):
    """Pass an event to the membership."""

    event: MemberEvent


class FetchWanted(MemberEffect, frozen=True):
    """Step the fetcher, since there is something new to fetch."""


class CallBeforeReleasing(MemberEffect, frozen=True):
    """Call the listener's `before_releasing`, then send `ListenerDone`."""

    owned: Owned


class CallBeforeStarting(MemberEffect, frozen=True):
    """Call the listener's `before_starting`, then send `ListenerDone`."""

    owned: Owned
    everyone: Shares | None


class Started(MemberEffect, frozen=True):
    """The first rebalance is over, with success or an error."""

    error: Exception | None = None


class Report(MemberEffect, frozen=True):
    """An error for the application that no call waits for."""

    error: Exception


class CommitEnded(MemberEffect, frozen=True):
    """The outcome of a `CommitWanted`."""

    number: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, int]
    reason: str = ""


class StreamsEnded(MemberEffect, frozen=True):
    """The connector has left the group; no effect follows."""

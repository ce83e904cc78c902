"""Events and effects of a member.

Events go into `Membership.step`, effects come out. An effect that needs an answer has a number, and an event with this
number brings the answer: `SendRequest` and `Replied`, `CallFailed` or, if no answer is expected, `Departed`;
`CommitAsked` and `CommitDone`; `Revoked` or `LostPartitions` and `Released`. Effects are carried out in their order.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message


class NodeAddress(NamedTuple):
    """Address of a node. `speaks`: its dialect; empty for that of the bootstrap server; "kafka" for a broker of the
    cluster behind musterd, which has records and gets no requests about groups.
    """

    host: str
    port: int
    node_id: int = -1
    speaks: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class OffsetToCommit(msgspec.Struct, frozen=True):
    """Next offset to read of a partition, and metadata stored with it. With `owner_epoch` it is stored only while that
    grant of the registry is in force.
    """

    offset: int
    metadata: str | None = None
    owner_epoch: int = -1


class Grant(msgspec.Struct, frozen=True):
    """Grant of a partition to this member alone; `committed`: the group's offset at the time of the grant, if any."""

    epoch: int
    committed: int | None = None


class MemberEvent(msgspec.Struct, frozen=True):
    """Base of the events of `Membership.step`."""


class Polled(MemberEvent, frozen=True):
    """The application polled. A member joins only at this event."""


class Released(MemberEvent, frozen=True):
    """The application has released the partitions of a `Revoked` or `LostPartitions`."""


class Subscribed(MemberEvent, frozen=True):
    """The application subscribes to these topics."""

    topics: tuple[str, ...]


class SubscribedToPattern(MemberEvent, frozen=True):
    """The application subscribes to all topics whose whole name matches, future ones too, and internal ones (`__...`)
    only with `internal_too`. `pattern` is known to compile.
    """

    pattern: str
    internal_too: bool = False


class SubscribedToRegex(MemberEvent, frozen=True):
    """The application subscribes to all topics whose whole name matches at the coordinator, by RE2's rules, future and
    internal ones too. Only a member of a group that the coordinator balances can do this.
    """

    regex: str


class AssignedByHand(MemberEvent, frozen=True):
    """The application chose its partitions itself: it does not join the group, but commits the group's offsets."""

    partitions: tuple[TopicPartition, ...]


class RejoinAsked(MemberEvent, frozen=True):
    """The application requests a rebalance at its next poll."""

    reason: str


class TimePassed(MemberEvent, frozen=True):
    """Time has passed: `next_deadline_ms` is reached, or may be."""


class Replied(MemberEvent, frozen=True):
    """The answer to a `SendRequest`; `reason` is the server's error message, if it refused the request."""

    call: int
    reply: Message
    reason: str = ""


class CallFailed(MemberEvent, frozen=True):
    """A `SendRequest` that will not be answered: its connection failed, or was lost. `is_unreached`: the node never
    answered on that connection.
    """

    call: int
    is_unreached: bool = False


class Departed(MemberEvent, frozen=True):
    """A `SendRequest` that gets no answer was sent; its data are no longer needed."""

    call: int


class Pushed(MemberEvent, frozen=True):
    """A notification arrived."""

    message: Message


class CommitAsked(MemberEvent, frozen=True):
    """Commit the offsets of held partitions. Retriable errors are retried until `deadline_ms`, unless `once`: a retried
    asynchronous commit would overtake later ones (docs/spec/consumer-client.md#A8)."""

    operation: int
    offsets: Mapping[TopicPartition, OffsetToCommit]
    deadline_ms: int
    once: bool = False


class OffsetsAsked(MemberEvent, frozen=True):
    """Fetch the group's committed offsets; possible without membership."""

    operation: int
    partitions: tuple[TopicPartition, ...]
    deadline_ms: int


class ClaimAsked(MemberEvent, frozen=True):
    """Claim these partitions of this generation's assignment, each for a thread of the member; all or none are
    granted."""

    operation: int
    threads: Mapping[TopicPartition, int]
    generation_id: int
    deadline_ms: int


class ReleaseAsked(MemberEvent, frozen=True):
    """Release partitions, with the member id and generation of their grants; not retried."""

    operation: int
    epochs: Mapping[TopicPartition, int]
    member_id: str
    generation_id: int
    deadline_ms: int


class Closing(MemberEvent, frozen=True):
    """The application closes the member."""


class MemberEffect(msgspec.Struct, frozen=True):
    """Base of the effects of `Membership.step`."""


class SendRequest(MemberEffect, frozen=True):
    """Send a request to `node`, or to any known node if it is None."""

    call: int
    node: NodeAddress | None
    message: Message


class HangUp(MemberEffect, frozen=True):
    """Close the connection to `node` (None: the one for requests to any node), so that a new one is opened."""

    node: NodeAddress | None


class Revoked(MemberEffect, frozen=True):
    """The application must release these partitions, and answer `Released`; it may still commit their offsets
    before."""

    partitions: tuple[TopicPartition, ...]


class LostPartitions(MemberEffect, frozen=True):
    """Like `Revoked`, but other members may own these partitions already, and the coordinator refuses their commits.
    With `still_counts` a rebalance is under way, and the coordinator still accepts commits of the last generation.
    """

    partitions: tuple[TopicPartition, ...]
    reason: str
    still_counts: bool = False


class Assigned(MemberEffect, frozen=True):
    """The member's new assignment; `added`: the partitions that it did not have before; all of them after an eager
    rebalance. A `Revoked` before it named the partitions that a cooperative rebalance takes away.
    """

    partitions: tuple[TopicPartition, ...]
    generation_id: int
    added: tuple[TopicPartition, ...]


class CommitDone(MemberEffect, frozen=True):
    """Result of a `CommitAsked`; `offsets`: those that the coordinator has stored."""

    operation: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, OffsetToCommit]
    reason: str = ""


class OffsetsDone(MemberEffect, frozen=True):
    """Result of an `OffsetsAsked`; None for a partition without a committed offset."""

    operation: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, int | None]


class ClaimDone(MemberEffect, frozen=True):
    """Result of a `ClaimAsked`; `owners`: owners of partitions that were refused as OWNED. The grants belong to
    `member_id` and `generation_id`.
    """

    operation: int
    error_code: ErrorCode
    grants: Mapping[TopicPartition, Grant]
    owners: Mapping[TopicPartition, str]
    member_id: str
    generation_id: int


class ReleaseDone(MemberEffect, frozen=True):
    """Result of a `ReleaseAsked`."""

    operation: int
    error_code: ErrorCode


class Fatal(MemberEffect, frozen=True):
    """The member cannot continue by itself: after FENCED_INSTANCE_ID never, else from the next poll."""

    error_code: ErrorCode
    reason: str


class Closed(MemberEffect, frozen=True):
    """The member has left; no effect follows."""

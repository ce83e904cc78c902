"""Events of a member, and the effects it asks for.

Events go into `Membership.step`, effects come out. An effect that needs an answer has a number, and an event brings the
answer back under it: `SendRequest` and `Replied`, `CallFailed` or, where none is due, `Departed`; `CommitAsked` and
`CommitDone`; `Revoked` or `LostPartitions` and `Released`. Effects are carried out in their order.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message


class NodeAddress(NamedTuple):
    """Address that a node listens on. `speaks`: its dialect; empty for the bootstrap's; "kafka" for a broker of the
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
    grant of the registry holds.
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
    """The application asked for work. Joining begins here and nowhere else."""


class Released(MemberEvent, frozen=True):
    """The application has released the partitions of a `Revoked` or `LostPartitions`."""


class Subscribed(MemberEvent, frozen=True):
    """The application wants these topics from now on."""

    topics: tuple[str, ...]


class SubscribedToPattern(MemberEvent, frozen=True):
    """The application wants every topic whose whole name matches, future ones too; internal ones (`__...`) only with
    `internal_too`. `pattern` is known to compile.
    """

    pattern: str
    internal_too: bool = False


class SubscribedToRegex(MemberEvent, frozen=True):
    """The application wants every topic whose whole name the coordinator finds to match, by RE2's rules: future ones
    too, and internal ones. A member of a group that it balances alone can ask for that.
    """

    regex: str


class AssignedByHand(MemberEvent, frozen=True):
    """The application chose its partitions itself: it is no member of the group, but commits the group's offsets."""

    partitions: tuple[TopicPartition, ...]


class RejoinAsked(MemberEvent, frozen=True):
    """The application wants a rebalance at its next poll."""

    reason: str


class TimePassed(MemberEvent, frozen=True):
    """Time has passed: `next_deadline_ms` is reached, or may be."""


class Replied(MemberEvent, frozen=True):
    """The answer to a `SendRequest`; `reason` is the server's sentence for people, if it refused."""

    call: int
    reply: Message
    reason: str = ""


class CallFailed(MemberEvent, frozen=True):
    """A `SendRequest` that will not be answered: its connection failed, or was lost. `is_unreached`: the node never
    answered anything on that connection.
    """

    call: int
    is_unreached: bool = False


class Departed(MemberEvent, frozen=True):
    """A `SendRequest` that is never answered was sent; its data need not be kept any longer."""

    call: int


class Pushed(MemberEvent, frozen=True):
    """A notification arrived."""

    message: Message


class CommitAsked(MemberEvent, frozen=True):
    """Commit the offsets of held partitions. Retriable errors are retried until `deadline_ms`, unless `once`:
    asynchronous commits would overtake later ones (docs/spec/consumer-client.md#A8)."""

    operation: int
    offsets: Mapping[TopicPartition, OffsetToCommit]
    deadline_ms: int
    once: bool = False


class OffsetsAsked(MemberEvent, frozen=True):
    """Fetch the group's committed offsets; no membership needed."""

    operation: int
    partitions: tuple[TopicPartition, ...]
    deadline_ms: int


class ClaimAsked(MemberEvent, frozen=True):
    """Claim these partitions of this generation's assignment, each for a thread of the member: all or none."""

    operation: int
    threads: Mapping[TopicPartition, int]
    generation_id: int
    deadline_ms: int


class ReleaseAsked(MemberEvent, frozen=True):
    """Release partitions, with the member id and generation of their grants; sent once."""

    operation: int
    epochs: Mapping[TopicPartition, int]
    member_id: str
    generation_id: int
    deadline_ms: int


class Closing(MemberEvent, frozen=True):
    """The application is leaving."""


class MemberEffect(msgspec.Struct, frozen=True):
    """Base of the effects of `Membership.step`."""


class SendRequest(MemberEffect, frozen=True):
    """Send a request to `node`, or to any known node if it is None."""

    call: int
    node: NodeAddress | None
    message: Message


class HangUp(MemberEffect, frozen=True):
    """Close the connection to `node` (None: the one for requests to any node), so that a new one is made."""

    node: NodeAddress | None


class Revoked(MemberEffect, frozen=True):
    """The application must release these partitions, and answer `Released`; it may still commit them before."""

    partitions: tuple[TopicPartition, ...]


class LostPartitions(MemberEffect, frozen=True):
    """Like `Revoked`, but others may have these partitions already, and the coordinator will refuse commits of them.
    With `still_counts` a rebalance is under way, and it still takes commits of the last generation.
    """

    partitions: tuple[TopicPartition, ...]
    reason: str
    still_counts: bool = False


class Assigned(MemberEffect, frozen=True):
    """The member's new assignment; `added`: the partitions that it did not have before, all of them after an eager
    rebalance. A `Revoked` before it named the partitions that a cooperative rebalance takes away.
    """

    partitions: tuple[TopicPartition, ...]
    generation_id: int
    added: tuple[TopicPartition, ...]


class CommitDone(MemberEffect, frozen=True):
    """Result of a `CommitAsked`; `offsets` are those that the coordinator has stored."""

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
    """The member cannot go on by itself. After FENCED_INSTANCE_ID it never will; else the next poll tries again."""

    error_code: ErrorCode
    reason: str


class Closed(MemberEffect, frozen=True):
    """The member has left; nothing follows."""

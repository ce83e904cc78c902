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
    """The address that a node listens on. `speaks` is empty where it speaks what the bootstrap does; "kafka" is said of
    a broker beside musterd: it has records, and is asked nothing about groups.
    """

    host: str
    port: int
    node_id: int = -1
    speaks: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class OffsetToCommit(msgspec.Struct, frozen=True):
    """The next offset to read of a partition, and a word to keep with it. With `owner_epoch` it is stored only while
    that grant of the registry holds.
    """

    offset: int
    metadata: str | None = None
    owner_epoch: int = -1


class Grant(msgspec.Struct, frozen=True):
    """A partition is this member's alone; `committed` is the group's offset in the moment of the grant, None: none."""

    epoch: int
    committed: int | None = None


class MemberEvent(msgspec.Struct, frozen=True):
    """Base of what goes into `Membership.step`."""


class Polled(MemberEvent, frozen=True):
    """The application asked for work. Joining begins here and nowhere else."""


class Released(MemberEvent, frozen=True):
    """The application has let go of what a `Revoked` or `LostPartitions` named."""


class Subscribed(MemberEvent, frozen=True):
    """The application wants these topics from now on."""

    topics: tuple[str, ...]


class SubscribedToPattern(MemberEvent, frozen=True):
    """The application wants every topic whose whole name matches, those to come too; internal ones (`__...`) only with
    `internal_too`. Raises nothing: `pattern` was compiled before.
    """

    pattern: str
    internal_too: bool = False


class AssignedByHand(MemberEvent, frozen=True):
    """The application chose its partitions itself: it is no member, and commits for nobody but itself."""

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
    """A `SendRequest` that is never answered has left: nobody here has to keep what it carried."""

    call: int


class Pushed(MemberEvent, frozen=True):
    """A notification arrived."""

    message: Message


class CommitAsked(MemberEvent, frozen=True):
    """Commit what of these offsets belongs to partitions held. Tried again until `deadline_ms` where that can help,
    unless `once` (docs/spec/consumer-client.md#A8: asynchronous commits are not, they would overtake later ones)."""

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
    """Own these partitions of the assignment of this generation, each for a thread of the member: all or none."""

    operation: int
    threads: Mapping[TopicPartition, int]
    generation_id: int
    deadline_ms: int


class ReleaseAsked(MemberEvent, frozen=True):
    """Own them no longer. Asked once, as who the member was when it was granted them."""

    operation: int
    epochs: Mapping[TopicPartition, int]
    member_id: str
    generation_id: int
    deadline_ms: int


class Closing(MemberEvent, frozen=True):
    """The application is leaving."""


class MemberEffect(msgspec.Struct, frozen=True):
    """Base of what comes out of `Membership.step`."""


class SendRequest(MemberEffect, frozen=True):
    """Send a request to `node`, or to any node known when it is None."""

    call: int
    node: NodeAddress | None
    message: Message


class HangUp(MemberEffect, frozen=True):
    """Drop the connection to `node` (None: to the one any-node calls go to), so that it is made anew."""

    node: NodeAddress | None


class Revoked(MemberEffect, frozen=True):
    """The application must let these go, may still commit them, and says `Released` when done."""

    partitions: tuple[TopicPartition, ...]


class LostPartitions(MemberEffect, frozen=True):
    """Like `Revoked`, but others may have these already: commits of them will be refused. Not so with `still_counts`: a
    rebalance is under way, and until it moves on the coordinator takes a commit of the generation before it.
    """

    partitions: tuple[TopicPartition, ...]
    reason: str
    still_counts: bool = False


class Assigned(MemberEffect, frozen=True):
    """These are the member's from now on, `added` those it did not have before: all of them after an eager rebalance.
    What a cooperative one takes away was named by a `Revoked` before it.
    """

    partitions: tuple[TopicPartition, ...]
    generation_id: int
    added: tuple[TopicPartition, ...]


class CommitDone(MemberEffect, frozen=True):
    """The outcome of a `CommitAsked`; `offsets` are those the coordinator has stored."""

    operation: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, OffsetToCommit]
    reason: str = ""


class OffsetsDone(MemberEffect, frozen=True):
    """The outcome of an `OffsetsAsked`; None: nothing committed."""

    operation: int
    error_code: ErrorCode
    offsets: Mapping[TopicPartition, int | None]


class ClaimDone(MemberEffect, frozen=True):
    """The outcome of a `ClaimAsked`; `owners` names who has what was refused as OWNED. `member_id` and `generation_id`
    are what the grants belong to.
    """

    operation: int
    error_code: ErrorCode
    grants: Mapping[TopicPartition, Grant]
    owners: Mapping[TopicPartition, str]
    member_id: str
    generation_id: int


class ReleaseDone(MemberEffect, frozen=True):
    """The outcome of a `ReleaseAsked`."""

    operation: int
    error_code: ErrorCode


class Fatal(MemberEffect, frozen=True):
    """The member cannot go on by itself. After FENCED_INSTANCE_ID it never will; else the next poll tries again."""

    error_code: ErrorCode
    reason: str


class Closed(MemberEffect, frozen=True):
    """The member has left; nothing follows."""

"""Records of the logs, as Structs. Their bytes are made in `codec.py` and `muster_codec.py`.

An action builds records and never applies them; only `Shard.apply` does, live and at load alike.
"""

from typing import Final

import msgspec

from coordinator.records.consumer_records import ConsumerRecord
from protocol.messages.groups import OffsetChange, Origin, PreviousHolder, SlowestMember


class LogCorrupt(Exception):
    """A record of a known type whose bytes do not parse. Loading stops, since skipping records would lose offsets."""


class MemberRecord(msgspec.Struct, frozen=True, gc=False):
    """A member in its group's generation. `subscription` is that of the chosen protocol only."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


REBALANCE_AFTER_LOAD_MS: Final = -2
"""State timestamp of a group whose members have not joined again since it was converted. If the group were loaded as
Stable, some of them would wait for ever for their assignments. It differs from -1, the unknown time in a record of
version 0."""
HOLDS_MORE_MS: Final = -3
"""State timestamp of such a group in which a member still holds partitions that the record does not assign to it: it
must not be converted again until its members have joined."""


class GroupMetadata(msgspec.Struct, frozen=True):
    """A group: Stable if it has members, else Empty (docs/spec/group-protocol.md#5.2, #5.3). An empty `protocol_type`
    is none."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberRecord, ...] = ()


class GroupTombstone(msgspec.Struct, frozen=True, gc=False):
    """Tombstone of the group."""

    group_id: str


class MemberReplaced(msgspec.Struct, frozen=True, gc=False):
    """The static member of an instance has a new member id since the group's record of this generation, and keeps its
    assignment. Written in place of a new group record, which would name all members again."""

    group_id: str
    instance_id: str
    generation_id: int
    member_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """The offset from which a group continues in a partition. `expire_timestamp_ms` is -1 unless the commit named a
    retention."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes | None = None


class OffsetTombstone(msgspec.Struct, frozen=True, gc=False):
    """Tombstone of the group's committed offset of the partition."""

    group_id: str
    topic: str
    partition: int


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Owner of a partition. A member of a classic group names its thread and generation; for one of a client-balanced
    group they are -1. `lease_ms`: its session timeout. `position`: first position of a member of a client-balanced
    group; -1 for others."""

    member_id: str
    thread: int
    generation_id: int
    since_ms: int
    lease_ms: int
    position: int = -1


class Ownership(msgspec.Struct, frozen=True, gc=False):
    """A grant, the `epoch`th of this partition in the group. Without an owner the grant has ended; the record keeps the
    epoch."""

    group_id: str
    topic: str
    partition: int
    epoch: int
    owner: Owner | None = None


class OwnershipTombstone(msgspec.Struct, frozen=True, gc=False):
    """Tombstone of a partition's grants, after the group's deletion."""

    group_id: str
    topic: str
    partition: int


class BalancedMember(msgspec.Struct, frozen=True, gc=False):
    """A member of a client-balanced group. `epoch` is that of its last start; `mark` the operator's last mark when it
    first started; `attempt` the largest start counter that it sent, since a start with a smaller one is late."""

    consumer_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    node_id: int | None
    consume_position: str
    session_timeout_ms: int
    epoch: int
    mark: int
    attempt: int = 0


class BalancedMetadata(msgspec.Struct, frozen=True):
    """A client-balanced group: its members, and the settings they share. Without members there are no settings, and the
    counters are kept. `meta_digest` is that of the configured partitions of `meta_version`; `replaced` are objects
    whose instance belongs to another."""

    group_id: str
    state_timestamp_ms: int
    epoch: int = 0
    meta_version: int = 0
    meta_digest: bytes = b""
    from_max_id: int = 0
    topics: tuple[str, ...] = ()
    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    source_count: int | None = None
    members: tuple[BalancedMember, ...] = ()
    replaced: tuple[str, ...] = ()
    mode: str = "client"


class BalancedTombstone(msgspec.Struct, frozen=True, gc=False):
    """Tombstone of the client-balanced group."""

    group_id: str


class GroupSettingsRecord(msgspec.Struct, frozen=True, gc=False):
    """A group's own settings, by their keys, in a log that nodes share (`coordinator.runtime.group_configs`); without
    any it is a tombstone."""

    group_id: str
    settings: dict[str, str] = {}


class TransactionEnded(msgspec.Struct, frozen=True, gc=False):
    """A marker: the producer's pending offsets in this log become valid, or are dropped."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int = 0


ShardRecord = (
    GroupMetadata
    | GroupTombstone
    | MemberReplaced
    | CommittedOffset
    | OffsetTombstone
    | Ownership
    | OwnershipTombstone
    | BalancedMetadata
    | BalancedTombstone
    | GroupSettingsRecord
    | ConsumerRecord
)
"""Records of the offsets log that have a key. Whether `CommittedOffset`s belong to a transaction is an attribute of
their batch; a `TransactionEnded` is a batch of its own."""


class Note(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event of a group and its reason, stored in the notes log and in the group's journal.

    `kind` is `rebalance` (exactly one where each rebalance begins), `completed` (a generation came out of it),
    `assigned` (its leader's assignments are there), `dropped` (members left out at the end of a phase), `expired`
    (the retention of offsets, or of the group, is over), `member` (one of a client-balanced group came, left or
    lost partitions), `epoch` (a consumer group's epoch moved on), `target` (its target assignment was computed),
    `converted` (the group changed its protocol), `moved` (another node coordinates it) or `admin`.
    `number` grows by one a note within its group. Notes of one kind and cause with the same `subject` fold into one if
    no other note comes in between: it has happened `times` times since `since_ms`, and the other fields are of the
    last. The fields behind it are those of `ListedNote`.
    """

    group_id: str
    kind: str
    cause: str
    initiator: str
    detail: str
    generation_id: int
    members: int
    group_state: str
    wall_ms: int
    number: int = -1
    subject: str = ""
    times: int = 1
    since_ms: int = -1
    origin: Origin | None = None
    took_ms: int = -1
    slowest: SlowestMember | None = None
    joined: tuple[str, ...] = ()
    previous: PreviousHolder | None = None
    idle_ms: int = -1
    rebalance_timeout_ms: int = -1
    act: str = ""
    changes: tuple[OffsetChange, ...] = ()
    moved_partitions: int = -1
    kept_partitions: int = -1

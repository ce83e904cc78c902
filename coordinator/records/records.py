"""What stands in the logs, as Structs. Their bytes are made in `record_bytes.py`.

An action builds records and never applies them; `Shard.apply` is the only one that does, live and at load alike.
"""

import msgspec


class LogCorrupt(Exception):
    """A record of a known type whose bytes do not parse. Loading stops: guessing would lose offsets."""


class MemberRecord(msgspec.Struct, frozen=True, gc=False):
    """A member as of the generation its group's record is about. `subscription` is for the chosen protocol alone."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


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
    """The group is gone."""

    group_id: str


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """The next offset a group will read of a partition. `expire_timestamp_ms` is -1 unless the commit named a
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
    """The group has no committed offset for the partition any more."""

    group_id: str
    topic: str
    partition: int


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Who may read a partition for its group. A member of a classic group names its thread and generation; for one of
    a client-balanced group they are -1. `lease_ms`: how long it may be silent. `position`: where a member of a
    client-balanced group began to read; -1 for others."""

    member_id: str
    thread: int
    generation_id: int
    since_ms: int
    lease_ms: int
    position: int = -1


class Ownership(msgspec.Struct, frozen=True, gc=False):
    """A grant, the `epoch`th of this partition to a member of the group; without owner: it has ended, and the epoch is
    remembered."""

    group_id: str
    topic: str
    partition: int
    epoch: int
    owner: Owner | None = None


class OwnershipTombstone(msgspec.Struct, frozen=True, gc=False):
    """The group is gone, and who owned the partition with it."""

    group_id: str
    topic: str
    partition: int


class BalancedMember(msgspec.Struct, frozen=True, gc=False):
    """A member of a client-balanced group. `epoch` is that of its last start, `mark` the last operator's wish when it
    first came, `attempt` the largest that it counted its starts by: an earlier one comes late."""

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
    """A client-balanced group: what its members agree on, and who they are; without members there is nothing to agree
    on, and the counters are remembered. `meta_digest` is that of the configured partitions which `meta_version` stands
    for; `replaced` are objects whose instance is another's now."""

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


class BalancedTombstone(msgspec.Struct, frozen=True, gc=False):
    """The group is gone, and that its members balanced themselves with it."""

    group_id: str


class TransactionEnded(msgspec.Struct, frozen=True, gc=False):
    """A marker: the offsets that the producer has pending in this log count from here on, or are dropped."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int = 0


ShardRecord = (
    GroupMetadata
    | GroupTombstone
    | CommittedOffset
    | OffsetTombstone
    | Ownership
    | OwnershipTombstone
    | BalancedMetadata
    | BalancedTombstone
)
"""What stands in the offsets log under a key. A batch says whether its `CommittedOffset`s are a transaction's, and
a `TransactionEnded` is a batch of its own."""


class Note(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something happened to a group; stands in the notes log and in the group's journal.

    `kind` is `rebalance` (exactly one where each rebalance begins), `completed` (a generation came out of it),
    `dropped` (members left out at the end of a phase), `expired` (offsets, or the group, were kept for as long as they
    may be), `member` (one of a client-balanced group came, went or lost partitions) or `admin`. `number` grows by one
    a note within its group. Notes of one kind and cause with the same `subject` fold into one if nothing else comes in
    between: it has happened `times` times since `since_ms`, and the rest is of the last.
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

"""Records of groups that the coordinator balances (KIP-848, docs/spec/consumer-group-protocol.md#14.1)."""

import enum

import msgspec

PARTITIONS = tuple[int, ...]


class ConsumerKey(enum.IntEnum):
    """Type of a record: the version of its key."""

    GROUP = 3
    TOPICS = 4
    MEMBER = 5
    TARGET = 6
    MEMBER_TARGET = 7
    ASSIGNMENT = 8
    REGEX = 16


class ReconciliationState(enum.IntEnum):
    """State of a member. A state of a newer writer is read as UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ConsumerGroupRecord(msgspec.Struct, frozen=True, gc=False):
    """Group epoch, and digest of the topics that its members subscribe to; 0: there is none."""

    group_id: str
    epoch: int
    metadata_hash: int = 0


class TopicRacks(msgspec.Struct, frozen=True):
    """Topic as groups recorded it before Kafka 4.1: the racks of some partitions, by number."""

    topic_id: bytes
    name: str
    partitions: int
    racks: tuple[tuple[int, tuple[str, ...]], ...] = ()


class ConsumerTopicsRecord(msgspec.Struct, frozen=True):
    """Topics of a group. No longer written: a tombstone replaces it when the group's epoch next changes."""

    group_id: str
    topics: tuple[TopicRacks, ...] = ()


class ClassicMetadata(msgspec.Struct, frozen=True):
    """Fields of a member that speaks the classic protocol: its session timeout, and its protocols with their
    subscriptions."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMemberRecord(msgspec.Struct, frozen=True):
    """Metadata of a member. `classic` is None for one that speaks the consumer protocol. Its topics' names are sorted,
    each once."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


class TargetRecord(msgspec.Struct, frozen=True, gc=False):
    """Target epoch: the group epoch for which the target assignment was computed. `timestamp_ms`: when; 0: never."""

    group_id: str
    epoch: int
    timestamp_ms: int = 0


class MemberTargetRecord(msgspec.Struct, frozen=True):
    """Target assignment of a member: partitions by topic id."""

    group_id: str
    member_id: str
    topics: tuple[tuple[bytes, PARTITIONS], ...] = ()


class AssignedTopic(msgspec.Struct, frozen=True):
    """Partitions of a topic, and for each the target epoch at which the member received it."""

    topic_id: bytes
    partitions: PARTITIONS
    epochs: PARTITIONS


class AssignmentRecord(msgspec.Struct, frozen=True):
    """Current assignment of a member: the partitions that it may use, and those that it has yet to revoke."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: tuple[AssignedTopic, ...] = ()
    pending: tuple[AssignedTopic, ...] = ()


class RegexRecord(msgspec.Struct, frozen=True):
    """Topics that matched a pattern. `version`: that of the topics' metadata."""

    group_id: str
    pattern: str
    topics: tuple[str, ...] = ()
    version: int = 0
    timestamp_ms: int = 0


class ConsumerTombstone(msgspec.Struct, frozen=True, gc=False):
    """Tombstone of a record. `name`: the member's id or the pattern, where the key has one."""

    group_id: str
    key: ConsumerKey
    name: str = ""


ConsumerRecord = (
    ConsumerGroupRecord
    | ConsumerTopicsRecord
    | ConsumerMemberRecord
    | TargetRecord
    | MemberTargetRecord
    | AssignmentRecord
    | RegexRecord
    | ConsumerTombstone
)

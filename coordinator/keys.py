"""Keys of delayed operations, and of the notifications they listen to.

Clients choose ids of groups and members and names of topics. A key therefore has a type: keys of two kinds are never
equal, whatever clients choose.
"""

import msgspec


class PhaseKey(msgspec.Struct, frozen=True, gc=False):
    """The join or sync phase of a classic group: it has one of them at most."""

    group_id: str


class MemberKey(msgspec.Struct, frozen=True, gc=False):
    """A member's session; before that, the use of the id that was handed out to it."""

    group_id: str
    member_id: str


class LeaseKey(msgspec.Struct, frozen=True, gc=False):
    """Time for which a member that is out of the group still owns partitions."""

    group_id: str
    member_id: str


class BalancedLeaseKey(msgspec.Struct, frozen=True, gc=False):
    """Session of a member of a client-balanced group; it covers all that the member owns."""

    group_id: str
    consumer_id: str


class ConsumerSessionKey(msgspec.Struct, frozen=True, gc=False):
    """Session of a member of a consumer group."""

    group_id: str
    member_id: str


class RevocationKey(msgspec.Struct, frozen=True, gc=False):
    """Time in which a member of a consumer group must revoke partitions."""

    group_id: str
    member_id: str


class RejoinKey(msgspec.Struct, frozen=True, gc=False):
    """Time in which a classic member of a consumer group, told to, must join again."""

    group_id: str
    member_id: str


class FirstSyncKey(msgspec.Struct, frozen=True, gc=False):
    """Time in which a classic member of a consumer group that joined must sync."""

    group_id: str
    member_id: str


class NextTargetKey(msgspec.Struct, frozen=True, gc=False):
    """The time from which a consumer group may have its next target computed."""

    group_id: str


class FetchKey(msgspec.Struct, frozen=True, gc=False):
    """A delayed fetch: the request of this number on the connection."""

    connection: int
    number: int


class LookupKey(msgspec.Struct, frozen=True, gc=False):
    """A delayed FindCoordinator: the request of this number on the connection."""

    connection: int
    number: int


class MovedShardKey(msgspec.Struct, frozen=True, gc=False):
    """The next owner of the shard, which lookups listen to."""

    shard: int


class ProduceKey(msgspec.Struct, frozen=True, gc=False):
    """A Produce whose records wait to be durable: the request of this number on the connection."""

    connection: int
    number: int


class FlushKey(msgspec.Struct, frozen=True, gc=False):
    """Durability of what was appended, which Produce requests listen to."""


class NewRecordsKey(msgspec.Struct, frozen=True, gc=False):
    """New records of the partition, which fetches listen to."""

    topic: str
    partition: int


class TaskKey(msgspec.Struct, frozen=True, gc=False):
    """A scheduled task of the node."""

    name: str


class UpstreamKey(msgspec.Struct, frozen=True, gc=False):
    """Requests to the cluster, until all are answered."""

    number: int


class LoginKey(msgspec.Struct, frozen=True, gc=False):
    """The delayed end of a failed login on the connection; `call` numbers those of HTTP."""

    connection: int
    call: int = -1


class ThrottleKey(msgspec.Struct, frozen=True, gc=False):
    """End of the time for which nothing is read from the connection."""

    connection: int


OperationKey = (
    PhaseKey
    | MemberKey
    | LeaseKey
    | BalancedLeaseKey
    | ConsumerSessionKey
    | RevocationKey
    | RejoinKey
    | FirstSyncKey
    | NextTargetKey
    | FetchKey
    | LookupKey
    | MovedShardKey
    | ProduceKey
    | FlushKey
    | NewRecordsKey
    | TaskKey
    | UpstreamKey
    | LoginKey
    | ThrottleKey
)

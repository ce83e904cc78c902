"""THE TABLE of a connection in front of a broker: which of Kafka's APIs are answered here, which are the broker's with
an answer that names addresses, which go through as they are; and what ApiVersions therefore says.

An API that stands in no row is neither offered nor handed on, whatever the broker knows: nobody has looked whether its
answers name a broker's own address. A client that learnt one would ask that broker who coordinates its groups.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from protocol.apis import APIS, BY_MESSAGE
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs, ResourceType
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    SyncGroup,
)
from protocol.messages.node import ApiVersion, ApiVersionsReply, DescribeCluster, FinalizedFeature, FindCoordinator
from protocol.messages.offsets import OffsetCommit, OffsetDelete, OffsetFetch
from protocol.messages.topics import Metadata

PRODUCE: Final = 0
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
DESCRIBE_CLUSTER: Final = 60

OURS: Final[tuple[type[Message], ...]] = (
    OffsetCommit,
    OffsetFetch,
    FindCoordinator,
    JoinGroup,
    Heartbeat,
    LeaveGroup,
    SyncGroup,
    DescribeGroups,
    ListGroups,
    DeleteGroups,
    OffsetDelete,
)
"""Answered here. FindCoordinator is, where it asks for groups; for transactions it is the broker's."""

OUR_KEYS: Final = frozenset(BY_MESSAGE[message].key for message in OURS)

OF_GROUPS: Final[tuple[type[Message], ...]] = (DescribeConfigs, AlterConfigs, IncrementalAlterConfigs)
"""Answered here, where all that they name are groups; else the broker's, as they are."""

SHARED_KEYS: Final = frozenset({FIND_COORDINATOR, *(BY_MESSAGE[message].key for message in OF_GROUPS)})
"""Which has to be read before it is known whose they are."""

REWRITTEN: Final = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)
"""The broker's, with addresses in the answer."""

OURS_WHILE_AWAY: Final[tuple[type[Message], ...]] = (Metadata, DescribeCluster)
"""Answered here while no broker can be reached: without them a group cannot share its partitions out, and no client or
tool that is new finds the way in."""

KEYS_WHILE_AWAY: Final = frozenset(BY_MESSAGE[message].key for message in OURS_WHILE_AWAY)

PASSED: Final = {
    PRODUCE: 9,  # from 10 on the answer names the new leader's address (KIP-951)
    1: 15,  # Fetch: from 16 on, the same
    2: 11,  # ListOffsets
    SASL_HANDSHAKE: 1,  # 0 is followed by bytes without a frame's header
    19: 7,  # CreateTopics
    20: 6,  # DeleteTopics
    21: 2,  # DeleteRecords
    22: 6,  # InitProducerId
    23: 4,  # OffsetForLeaderEpoch
    24: 5,  # AddPartitionsToTxn
    26: 5,  # EndTxn
    27: 2,  # WriteTxnMarkers
    29: 3,  # DescribeAcls
    30: 3,  # CreateAcls
    31: 3,  # DeleteAcls
    32: 4,  # DescribeConfigs
    33: 2,  # AlterConfigs
    34: 2,  # AlterReplicaLogDirs
    35: 5,  # DescribeLogDirs
    36: 2,  # SaslAuthenticate
    37: 3,  # CreatePartitions
    38: 3,  # CreateDelegationToken
    39: 2,  # RenewDelegationToken
    40: 2,  # ExpireDelegationToken
    41: 3,  # DescribeDelegationToken
    43: 2,  # ElectLeaders
    44: 1,  # IncrementalAlterConfigs
    45: 1,  # AlterPartitionReassignments
    46: 0,  # ListPartitionReassignments
    48: 1,  # DescribeClientQuotas
    49: 1,  # AlterClientQuotas
    50: 0,  # DescribeUserScramCredentials
    51: 0,  # AlterUserScramCredentials
    55: 1,  # DescribeQuorum: from 2 on the answer names addresses
    57: 2,  # UpdateFeatures
    61: 0,  # DescribeProducers
    64: 0,  # UnregisterBroker
    65: 0,  # DescribeTransactions
    66: 2,  # ListTransactions
    71: 0,  # GetTelemetrySubscriptions
    72: 0,  # PushTelemetry
    74: 1,  # ListConfigResources
    75: 0,  # DescribeTopicPartitions
    80: 1,  # AddRaftVoter
    81: 0,  # RemoveRaftVoter
}
"""Handed through as they are, up to this version: the newest of which somebody has seen that its answers, in Apache
Kafka 4.3, name no address. What is missing on purpose: AddOffsetsToTxn and TxnOffsetCommit (25, 28), which would put a
group's offsets where its coordinator is not, and the groups of KIP-848, KIP-932 and KIP-1071 (68, 69, 76 and more)."""

_LOWEST: Final = {SASL_HANDSHAKE: 1}

_ANY_LEVEL: Final = 2**15 - 1

_FEATURES: Final = {"transaction.version": 1, "group.version": 0, "share.version": 0, "streams.version": 0}
"""The highest level a client may be told of. At level 2 of transactions it would leave it to Produce 12 to add
partitions (KIP-890), and that is not offered."""


def names_groups_alone(message: AlterConfigs | DescribeConfigs | IncrementalAlterConfigs) -> bool:
    """Whether such a request about settings is answered here."""
    return bool(message.resources) and all(one.resource_type == ResourceType.GROUP for one in message.resources)


def offer(broker: ApiVersionsReply) -> ApiVersionsReply:
    """What a client is told in place of what the broker said."""
    theirs = {row.api_key: row for row in broker.api_keys}
    rows = []
    for key in sorted({*theirs, *OUR_KEYS, API_VERSIONS}):
        api = APIS.get(key)
        row = theirs.get(key)
        if api is not None and (key == API_VERSIONS or (key in OUR_KEYS and key not in REWRITTEN)):
            rows.append(ApiVersion(key, api.request.oldest, api.request.newest))
        elif row is not None and api is not None and key in REWRITTEN:
            rows += _within(row, api.request.oldest, api.request.newest)
        elif row is not None and key in PASSED:
            rows += _within(row, _LOWEST.get(key, 0), PASSED[key])
    return replace(
        broker,
        api_keys=tuple(rows),
        throttle_time_ms=0,
        finalized_features=tuple(_at_most(one) for one in broker.finalized_features if _level(one.name)),
        supported_features=tuple(
            replace(one, max_version=min(one.max_version, _level(one.name)))
            for one in broker.supported_features
            if one.min_version <= _level(one.name) > 0
        ),
    )


def _level(feature: str) -> int:
    """The highest that may be told of."""
    return _FEATURES.get(feature, _ANY_LEVEL)


def _at_most(feature: FinalizedFeature) -> FinalizedFeature:
    """Java's clients refuse a lowest level above the highest."""
    highest = min(feature.max_version_level, _level(feature.name))
    return replace(feature, max_version_level=highest, min_version_level=min(feature.min_version_level, highest))


def _within(row: ApiVersion, oldest: int, newest: int) -> Iterable[ApiVersion]:
    low, high = max(row.min_version, oldest), min(row.max_version, newest)
    return (ApiVersion(row.api_key, low, high),) if low <= high else ()

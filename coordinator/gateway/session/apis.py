"""Routes of proxied connections: which of Kafka's APIs are answered here, which replies of the broker are rewritten
because they name addresses, and which are forwarded as they are. ApiVersions follows from it.

An API without a row is neither advertised nor forwarded: its replies might name a broker's own address. A client that
learnt one would look for its group's coordinator there.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.kafka.features import FINALIZED_FEATURES, GATEWAY_FEATURE, SUPPORTED_FEATURES
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs, ResourceType
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
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
from protocol.messages.offsets import OffsetCommit, OffsetDelete, OffsetFetch, TxnOffsetCommit
from protocol.messages.topics import Metadata
from protocol.messages.transactions import AddOffsetsToTxn

PRODUCE: Final = 0
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
SASL_HANDSHAKE: Final = 17
SASL_KEYS: Final = frozenset({SASL_HANDSHAKE, 36})
"""SaslHandshake and SaslAuthenticate."""
API_VERSIONS: Final = 18
DESCRIBE_CLUSTER: Final = 60

LOCAL_APIS: Final[tuple[type[Message], ...]] = (
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
"""APIs answered here. FindCoordinator is local for groups; for transactions it is the broker's."""

SERVER_DRIVEN_APIS: Final[tuple[type[Message], ...]] = (ConsumerGroupHeartbeat, ConsumerGroupDescribe)
"""APIs answered here if groups that the coordinator balances are served (KIP-848); else not offered."""

TRANSACTION_APIS: Final[tuple[type[Message], ...]] = (AddOffsetsToTxn, TxnOffsetCommit)
"""APIs answered here if shards are in the cluster's log (docs/spec/shared-log.md#7); else not offered, since the
brokers would store a group's offsets elsewhere than at its coordinator."""


def local_keys(*, is_server_driven: bool, is_transactional: bool) -> frozenset[int]:
    """Return the keys of the APIs answered here."""
    optional = (*(SERVER_DRIVEN_APIS if is_server_driven else ()), *(TRANSACTION_APIS if is_transactional else ()))
    return frozenset(BY_MESSAGE[message].key for message in (*LOCAL_APIS, *optional))


LOCAL_KEYS: Final = local_keys(is_server_driven=True, is_transactional=True)

CONFIG_APIS: Final[tuple[type[Message], ...]] = (DescribeConfigs, AlterConfigs, IncrementalAlterConfigs)
"""APIs answered here if every resource is a group; else forwarded."""

SHARED_KEYS: Final = frozenset({FIND_COORDINATOR, *(BY_MESSAGE[message].key for message in CONFIG_APIS)})
"""APIs whose requests must be read to tell whether they are local or the broker's."""

REWRITTEN_KEYS: Final = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)
"""APIs of the broker whose replies name addresses."""

OFFLINE_APIS: Final[tuple[type[Message], ...]] = (Metadata, DescribeCluster)
"""APIs answered here while no broker can be reached. Without them a group could not assign partitions, and new clients
and tools could not bootstrap."""

OFFLINE_KEYS: Final = frozenset(BY_MESSAGE[message].key for message in OFFLINE_APIS)

FORWARDED_VERSIONS: Final = {
    PRODUCE: 9,  # from 10 on the reply names the new leader's address (KIP-951)
    1: 15,  # Fetch: from 16 on, the same
    2: 11,  # ListOffsets
    SASL_HANDSHAKE: 1,  # in version 0 SASL tokens follow without a request header
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
    55: 1,  # DescribeQuorum: from 2 on the reply names addresses
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
"""APIs forwarded as they are, up to this version: the newest whose replies in Apache Kafka 4.3 were seen to name no
address.

Left out on purpose: the groups of KIP-932 and KIP-1071 (76 and more).
"""

_OLDEST_VERSIONS: Final = {SASL_HANDSHAKE: 1}

_NEWEST_VERSIONS: Final = {BY_MESSAGE[TxnOffsetCommit].key: 4}
"""Newest versions of APIs answered here, where they are not all. From 5 on TxnOffsetCommit adds the offsets to the
transaction by itself, at level 2."""

_NO_LIMIT: Final = 2**15 - 1

_MAX_FEATURE_LEVELS: Final = {"transaction.version": 1, "group.version": 0, "share.version": 0, "streams.version": 0}
"""Highest advertised levels of the broker's features. At transaction level 2 a client leaves adding partitions to
Produce 12 (KIP-890), which is not advertised. The level of groups is this node's own."""


def names_only_groups(message: AlterConfigs | DescribeConfigs | IncrementalAlterConfigs) -> bool:
    """Return whether a config request is answered here."""
    return bool(message.resources) and all(one.resource_type == ResourceType.GROUP for one in message.resources)


def newest_version(key: int) -> int:
    """Return the newest version that is served of an API answered here."""
    return _NEWEST_VERSIONS.get(key, WIRE_APIS[key].request.newest)


def advertised_versions(
    broker: ApiVersionsReply, *, is_server_driven: bool = False, is_transactional: bool = False
) -> ApiVersionsReply:
    """Return the reply to ApiVersions for clients, given the broker's."""
    broker_versions = {row.api_key: row for row in broker.api_keys}
    rows = []
    left_out = LOCAL_KEYS - local_keys(is_server_driven=is_server_driven, is_transactional=is_transactional)
    for key in sorted({*broker_versions, *LOCAL_KEYS, API_VERSIONS} - left_out):
        api = WIRE_APIS.get(key)
        row = broker_versions.get(key)
        if api is not None and (key == API_VERSIONS or (key in LOCAL_KEYS and key not in REWRITTEN_KEYS)):
            rows.append(ApiVersion(key, api.request.oldest, newest_version(key)))
        elif row is not None and api is not None and key in REWRITTEN_KEYS:
            rows += _intersect(row, api.request.oldest, api.request.newest)
        elif row is not None and key in FORWARDED_VERSIONS:
            rows += _intersect(row, _OLDEST_VERSIONS.get(key, 0), FORWARDED_VERSIONS[key])
    return replace(
        broker,
        api_keys=tuple(rows),
        throttle_time_ms=0,
        finalized_features_epoch=max(broker.finalized_features_epoch, 0 if is_server_driven else -1),
        finalized_features=(
            *(_cap_level(one) for one in broker.finalized_features if _max_level(one.name)),
            *(FINALIZED_FEATURES if is_server_driven else ()),
        ),
        supported_features=(
            *(
                replace(one, max_version=min(one.max_version, _max_level(one.name)))
                for one in broker.supported_features
                if one.min_version <= _max_level(one.name) > 0
            ),
            *(SUPPORTED_FEATURES if is_server_driven else ()),
            *((GATEWAY_FEATURE,) if is_transactional else ()),
        ),
    )


def _max_level(feature: str) -> int:
    """Return the highest advertised level of a feature."""
    return _MAX_FEATURE_LEVELS.get(feature, _NO_LIMIT)


def _cap_level(feature: FinalizedFeature) -> FinalizedFeature:
    """Cap both levels: Java's clients reject a lowest level above the highest."""
    highest = min(feature.max_version_level, _max_level(feature.name))
    return replace(feature, max_version_level=highest, min_version_level=min(feature.min_version_level, highest))


def _intersect(row: ApiVersion, oldest: int, newest: int) -> Iterable[ApiVersion]:
    low, high = max(row.min_version, oldest), min(row.max_version, newest)
    return (ApiVersion(row.api_key, low, high),) if low <= high else ()

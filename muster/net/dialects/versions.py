"""Choose the version of Kafka's protocol for a request: the newest that both sides support and that can express it.

A field that an older version lacks requires a later one, unless it may be left out without harm: the reasons of
JoinGroup and LeaveGroup, and the flag for stable offsets (KIP-447), as in the Java consumer.
"""

from collections.abc import Mapping
from typing import Final

from protocol.apis import BY_MESSAGE
from protocol.kafka.login import HANDSHAKE_VERSION
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import Fetch, InitProducerId, Produce
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, ListGroups, SyncGroup
from protocol.messages.node import ApiVersion, DescribeCluster, FindCoordinator, SaslHandshake
from protocol.messages.offsets import ListOffsets, OffsetCommit, OffsetFetch, TxnOffsetCommit
from protocol.messages.topics import CreateTopics, Metadata

NEWEST_BY_NAME: Final[dict[type[Message], int]] = {Produce: 12, Fetch: 12, OffsetCommit: 9, OffsetFetch: 9}
"""From the next version on topics are named only by id, which this client does not know."""
_OF_ADDED: Final[dict[type[Message], int]] = {Produce: 11, TxnOffsetCommit: 4}
"""Limits in a transaction: from the next version on these requests add partitions themselves, and each transaction has
an epoch of its own (KIP-890). This client adds partitions explicitly, and keeps its epoch."""
_TIMESTAMPS: Final = {-3: 7, -4: 8, -5: 9, -6: 11}
"""Special timestamps, and the first version of ListOffsets with each."""
_KEY_TYPES: Final = {0: 0, 1: 1, 2: 6}


class NoCommonVersion(Exception):
    """Raised if no version fits; the text names the request and the versions of both sides."""


def choose(message: Message, offered: Mapping[int, ApiVersion]) -> int:
    """Return the version; `offered` are the server's versions by API. Raises CannotBeSaid."""
    kind = type(message)
    name = kind.__name__
    api = BY_MESSAGE.get(kind)
    if api is None:
        raise NoCommonVersion(f"Kafka's protocol has no {name}: ask musterd at its native listener")
    theirs = offered.get(api.key)
    if theirs is None:
        raise NoCommonVersion(f"the server does not offer {name} (API {api.key})")
    oldest, newest = max(api.request.oldest, _oldest(message)), min(api.request.newest, _newest(message))
    version = min(newest, theirs.max_version)
    if version < max(oldest, theirs.min_version):
        ours = f"versions {oldest} to {newest}" if oldest < newest else f"version {oldest}"
        raise NoCommonVersion(
            f"{name} (API {api.key}) is needed in {ours}, and the server offers {theirs.min_version} to "
            f"{theirs.max_version}"
        )
    return version


def _newest(message: Message) -> int:
    if getattr(message, "transactional_id", None) is not None and type(message) in _OF_ADDED:
        return _OF_ADDED[type(message)]
    if isinstance(message, JoinGroup):
        if not message.wants_member_id_first and message.group_instance_id is None:
            return 3
        return 9 if message.accepts_skip_assignment else 8
    if isinstance(message, SyncGroup) and (message.protocol_type is None or message.protocol_name is None):
        return 4  # later ones must name both
    return NEWEST_BY_NAME.get(type(message), BY_MESSAGE[type(message)].request.newest)


def _oldest(message: Message) -> int:
    match message:
        case JoinGroup():
            return 5 if message.group_instance_id is not None else 0
        case SyncGroup() | Heartbeat():
            return 3 if message.group_instance_id is not None else 0
        case OffsetCommit():
            return 7 if message.group_instance_id is not None else 0
        case LeaveGroup(members=members):
            is_plain = len(members) == 1 and members[0].group_instance_id is None
            return 0 if is_plain else 3
        case OffsetFetch(groups=groups):
            return 2 if len(groups) == 1 else 8  # below 2 there is no field for the group's error
        case FindCoordinator(coordinator_keys=keys, key_type=kind):
            return max(0 if len(keys) == 1 else 4, _KEY_TYPES.get(kind, 0))
        case InitProducerId(producer_id=known):
            return 3 if known >= 0 else 0
        case TxnOffsetCommit(member_id=member_id):
            return 3 if member_id else 0
        case Produce():
            return 3  # below it records have formats that this client does not write
        case Fetch():
            return 7 if message.session_id else 0
        case ListOffsets():
            asked = (_TIMESTAMPS.get(one.timestamp, 0) for topic in message.topics for one in topic.partitions)
            return max(2 if message.isolation_level else 0, *asked, 0)
        case _:
            return _oldest_to_ask_of_the_cluster(message)


def _oldest_to_ask_of_the_cluster(message: Message) -> int:
    match message:
        case Metadata(topics=topics):
            return _oldest_metadata(message) if topics else int(topics is not None)
        case ConsumerGroupHeartbeat():
            return 1 if message.subscribed_topic_regex else 0
        case CreateTopics(topics=topics):
            defaults = any(-1 in {one.num_partitions, one.replication_factor} for one in topics if not one.assignments)
            return 4 if defaults else int(message.validate_only)
        case ListGroups():
            return 5 if message.types_filter else 4 if message.states_filter else 0
        case DescribeCluster():
            return 0 if message.endpoint_type == 1 else 1
        case SaslHandshake():
            return HANDSHAKE_VERSION
        case _:
            return 0


def _oldest_metadata(message: Metadata) -> int:
    """Return the oldest usable version: before 4 every named topic is created."""
    if any(one.name is None for one in message.topics or ()):
        return 12
    return 0 if message.allow_auto_topic_creation else 4

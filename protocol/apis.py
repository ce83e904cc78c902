"""THE TABLE of Kafka's APIs on the wire: key, request, reply, and the oldest version that is really served.

The reply to ApiVersions is made from it and from the set of requests that the node serves.
"""

from typing import Final, NamedTuple

from protocol.kafka.fields import Schema
from protocol.kafka.schemas import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl,
    sync_group,
    txn_offset_commit,
)
from protocol.messages import Message


class Api(NamedTuple):
    """One API. `advertised` false: served, but missing in the reply to ApiVersions."""

    key: int
    request: Schema
    reply: Schema
    advertised: bool = True

    @property
    def message(self) -> type[Message]:
        """The request's type."""
        return self.request.group.message

    def is_flexible(self, version: int) -> bool:
        return version >= self.request.flexible


APIS: Final = {
    api.key: api
    for api in (
        Api(0, produce.REQUEST, produce.REPLY),
        Api(1, fetch.REQUEST, fetch.REPLY),
        Api(2, list_offsets.REQUEST, list_offsets.REPLY),
        Api(3, metadata.REQUEST, metadata.REPLY),
        Api(8, offset_commit.REQUEST, offset_commit.REPLY),
        Api(9, offset_fetch.REQUEST, offset_fetch.REPLY),
        Api(10, find_coordinator.REQUEST, find_coordinator.REPLY),
        Api(11, join_group.REQUEST, join_group.REPLY),
        Api(12, heartbeat.REQUEST, heartbeat.REPLY),
        Api(13, leave_group.REQUEST, leave_group.REPLY),
        Api(14, sync_group.REQUEST, sync_group.REPLY),
        Api(15, describe_groups.REQUEST, describe_groups.REPLY),
        Api(16, list_groups.REQUEST, list_groups.REPLY),
        Api(17, sasl.HANDSHAKE, sasl.HANDSHAKE_REPLY),
        Api(18, api_versions.REQUEST, api_versions.REPLY),
        Api(19, create_topics.REQUEST, create_topics.REPLY),
        Api(20, delete_topics.REQUEST, delete_topics.REPLY),
        Api(22, init_producer_id.REQUEST, init_producer_id.REPLY),
        Api(23, offset_for_leader_epoch.REQUEST, offset_for_leader_epoch.REPLY),
        Api(28, txn_offset_commit.REQUEST, txn_offset_commit.REPLY, advertised=False),
        Api(29, describe_acls.REQUEST, describe_acls.REPLY, advertised=False),
        Api(32, describe_configs.REQUEST, describe_configs.REPLY),
        Api(33, alter_configs.REQUEST, alter_configs.REPLY),
        Api(36, sasl.AUTHENTICATE, sasl.AUTHENTICATE_REPLY),
        Api(37, create_partitions.REQUEST, create_partitions.REPLY),
        Api(42, delete_groups.REQUEST, delete_groups.REPLY),
        Api(44, incremental_alter_configs.REQUEST, incremental_alter_configs.REPLY),
        Api(47, offset_delete.REQUEST, offset_delete.REPLY),
        Api(60, describe_cluster.REQUEST, describe_cluster.REPLY),
        Api(75, describe_topic_partitions.REQUEST, describe_topic_partitions.REPLY),
    )
}

BY_MESSAGE: Final = {api.message: api for api in APIS.values()}

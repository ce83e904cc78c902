"""Table of Kafka's APIs: key, request, reply, and the oldest version that is fully served. The reply to ApiVersions is
made from it and from the set of requests that the node serves.
"""

from typing import Final, NamedTuple

from protocol.kafka.fields import Schema
from protocol.kafka.schemas import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
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


class WireApi(NamedTuple):
    """One API. `advertised` false: missing in a node's own reply to ApiVersions. It may be advertised by listeners in
    front of brokers, or only be sent to brokers by nodes and clients."""

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


WIRE_APIS: Final = {
    api.key: api
    for api in (
        WireApi(0, produce.REQUEST, produce.REPLY),
        WireApi(1, fetch.REQUEST, fetch.REPLY),
        WireApi(2, list_offsets.REQUEST, list_offsets.REPLY),
        WireApi(3, metadata.REQUEST, metadata.REPLY),
        WireApi(8, offset_commit.REQUEST, offset_commit.REPLY),
        WireApi(9, offset_fetch.REQUEST, offset_fetch.REPLY),
        WireApi(10, find_coordinator.REQUEST, find_coordinator.REPLY),
        WireApi(11, join_group.REQUEST, join_group.REPLY),
        WireApi(12, heartbeat.REQUEST, heartbeat.REPLY),
        WireApi(13, leave_group.REQUEST, leave_group.REPLY),
        WireApi(14, sync_group.REQUEST, sync_group.REPLY),
        WireApi(15, describe_groups.REQUEST, describe_groups.REPLY),
        WireApi(16, list_groups.REQUEST, list_groups.REPLY),
        WireApi(17, sasl.HANDSHAKE, sasl.HANDSHAKE_REPLY),
        WireApi(18, api_versions.REQUEST, api_versions.REPLY),
        WireApi(19, create_topics.REQUEST, create_topics.REPLY),
        WireApi(20, delete_topics.REQUEST, delete_topics.REPLY),
        WireApi(22, init_producer_id.REQUEST, init_producer_id.REPLY),
        WireApi(23, offset_for_leader_epoch.REQUEST, offset_for_leader_epoch.REPLY),
        WireApi(24, add_partitions_to_txn.REQUEST, add_partitions_to_txn.REPLY, advertised=False),
        WireApi(25, add_offsets_to_txn.REQUEST, add_offsets_to_txn.REPLY, advertised=False),
        WireApi(26, end_txn.REQUEST, end_txn.REPLY, advertised=False),
        WireApi(28, txn_offset_commit.REQUEST, txn_offset_commit.REPLY, advertised=False),
        WireApi(29, describe_acls.REQUEST, describe_acls.REPLY),
        WireApi(30, create_acls.REQUEST, create_acls.REPLY),
        WireApi(31, delete_acls.REQUEST, delete_acls.REPLY),
        WireApi(32, describe_configs.REQUEST, describe_configs.REPLY),
        WireApi(33, alter_configs.REQUEST, alter_configs.REPLY),
        WireApi(36, sasl.AUTHENTICATE, sasl.AUTHENTICATE_REPLY),
        WireApi(37, create_partitions.REQUEST, create_partitions.REPLY),
        WireApi(42, delete_groups.REQUEST, delete_groups.REPLY),
        WireApi(44, incremental_alter_configs.REQUEST, incremental_alter_configs.REPLY),
        WireApi(47, offset_delete.REQUEST, offset_delete.REPLY),
        WireApi(48, describe_client_quotas.REQUEST, describe_client_quotas.REPLY),
        WireApi(49, alter_client_quotas.REQUEST, alter_client_quotas.REPLY),
        WireApi(50, describe_user_scram_credentials.REQUEST, describe_user_scram_credentials.REPLY),
        WireApi(51, alter_user_scram_credentials.REQUEST, alter_user_scram_credentials.REPLY),
        WireApi(60, describe_cluster.REQUEST, describe_cluster.REPLY),
        WireApi(65, describe_transactions.REQUEST, describe_transactions.REPLY, advertised=False),
        WireApi(68, consumer_group_heartbeat.REQUEST, consumer_group_heartbeat.REPLY),
        WireApi(69, consumer_group_describe.REQUEST, consumer_group_describe.REPLY),
        WireApi(75, describe_topic_partitions.REQUEST, describe_topic_partitions.REPLY),
    )
}

BY_MESSAGE: Final = {api.message: api for api in WIRE_APIS.values()}

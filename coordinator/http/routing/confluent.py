"""Schemas of the answers under `/v3`, which have Confluent REST v3's fields. Pure."""

from typing import Final

from coordinator.http.routing.schemas import (
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TRUTH,
    UNAVAILABLE,
    WHOLE,
    WHOLE_OR_NULL,
    record,
    several,
)
from coordinator.http.shapes import Json

_LINK: Final = record("Link", related={"type": "string", "format": "uri"})
_OWN: Final = record("Metadata", self=TEXT, resource_name=TEXT)


def _one(kind: str, optional: tuple[str, ...] = (), /, **fields: Json) -> Json:
    return record(kind, optional, is_open=False, kind={"const": kind}, metadata=_OWN, cluster_id=TEXT, **fields)


def _list(kind: str, item: Json, optional: tuple[str, ...] = (), /, **fields: Json) -> Json:
    metadata = record("ListMetadata", self=TEXT, next=TEXT_OR_NULL)
    more = {"kind": {"const": kind}, "metadata": metadata, "data": several(item), **fields}
    return record(kind, optional, is_open=False, **more)


CLUSTER: Final = _one("KafkaCluster", controller=_LINK, brokers=_LINK, consumer_groups=_LINK, topics=_LINK)
CLUSTERS: Final = _list("KafkaClusterList", CLUSTER)
BROKER: Final = _one("KafkaBroker", broker_id=WHOLE, host=TEXT, port=WHOLE, rack=TEXT_OR_NULL)
BROKERS: Final = _list("KafkaBrokerList", BROKER)
GROUP: Final = _one(
    "KafkaConsumerGroup",
    consumer_group_id=TEXT,
    is_simple=TRUTH,
    partition_assignor=TEXT,
    state=TEXT,
    coordinator=_LINK,
    consumer=_LINK,
    lag_summary=_LINK,
)
GROUPS: Final = _list("KafkaConsumerGroupList", GROUP, ("unavailable",), unavailable=UNAVAILABLE)
CONSUMER: Final = _one(
    "KafkaConsumer",
    consumer_group_id=TEXT,
    consumer_id=TEXT,
    instance_id=TEXT_OR_NULL,
    client_id=TEXT,
    assignments=_LINK,
)
CONSUMERS: Final = _list("KafkaConsumerList", CONSUMER)
ASSIGNMENT: Final = _one(
    "KafkaConsumerAssignment",
    consumer_group_id=TEXT,
    consumer_id=TEXT,
    topic_name=TEXT,
    partition_id=WHOLE,
    lag=_LINK,
)
ASSIGNMENTS: Final = _list("KafkaConsumerAssignmentList", ASSIGNMENT)
LAG: Final = _one(
    "KafkaConsumerLag",
    ("end_age_ms",),
    consumer_group_id=TEXT,
    topic_name=TEXT,
    partition_id=WHOLE,
    current_offset=WHOLE_OR_NULL,
    log_end_offset=WHOLE_OR_NULL,
    lag=WHOLE_OR_NULL,
    consumer_id=TEXT,
    instance_id=TEXT_OR_NULL,
    client_id=TEXT,
    lag_seconds=NUMBER_OR_NULL,
    commit_age_seconds=NUMBER_OR_NULL,
    end_age_ms=WHOLE,
)
LAGS: Final = _list("KafkaConsumerLagList", LAG)
LAG_SUMMARY: Final = _one(
    "KafkaConsumerGroupLagSummary",
    ("unknown_partitions", "end_age_ms"),
    consumer_group_id=TEXT,
    max_lag_consumer_id=TEXT_OR_NULL,
    max_lag_instance_id=TEXT_OR_NULL,
    max_lag_client_id=TEXT_OR_NULL,
    max_lag_topic_name=TEXT_OR_NULL,
    max_lag_partition_id=WHOLE_OR_NULL,
    max_lag=WHOLE_OR_NULL,
    total_lag=WHOLE_OR_NULL,
    max_lag_seconds=NUMBER_OR_NULL,
    commit_age_seconds=NUMBER_OR_NULL,
    unknown_partitions=WHOLE,
    end_age_ms=WHOLE,
)
TOPIC: Final = _one(
    "KafkaTopic",
    topic_name=TEXT,
    is_internal=TRUTH,
    replication_factor=WHOLE,
    partitions_count=WHOLE,
    partitions=_LINK,
)
TOPICS: Final = _list("KafkaTopicList", TOPIC)
PARTITION: Final = _one(
    "KafkaPartition",
    topic_name=TEXT,
    partition_id=WHOLE,
    leader=_LINK,
    log_start_offset=WHOLE_OR_NULL,
    log_end_offset=WHOLE_OR_NULL,
)
PARTITIONS: Final = _list("KafkaPartitionList", PARTITION)

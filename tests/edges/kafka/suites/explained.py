"""Tests of other clients' suites that need more than is served: an explanation for each, by suite."""

from typing import Final

_ONE_NODE = "there is one replica of everything, and nothing to move or elect"
_NO_TRANSACTIONS = "needs a transaction coordinator"
_NO_DELETE_RECORDS = "DeleteRecords is not served"
_NO_LOG_DIRS = "DescribeLogDirs is not served"

EXPLAINED: Final[dict[tuple[str, str], str]] = {
    ("kafka-python", "test_create_describe_delete_acls"): "needs an authorizer (Apache Kafka as it comes fails too)",
    ("kafka-python", "test_describe_configs_broker_resource_returns_configs"): "wants a broker's advertised.listeners",
    ("kafka-python", "test_delete_records"): _NO_DELETE_RECORDS,
    ("kafka-python", "test_delete_records_with_errors"): _NO_DELETE_RECORDS,
    ("kafka-python", "test_elect_leaders"): _ONE_NODE,
    ("kafka-python", "test_describe_log_dirs"): _NO_LOG_DIRS,
    ("kafka-python", "test_alter_replica_log_dirs"): _NO_LOG_DIRS,
    ("kafka-python", "test_describe_metadata_quorum"): "there is no quorum of controllers",
    ("kafka-python", "test_alter_partition_reassignments"): _ONE_NODE,
    ("kafka-python", "test_list_partition_reassignments"): _ONE_NODE,
    ("kafka-python", "test_list_config_resources"): "ListConfigResources is not served",
    (
        "kafka-python",
        "test_kafka_version_infer",
    ): "takes Kafka 4.3 from DescribeLogDirs 5, which is not served: says 4.2",
    ("kafka-python", "test_transactional_producer_messages"): _NO_TRANSACTIONS,
    ("kafka-python", "test_transactional_producer_offsets"): _NO_TRANSACTIONS
    + " (and times out with Apache Kafka too)",
    ("aiokafka", "test_delete_records"): _NO_DELETE_RECORDS,
    ("aiokafka", "test_exclude_internal_topics"): "wants the offsets log listed as a topic, __consumer_offsets",
}

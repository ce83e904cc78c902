"""DescribeCluster, key 60 (KIP-700).

0  as it began, flexible
1  brokers or controllers (KIP-919)
2  fenced brokers (KIP-1073): there are none
"""

from protocol.kafka.fields import BOOL, ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.node import DescribeCluster, DescribeClusterReply, DescribedBroker

REQUEST = schema(
    DescribeCluster,
    f("include_cluster_authorized_operations", BOOL),
    f("endpoint_type", INT8, since=1),
    f("include_fenced_brokers", BOOL, since=2),
    versions=(0, 2),
    flexible=0,
)

REPLY = schema(
    DescribeClusterReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    f("endpoint_type", INT8, since=1),
    f("cluster_id", STRING),
    f("controller_id", INT32),
    array(
        "brokers",
        DescribedBroker,
        f("broker_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, nullable=0),
        f("is_fenced", BOOL, since=2),
    ),
    f("cluster_authorized_operations", INT32),
    versions=(0, 2),
    flexible=0,
)

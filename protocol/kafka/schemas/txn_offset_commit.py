"""TxnOffsetCommit, key 28. Read and written, and not advertised: there is no transaction coordinator.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  leader epoch (KIP-320)
3  flexible; generation, member and group instance id (KIP-447)
4  TRANSACTION_ABORTABLE may be answered (KIP-890)
5  adds the offsets to the transaction by itself (KIP-890)
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT16, INT32, INT64, LONG_STRING, STRING, array, f, schema
from protocol.messages.offsets import (
    OffsetCommitPartitionReply,
    OffsetCommitTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)

REQUEST = schema(
    TxnOffsetCommit,
    f("transactional_id", STRING),
    f("group_id", GROUP_ID),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("generation_id", INT32, since=3),
    f("member_id", STRING, since=3),
    f("group_instance_id", STRING, since=3, nullable=3),
    array(
        "topics",
        TxnOffsetCommitTopic,
        f("name", STRING),
        array(
            "partitions",
            TxnOffsetCommitPartition,
            f("partition_index", INT32),
            f("committed_offset", INT64),
            f("committed_leader_epoch", INT32, since=2),
            f("committed_metadata", LONG_STRING, nullable=0),
        ),
    ),
    versions=(0, 5),
    flexible=3,
)

REPLY = schema(
    TxnOffsetCommitReply,
    f("throttle_time_ms", INT32),
    array(
        "topics",
        OffsetCommitTopicReply,
        f("name", STRING),
        array("partitions", OffsetCommitPartitionReply, f("partition_index", INT32), f("error_code", ERROR)),
    ),
    versions=(0, 5),
    flexible=3,
)

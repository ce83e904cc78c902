"""Fetch, key 1.

 4  batches in format v2, isolation level (KIP-98); older ones are not served
 5  log start offset
 6  KAFKA_STORAGE_ERROR may be answered
 7  sessions (KIP-227): none are kept, and each answer says so
 8  the client holds back by itself when throttled
 9  current leader epoch (KIP-320)
10  zstd (KIP-110)
11  rack, preferred read replica (KIP-392)
12  flexible; last fetched epoch, cluster id
13  topics by id (KIP-516)
14  OFFSET_MOVED_TO_TIERED_STORAGE may be answered
15  replica state instead of replica id (KIP-903)
16  node endpoints (KIP-951): never told, one node leads all
17  replica directory id (KIP-853)
18  high watermark of a follower
"""

from protocol.kafka.fields import BYTES, ERROR, INT8, INT32, INT64, STRING, UUID, array, each, f, schema, skip
from protocol.messages.data import (
    AbortedTransaction,
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    FetchTopicReply,
    ForgottenTopic,
)

REQUEST = schema(
    Fetch,
    skip(INT32, -1, until=14),
    f("max_wait_ms", INT32),
    f("min_bytes", INT32),
    f("max_bytes", INT32),
    f("isolation_level", INT8),
    f("session_id", INT32, since=7),
    f("session_epoch", INT32, since=7),
    array(
        "topics",
        FetchTopic,
        f("topic", STRING, until=12),
        f("topic_id", UUID, since=13),
        array(
            "partitions",
            FetchPartition,
            f("partition", INT32),
            f("current_leader_epoch", INT32, since=9),
            f("fetch_offset", INT64),
            skip(INT32, -1, since=12),
            f("log_start_offset", INT64, since=5),
            f("partition_max_bytes", INT32),
        ),
    ),
    array(
        "forgotten_topics_data",
        ForgottenTopic,
        f("topic", STRING, until=12),
        f("topic_id", UUID, since=13),
        f("partitions", each(INT32)),
        since=7,
    ),
    f("rack_id", STRING, since=11),
    versions=(4, 18),
    flexible=12,
)

REPLY = schema(
    FetchReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR, since=7),
    f("session_id", INT32, since=7),
    array(
        "responses",
        FetchTopicReply,
        f("topic", STRING, until=12),
        f("topic_id", UUID, since=13),
        array(
            "partitions",
            FetchPartitionReply,
            f("partition_index", INT32),
            f("error_code", ERROR),
            f("high_watermark", INT64),
            f("last_stable_offset", INT64),
            f("log_start_offset", INT64, since=5),
            array(
                "aborted_transactions",
                AbortedTransaction,
                f("producer_id", INT64),
                f("first_offset", INT64),
                nullable=4,
            ),
            f("preferred_read_replica", INT32, since=11),
            f("records", BYTES, nullable=0, read_as="{} or b''"),
        ),
    ),
    versions=(4, 18),
    flexible=12,
)

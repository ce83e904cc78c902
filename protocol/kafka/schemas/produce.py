"""Produce, key 0.

0-2  advertised, since clients take them for a sign of compression, and refused: message formats before v2
  3  batches in format v2, transactional id (KIP-98)
  4  KAFKA_STORAGE_ERROR may be answered
  5  log start offset in the reply
  6  the client holds back by itself when throttled
  7  zstd (KIP-110)
  8  what is wrong with which record (KIP-467)
  9  flexible
 10  a new leader in the reply (KIP-951): never told, one node leads all
 11  a transaction grows by itself (KIP-890)
 12  TRANSACTION_ABORTABLE may be answered
 13  topics by id
"""

from protocol.kafka.fields import BYTES, ERROR, INT16, INT32, INT64, STRING, UUID, array, f, schema
from protocol.messages.data import (
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopic,
    ProduceTopicReply,
    RecordError,
)

REQUEST = schema(
    Produce,
    f("transactional_id", STRING, since=3, nullable=3),
    f("acks", INT16),
    f("timeout_ms", INT32),
    array(
        "topic_data",
        ProduceTopic,
        f("name", STRING, until=12),
        f("topic_id", UUID, since=13),
        array(
            "partition_data",
            ProducePartition,
            f("index", INT32),
            f("records", BYTES, nullable=0, read_as="{} or b''"),
        ),
    ),
    versions=(0, 13),
    flexible=9,
)

REPLY = schema(
    ProduceReply,
    array(
        "responses",
        ProduceTopicReply,
        f("name", STRING, until=12),
        f("topic_id", UUID, since=13),
        array(
            "partition_responses",
            ProducePartitionReply,
            f("index", INT32),
            f("error_code", ERROR),
            f("base_offset", INT64),
            f("log_append_time_ms", INT64, since=2),
            f("log_start_offset", INT64, since=5),
            array(
                "record_errors",
                RecordError,
                f("batch_index", INT32),
                f("batch_index_error_message", STRING, nullable=8),
                since=8,
            ),
            f("error_message", STRING, since=8, nullable=8),
        ),
    ),
    f("throttle_time_ms", INT32, since=1),
    versions=(0, 13),
    flexible=9,
)

"""DeleteTopics, key 20.

0  as it began
1  throttle time in the reply
2  the client holds back by itself when throttled
3  TOPIC_DELETION_DISABLED may be answered
4  flexible
5  error messages (KIP-599)
6  topics by id (KIP-516)
"""

from protocol.kafka.fields import ERROR, INT32, LONG_STRING, STRING, UUID, array, f, schema
from protocol.messages.topics import DeletableTopic, DeletedTopic, DeleteTopics, DeleteTopicsReply

REQUEST = schema(
    DeleteTopics,
    array("topics", DeletableTopic, f("name", STRING), until=5, bare=True),
    array("topics", DeletableTopic, f("name", STRING, nullable=6), f("topic_id", UUID), since=6),
    f("timeout_ms", INT32),
    versions=(0, 6),
    flexible=4,
)

REPLY = schema(
    DeleteTopicsReply,
    f("throttle_time_ms", INT32, since=1),
    array(
        "responses",
        DeletedTopic,
        f("name", STRING, nullable=6),
        f("topic_id", UUID, since=6),
        f("error_code", ERROR),
        f("error_message", LONG_STRING, since=5, nullable=5),
    ),
    versions=(0, 6),
    flexible=4,
)

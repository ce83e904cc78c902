"""Replies to a Produce, partition by partition."""

from collections.abc import Callable
from typing import NamedTuple

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import ProduceReply
from protocol.messages.node import ErrorReply


class ProduceAnswer(NamedTuple):
    """A partition's reply. `sentence` is the server's message for people; empty after a success."""

    code: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1
    sentence: str = ""


LOST = ProduceAnswer(ErrorCode.NETWORK_EXCEPTION, sentence="the connection was lost before the answer came")
_UNSAID = ProduceAnswer(ErrorCode.NETWORK_EXCEPTION, sentence="the answer did not name the partition")


def answers_of(reply: Message | None) -> Callable[[TopicPartition], ProduceAnswer]:
    """Return a function from partitions to their replies. An error of the whole reply is that of each partition; a
    missing partition counts as unanswered."""
    if isinstance(reply, ProduceReply):
        said = {
            TopicPartition(topic.name, one.index): ProduceAnswer(
                one.error_code, one.base_offset, one.log_append_time_ms, one.error_message or ""
            )
            for topic in reply.responses
            for one in topic.partition_responses
        }
        return lambda one: said.get(one, _UNSAID)
    if isinstance(reply, ErrorReply):
        whole = ProduceAnswer(reply.error_code, sentence=reply.error_message)
        return lambda _one: whole
    return lambda _one: LOST

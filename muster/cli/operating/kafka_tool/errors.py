"""Names and sentences of Kafka's errors, as its Java tools print them."""

from typing import Final

from protocol.errors import ErrorCode

JAVA: Final = "org.apache.kafka.common.errors."
"""Package of the exceptions."""
_SENTENCES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
}


def sentence(code: ErrorCode) -> str:
    """Return the sentence of an error, or its name if it has none here."""
    known = _SENTENCES.get(code)
    return code.name if known is None else known[1]


def exception(code: ErrorCode) -> str:
    """Return the exception of an error with its sentence, as Java prints it."""
    known = _SENTENCES.get(code)
    return code.name if known is None else f"{JAVA}{known[0]}: {known[1]}"

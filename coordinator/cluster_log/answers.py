"""Classifies a broker's answer to a batch (docs/spec/shared-log.md#Recommended.5)."""

import enum

from protocol.errors import ErrorCode


class WriteVerdict(enum.Enum):
    """Meaning of an answer for the writer."""

    TAKEN = "the batch is in the log"
    AGAIN = "it may be in the log: the same bytes are sent again"
    SUPERSEDED = "another owner has claimed the shard"
    STATE_LOST = "the leader knows another sequence: claim anew"
    REFUSED = "the brokers will not take it"


_AGAIN = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    None,
}
_SUPERSEDED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
_STATE_LOST = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}


def verdict_on(error: ErrorCode | None) -> WriteVerdict:
    """Classify the error of a partition; None: there was no answer."""
    if error is ErrorCode.NONE:
        return WriteVerdict.TAKEN
    if error in _AGAIN:
        return WriteVerdict.AGAIN
    if error in _SUPERSEDED:
        return WriteVerdict.SUPERSEDED
    return WriteVerdict.STATE_LOST if error in _STATE_LOST else WriteVerdict.REFUSED

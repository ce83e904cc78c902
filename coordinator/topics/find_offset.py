"""Finding offsets in partition logs: by name, by time, and by the epoch of a leader.

Searches see everything that was appended, and their answers wait until it is durable: a record that was acknowledged,
by whatever `acks`, is never missing from what is told of the end.
"""

from coordinator.topics.fetch import LEADER_EPOCH
from partition_log.errors import LogDamaged
from partition_log.log import PartitionLog
from protocol.errors import ErrorCode
from protocol.messages.data import EpochEndOffset
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsPartitionReply

LATEST, EARLIEST, NEWEST = -1, -2, -3
"""Timestamps that mean something else: the log's end, its start, the record with the largest timestamp."""
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
"""Where the log begins on this disk (KIP-405); and what of it has been, and has not been, moved elsewhere: nothing."""


EFFORT_US = 50_000
"""Of a request."""


class Effort:
    """Microseconds that the searches of one request may take, by and large: from counts, not a clock. Each opens a
    whole batch while everyone else waits. The search that goes beyond is the last."""

    __slots__ = ("left_us",)

    def __init__(self, left_us: int) -> None:
        self.left_us = left_us

    def spend(self, microseconds: int) -> None:
        self.left_us -= microseconds


def find_offset(log: PartitionLog, wanted: ListOffsetsPartition, effort: Effort) -> ListOffsetsPartitionReply:
    """The first offset, the next to be written, the newest record's, or the first at or after a time. Offset -1: there
    is none such yet. Without effort left the client is told to ask again."""
    index, timestamp_ms = wanted.partition_index, wanted.timestamp
    if timestamp_ms == LATEST:
        return _found(index, log.next_offset)
    if timestamp_ms in {EARLIEST, EARLIEST_LOCAL}:
        return _found(index, log.start_offset)
    if timestamp_ms in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return ListOffsetsPartitionReply(index)
    if timestamp_ms < NEWEST:
        return ListOffsetsPartitionReply(index, ErrorCode.UNSUPPORTED_VERSION)
    if effort.left_us <= 0:
        return ListOffsetsPartitionReply(index, ErrorCode.REQUEST_TIMED_OUT)
    try:
        wanted_ms = _newest_ms(log, effort) if timestamp_ms == NEWEST else timestamp_ms
        found = log.offset_for_time(wanted_ms, effort.spend)
    except LogDamaged as damage:
        log.note_damage(damage)
        return ListOffsetsPartitionReply(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionReply(index) if found is None else _found(index, *found)


def _newest_ms(log: PartitionLog, effort: Effort) -> int:
    # Of a segment just taken over, the last entries of two files and the batches behind them are read.
    effort.spend(sum([1 if segment.max_timestamp_ms >= 0 else 100 for segment in log.segments]))
    return log.newest_ms()


def _found(index: int, offset: int, timestamp_ms: int = -1) -> ListOffsetsPartitionReply:
    return ListOffsetsPartitionReply(index, ErrorCode.NONE, timestamp_ms, offset, LEADER_EPOCH)


def end_of_epoch(log: PartitionLog, partition: int, leader_epoch: int) -> EpochEndOffset:
    """Where the leader's epoch ends: there is one, and it goes on. Of a later one nothing is known (KIP-320); one
    before all that are known ends where the log begins, as in Kafka."""
    if leader_epoch == LEADER_EPOCH:
        return EpochEndOffset(partition, ErrorCode.NONE, leader_epoch, log.flushed_offset)
    if leader_epoch < -1:
        return EpochEndOffset(partition, ErrorCode.NONE, leader_epoch, log.start_offset)
    return EpochEndOffset(partition)

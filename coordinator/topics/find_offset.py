"""Searches for offsets in partition logs: by name, by time, and by leader epoch.

Searches include everything that was appended, and their replies wait until it is durable: so the end includes every
acknowledged record, whatever its `acks`.
"""

from coordinator.topics.fetch import LEADER_EPOCH
from partition_log.errors import LogDamaged
from partition_log.log.partition_log import PartitionLog
from protocol.errors import ErrorCode
from protocol.messages.data import EpochEndOffset
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsPartitionReply

LATEST, EARLIEST, NEWEST = -1, -2, -3
"""Timestamps with a special meaning: the log's end, its start, the record with the largest timestamp."""
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
"""Special timestamps of tiered storage (KIP-405): the start on this disk; the ends of the uploaded part and of the part
still to be uploaded, neither of which exists here."""


EFFORT_US = 50_000
"""Budget that one request may take."""


class SearchBudget:
    """Microseconds that the searches of one request may take, estimated from counts. Each search opens a whole batch
    while all other requests wait. The search that exceeds the effort is the last."""

    __slots__ = ("left_us",)

    def __init__(self, left_us: int) -> None:
        self.left_us = left_us

    def spend(self, microseconds: int) -> None:
        self.left_us -= microseconds


def find_offset(log: PartitionLog, wanted: ListOffsetsPartition, effort: SearchBudget) -> ListOffsetsPartitionReply:
    """Find the first offset, the end offset, the newest record's, or the first at or after a time; -1 if there is none.
    If no effort is left, the error makes the client retry."""
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


def _newest_ms(log: PartitionLog, effort: SearchBudget) -> int:
    # For a segment just closed, the last entries of two index files and the batches behind them are read.
    effort.spend(sum([1 if segment.max_timestamp_ms >= 0 else 100 for segment in log.segments]))
    return log.newest_ms()


def _found(index: int, offset: int, timestamp_ms: int = -1) -> ListOffsetsPartitionReply:
    return ListOffsetsPartitionReply(index, ErrorCode.NONE, timestamp_ms, offset, LEADER_EPOCH)


def end_of_epoch(log: PartitionLog, partition: int, leader_epoch: int) -> EpochEndOffset:
    """Return the end offset of the leader epoch. There is one epoch, which has not ended. A later one is unknown
    (KIP-320); an earlier one ends at the log's start, as in Kafka."""
    if leader_epoch == LEADER_EPOCH:
        return EpochEndOffset(partition, ErrorCode.NONE, leader_epoch, log.flushed_offset)
    if leader_epoch < -1:
        return EpochEndOffset(partition, ErrorCode.NONE, leader_epoch, log.start_offset)
    return EpochEndOffset(partition)

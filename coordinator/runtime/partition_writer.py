"""The writer of a shard's log: records become batches, a batch is appended whole or not at all, and the outbox learns
the position that replies wait for (Kafka's `PartitionWriter`)."""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.config.keys import INT_MAX
from coordinator.records.codec import encode, encode_marker, encode_offsets
from coordinator.records.commit_template import CommitTemplate
from coordinator.records.records import CommittedOffset, ShardRecord, TransactionEnded
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard_log import ShardLog
from partition_log.errors import AppendError
from partition_log.store.limits import Appended
from protocol.errors import ErrorCode
from protocol.record_batch import TRANSACTIONAL, encode_batch, seal_batch

# See docs/spec/group-protocol.md#0.5: a full disk is a storage error, which reads as NOT_COORDINATOR
_APPEND_ERRORS = {
    AppendError.DISK_FULL: ErrorCode.NOT_COORDINATOR,
    AppendError.RECORD_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    AppendError.NOT_OWNED: ErrorCode.NOT_COORDINATOR,
    AppendError.TOO_FAR_BEHIND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
TOO_LARGE = _APPEND_ERRORS[AppendError.RECORD_TOO_LARGE]
"""Error of a batch that is larger than batches may be, or than a segment of the log."""


Encoded = tuple[bytes, bytes | None]
"""Key and value of a record."""


class Preceding(NamedTuple):
    """Records that precede those of an event, in one batch with them. The event's group already has their state, except
    for the `unapplied` ones."""

    encoded: Sequence[Encoded] = ()
    unapplied: Sequence[ShardRecord] = ()


NONE_PRECEDING = Preceding()


class PartitionWriter:
    """Appends to a shard's log. A refused append changes nothing, and returns the error for clients."""

    __slots__ = ("_log", "_max_batch_bytes", "_outbox")

    def __init__(self, log: ShardLog, outbox: Outbox, max_batch_bytes: int) -> None:
        self._log = log
        self._outbox = outbox
        self._max_batch_bytes = max_batch_bytes

    def append_records(
        self, records: Sequence[ShardRecord], moment: Moment, preceding: Sequence[Encoded] = ()
    ) -> ErrorCode | None:
        """Append all records, at least one and of one group, as one batch. They share its position."""
        encoded = self._encoded(records, preceding)
        if encoded is None:
            return TOO_LARGE
        return self._append_of(records[0].group_id, encode_batch(encoded, timestamp_ms=moment.wall_ms))

    def append_offsets(
        self, group_id: str, records: Sequence[CommittedOffset], moment: Moment, producer: tuple[int, int] | None
    ) -> ErrorCode | None:
        """Append a commit of the group as one batch. `producer`: id and epoch, if it is of a transaction."""
        payload = encode_offsets(records, self._max_batch_bytes)
        if payload is None:
            return TOO_LARGE
        if producer is None:
            batch = seal_batch(payload, len(records), moment.wall_ms)
        else:
            batch = seal_batch(payload, len(records), moment.wall_ms, TRANSACTIONAL, (*producer, 0))
        return self._append_of(group_id, batch)

    def append_again(self, group_id: str, template: CommitTemplate, offsets: Sequence[int], wall_ms: int) -> bool:
        """Append a commit of the group as one batch; return false, and change nothing, if it is refused."""
        log = self._log
        # Encoded with its final offset, so that the log need not copy the batch to set it.
        batch = template.batch(offsets, wall_ms, log.next_offset)
        if len(batch) > self._max_batch_bytes:
            return False
        appended = log.append(batch)
        if isinstance(appended, AppendError):
            return False
        self._outbox.wrote(group_id, appended.position)
        return True

    def import_offsets(self, group_id: str, records: Sequence[CommittedOffset], moment: Moment) -> ErrorCode | None:
        """Append imported offsets of the group as one batch, limited only by a segment of the write-ahead log."""
        payload = encode_offsets(records, INT_MAX)
        if payload is None:
            return TOO_LARGE
        appended = self._log.append(seal_batch(payload, len(records), moment.wall_ms), must_fit=False)
        if isinstance(appended, AppendError):
            return _APPEND_ERRORS[appended]
        self._outbox.wrote(group_id, appended.position)
        return None

    def append_marker(self, marker: TransactionEnded, moment: Moment) -> Appended | ErrorCode:
        """Append the marker and return its place. The caller knows the marker's groups, and notifies the outbox."""
        batch = encode_batch(
            [encode_marker(marker)],
            timestamp_ms=moment.wall_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transactional=True,
            control=True,
        )
        return self._append(batch)

    def _append_of(self, group_id: str, batch: bytes) -> ErrorCode | None:
        appended = self._append(batch)
        if isinstance(appended, ErrorCode):
            return appended
        self._outbox.wrote(group_id, appended.position)
        return None

    def _append(self, batch: bytes) -> Appended | ErrorCode:
        if len(batch) > self._max_batch_bytes:
            return TOO_LARGE
        appended = self._log.append(batch)
        return _APPEND_ERRORS[appended] if isinstance(appended, AppendError) else appended

    def _encoded(self, records: Sequence[ShardRecord], preceding: Sequence[Encoded]) -> list[Encoded] | None:
        """Encode the records; None if they exceed the limit of a batch, checked before the memory is allocated."""
        encoded, size = list(preceding), sum([len(key) + len(value or b"") for key, value in preceding])
        for record in records:
            key, value = encode(record)
            size += len(key) + len(value or b"")
            if size > self._max_batch_bytes:
                return None
            encoded.append((key, value))
        return encoded

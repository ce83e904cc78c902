"""Answer ListEndSamples: a page of the history of committed offsets and log ends, from the node's log in slices."""

from typing import Final

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.runtime.slices import Served, Work
from coordinator.tasks.end_sampling import decode_sample
from partition_log.errors import LogDamaged
from partition_log.log.partition_log import PartitionLog
from protocol.errors import ErrorCode
from protocol.messages.offsets import EndSample, ListEndSamples, ListEndSamplesReply
from protocol.record_batch import batches, decode_batch
from protocol.session import RequestRef

_PAGE_BYTES: Final = 256 * 1024
"""Bytes of batches from which a page is full; the last may be larger."""
_OPENED_US, _BYTES_A_US = 50, 100


def list_end_samples(core: Core, ref: RequestRef, message: ListEndSamples, moment: Moment) -> None:
    """List samples in the order in which they were written."""
    core.slices.begin(core.outbox, ref, _listing(core.end_sampling.log.files, message), moment)


def _listing(log: PartitionLog, message: ListEndSamples) -> Work:
    yield 0
    samples: list[EndSample] = []
    size = 0
    try:
        position = _first(log, message)
        while position < log.next_offset and size < _PAGE_BYTES:
            data = log.read(position, 1)  # one batch
            for header, batch in batches(data):
                position = header.next_offset
                samples += [decode_sample(record.value) for record in decode_batch(batch) if record.value is not None]
            size += len(data)
            yield _OPENED_US + len(data) // _BYTES_A_US
            position = max(position, log.start_offset)  # retention goes on meanwhile
    except LogDamaged as damage:
        log.note_damage(damage)
        return Served(ListEndSamplesReply(ErrorCode.KAFKA_STORAGE_ERROR))
    wanted = tuple(sample for sample in samples if sample.wall_ms >= message.since_ms)
    return Served(ListEndSamplesReply(samples=wanted, position=position, has_more=position < log.next_offset))


def _first(log: PartitionLog, message: ListEndSamples) -> int:
    if message.position >= 0:
        return min(max(message.position, log.start_offset), log.next_offset)
    found = log.offset_for_time(message.since_ms) if log.next_offset > log.start_offset else None
    return log.next_offset if found is None else max(found[0], log.start_offset)

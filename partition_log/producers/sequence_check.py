"""The check of producers' epochs and sequences before a batch is appended (KIP-98, KIP-360)."""

import enum
from collections.abc import Sequence

from partition_log.producers.producer_state import (
    NO_EPOCH,
    SEQUENCES,
    UNKNOWN_PRODUCER,
    BatchSequence,
    ProducerEntry,
    Producers,
    sequence_of,
    with_batch,
)


class SequenceRejection(enum.Enum):
    """Reasons not to store a batch."""

    OLD_EPOCH = "a producer of a newer epoch has this id"
    OUT_OF_ORDER = "its first sequence does not follow the last one stored"
    TOO_MANY = "too many other producers have written to this partition in the last minutes"


def validate_sequences(
    producers: Producers | None, batches: Sequence[bytes], next_offset: int
) -> list[int | None] | SequenceRejection:
    """Check the batches of one request, in order. Return for each batch None to append it, or the offset at which it is
    stored already.

    A rejection of one batch rejects all. `producers` is the state of the log, `next_offset` its end.
    """
    ahead: dict[int, ProducerEntry] = {}
    strangers = 0
    verdicts: list[int | None] = []
    for batch in batches:
        verdict: int | None = None
        mark = sequence_of(batch)
        if mark is not None:
            known = ahead.get(mark.producer_id) or (
                UNKNOWN_PRODUCER if producers is None else producers.get(mark.producer_id)
            )
            strangers += known is UNKNOWN_PRODUCER
            verdict = _stored_at(known, mark)
            if verdict is None:
                objection = _objection(known, mark)
                if objection is not None:
                    return objection
                ahead[mark.producer_id] = with_batch(known, mark, next_offset)
        if verdict is None:
            next_offset += int.from_bytes(batch[23:27], "big") + 1
        verdicts.append(verdict)
    if strangers and producers is not None and not producers.has_room(strangers):
        return SequenceRejection.TOO_MANY
    return verdicts


def _stored_at(known: ProducerEntry, mark: BatchSequence) -> int | None:
    if known.epoch == mark.epoch:
        for stored in known.batches:
            if stored.first == mark.first and stored.last == mark.last:
                return stored.base_offset
    return None


def _objection(known: ProducerEntry, mark: BatchSequence) -> SequenceRejection | None:
    """Reject a batch, in Kafka's order of checks. A producer that is unknown or has no epoch may begin anywhere
    (KIP-360)."""
    if mark.epoch < known.epoch:
        return SequenceRejection.OLD_EPOCH
    if known.epoch == NO_EPOCH:
        return None
    expected = 0 if mark.epoch > known.epoch else (known.batches[-1].last + 1) % SEQUENCES
    return None if mark.first == expected else SequenceRejection.OUT_OF_ORDER

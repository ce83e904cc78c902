"""Producing, without I/O: which records go where, in which batches, and what to make of the answers.

`Producing` is driven as `Membership` and `Fetcher` are. Records go in by `append`, which is called for each and must be
cheap; `step` takes answers and time, and gives the calls to make, and by `Delivered` and `Undelivered` what became of
the records.
"""

from muster.core.producing.core import NO_ROOM, NOT_KNOWN, Producing
from muster.core.producing.effects import Delivered, Undelivered
from muster.core.producing.settings import ProducerSettings
from muster.core.producing.transactional import TransactionalProducing

__all__ = [
    "NOT_KNOWN",
    "NO_ROOM",
    "Delivered",
    "ProducerSettings",
    "Producing",
    "TransactionalProducing",
    "Undelivered",
]

"""Producing, without I/O: partitions and batches of records, and the handling of replies.

`Producing` is driven as `Membership` and `Fetcher` are. `append` takes one record and must be cheap; `step` takes
replies and the time, and returns the calls to make, and the outcomes of records as `Delivered` and `Undelivered`.
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

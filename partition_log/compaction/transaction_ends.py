"""Outcome of each transaction in a log, read from an offset at which none was open."""

from bisect import bisect_right

from protocol.record_batch import BatchHeader
from protocol.record_keys import Keyed

_COMMIT = b"\x00\x01"
"""The second field of a marker's key: its type."""


class TransactionEnds:
    """Call `note` with the batches in the order of the log. A marker decides its producer's records since the marker
    before."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, list[Keyed]]] = {}  # by producer: first offset, and undecided records
        self._markers: dict[int, list[int]] = {}  # by producer: the markers' offsets, ascending
        self._verdicts: dict[int, list[bool]] = {}

    def note(self, header: BatchHeader, records: list[Keyed]) -> list[Keyed]:
        """Note a control batch, or one of a transaction. Return the committed records that it decides."""
        producer_id = header.producer_id
        if not header.is_control:
            self._open.setdefault(producer_id, (header.base_offset, []))[1].extend(records)
            return []
        is_commit = bool(records) and (records[0].key or b"")[2:4] == _COMMIT
        self._markers.setdefault(producer_id, []).append(header.base_offset)
        self._verdicts.setdefault(producer_id, []).append(is_commit)
        _first, written = self._open.pop(producer_id, (0, []))
        return written if is_commit else []

    @property
    def first_undecided(self) -> int | None:
        """The first offset of the oldest transaction that is still open."""
        return min((first for first, _written in self._open.values()), default=None)

    def is_committed(self, header: BatchHeader) -> bool:
        """Return true if the batch's transaction was committed. The batch must be below `first_undecided`."""
        markers = self._markers.get(header.producer_id, [])
        number = bisect_right(markers, header.base_offset)
        assert number < len(markers), f"the transaction at {header.base_offset} is not decided"
        return self._verdicts[header.producer_id][number]

"""The state of a shard from its log: records are applied in slices, in order, also while another node serves it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from coordinator.clock import Moment
from coordinator.cluster_log.entries import Pair
from coordinator.records.codec import decode
from coordinator.records.records import LogCorrupt
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import SlicedRequests, Work

_RECORDS_A_PIECE = 200
_WORK_A_RECORD = 3
"""In microseconds."""

Steps = Callable[[], Iterator[int]]
"""A part of the work; yields the cost of each piece in microseconds."""


class Replay:
    """Work on the shard: records still to be applied, and steps that follow them."""

    def __init__(self, shard: Shard, slices: SlicedRequests, failed: Callable[[str], None]) -> None:
        """`failed` is called with the reason if the log cannot be read; nothing is applied then until `drop`."""
        self.moment: Moment
        """Moment of the present slice."""
        self._failed = failed
        self._shard = shard
        self._slices = slices
        self._steps: deque[Steps] = deque()
        self._drops = 0
        self._is_running = False

    def feed(self, records: Iterable[Pair]) -> None:
        """Apply these records, after all before them."""
        self.then(partial(self._apply, records))

    def then(self, steps: Steps) -> None:
        """Run the steps after all earlier work."""
        if self._shard.failure:
            return
        self._steps.append(steps)
        if not self._is_running:
            self._is_running = True
            self._slices.add(self._run())

    def drop(self) -> None:
        """Drop the state, and all records still to be applied."""
        self._steps.clear()
        self._drops += 1
        self._shard.drop_state()
        self._shard.is_replaying = True
        self._shard.failure = ""

    def _run(self) -> Work:
        self.moment = yield 0
        while self._steps:
            drops, steps = self._drops, self._steps.popleft()
            try:
                for cost in steps():
                    self.moment = yield cost
                    if self._drops != drops:
                        break
            except LogCorrupt as error:
                self._steps.clear()
                self._failed(f"{self._shard.log.name}: {error}")
        self._is_running = False
        return None

    def _apply(self, records: Iterable[Pair]) -> Iterator[int]:
        shard, count = self._shard, 0
        for key, value in records:
            record = decode(key, value)
            if record is not None:
                shard.apply(record)
            shard.loaded_records += 1
            count += 1
            if count % _RECORDS_A_PIECE == 0:
                yield _RECORDS_A_PIECE * _WORK_A_RECORD
        yield (count % _RECORDS_A_PIECE) * _WORK_A_RECORD

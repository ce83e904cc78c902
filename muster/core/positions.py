"""The partitions of a consumer, and its position in each (docs/spec/consumer-client.md#B5)."""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from membership.checks import MOST_64, check_number
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode


class OffsetReset(enum.Enum):
    """Reset policies: the start offset if there is no valid one."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class PositionState(enum.Enum):
    """States of a position. Only in FETCHING is the partition fetched. AWAIT_VALIDATION has a position, too, but
    leaders with newer epochs may not have the log up to it (KIP-320).
    """

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await_reset"
    AWAIT_VALIDATION = "await_validation"


_SUCCESSORS: Mapping[PositionState, frozenset[PositionState]] = {
    PositionState.INITIALIZING: frozenset(
        {PositionState.FETCHING, PositionState.AWAIT_RESET, PositionState.AWAIT_VALIDATION}
    ),
    PositionState.FETCHING: frozenset(
        {PositionState.FETCHING, PositionState.AWAIT_RESET, PositionState.AWAIT_VALIDATION}
    ),
    PositionState.AWAIT_RESET: frozenset({PositionState.FETCHING, PositionState.AWAIT_RESET}),
    PositionState.AWAIT_VALIDATION: frozenset(
        {PositionState.FETCHING, PositionState.AWAIT_RESET, PositionState.AWAIT_VALIDATION}
    ),
}


@dataclass(slots=True, eq=False)
class Position:
    """One assignment of one partition; a later assignment is another object. `offset` is the next one to return, None
    until known; `reset` is the pending reset, if there is one. `trouble` is the error of the last reply, unless another
    leader may help. `offset_epoch` is the leader epoch of the last record before the offset, -1 if unknown;
    `checked_epoch` is that of the newest leader known to have the offset.
    """

    state: PositionState = PositionState.INITIALIZING
    offset: int | None = None
    reset: OffsetReset | None = None
    offset_epoch: int = -1
    checked_epoch: int = -1
    is_paused: bool = False
    is_pending_revocation: bool = False
    awaits_callback: bool = False
    retry_at_ms: int = 0
    failures: int = 0
    trouble: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    wants_end: bool = False

    @property
    def is_valid(self) -> bool:
        return self.state is PositionState.FETCHING

    @property
    def is_fetchable(self) -> bool:
        """True if it may be fetched, and its records returned (docs/spec/consumer-client.md#B2)."""
        return (
            self.state is PositionState.FETCHING
            and not self.is_paused
            and not self.is_pending_revocation
            and not self.awaits_callback
        )

    def end(self, *, is_committed: bool) -> int:
        """Return the end for readers, of all records or of committed ones; -1 if unknown."""
        return self.last_stable_offset if is_committed else self.high_watermark

    def go(self, offset: int, offset_epoch: int = -1) -> None:
        """Set the position; pending requests for it no longer count."""
        self._enter(PositionState.FETCHING)
        self.offset, self.reset = offset, None
        self.offset_epoch, self.checked_epoch = offset_epoch, -1
        self._forget_failures()

    def await_reset(self, reset: OffsetReset) -> None:
        self._enter(PositionState.AWAIT_RESET)
        self.offset, self.reset = None, reset
        self._forget_failures()

    def await_validation(self) -> None:
        self._enter(PositionState.AWAIT_VALIDATION)

    def validated(self, leader_epoch: int) -> None:
        """Note that the leader of that epoch has the log before the offset."""
        self._enter(PositionState.FETCHING)
        self.checked_epoch = leader_epoch

    def _enter(self, state: PositionState) -> None:
        assert state in _SUCCESSORS[self.state], f"{self.state.name} does not become {state.name}"
        self.state = state

    def _forget_failures(self) -> None:
        self.retry_at_ms, self.failures, self.trouble = 0, 0, ErrorCode.NONE


class ConsumerPositions:
    """The positions of the assigned partitions, in the order of fetching. A revoked partition's position is dropped."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, Position] = {}

    # -- the assignment

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def items(self) -> Iterator[tuple[TopicPartition, Position]]:
        return iter(self._positions.items())

    def at(self, partition: TopicPartition) -> Position | None:
        """Return the position; None if the partition is not assigned."""
        return self._positions.get(partition)

    def assign(self, partitions: Iterable[TopicPartition], *, awaits_callback: bool = False) -> None:
        """Assign these partitions and no others. Kept ones keep their positions and stay paused, and are no longer
        pending revocation. With `awaits_callback` new ones are not fetched before `callback_returned`.
        """
        old = self._positions
        self._positions = {}
        for one in sorted(partitions):
            kept = old.get(one)
            if kept is not None:
                kept.is_pending_revocation = False
            self._positions[one] = kept or Position(awaits_callback=awaits_callback)

    def callback_returned(self) -> None:
        """Note that the application's callback for new partitions has returned, so that they may be fetched."""
        for position in self._positions.values():
            position.awaits_callback = False

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions and returning their records, so that no position overtakes the commit before a
        rebalance; unassigned ones are ignored.
        """
        for one in partitions:
            if one in self._positions:
                self._positions[one].is_pending_revocation = True

    def move_to_end(self, partition: TopicPartition) -> None:
        """Move the partition to the end, so that the others are fetched first next time."""
        self._positions[partition] = self._positions.pop(partition)

    # -- called by the application; each raises ValueError for a partition that is not assigned

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Set the position; a pending reset no longer counts. `leader_epoch` is that of the record before, if known.
        Raises ValueError for an offset below 0.
        """
        number = check_number(f"cannot seek to {offset!r} in {partition}: an offset", offset, 0, MOST_64)
        self._existing(partition).go(number, leader_epoch)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Reset to the start when possible; without arguments, all partitions."""
        self._reset_all(partitions, OffsetReset.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Reset to the end when possible; without arguments, all partitions."""
        self._reset_all(partitions, OffsetReset.LATEST)

    def await_reset(self, partition: TopicPartition, reset: OffsetReset) -> None:
        if reset is OffsetReset.NONE:
            raise ValueError(f"{partition} cannot be reset to nothing")
        self._existing(partition).await_reset(reset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these until they are resumed. Buffered records are kept."""
        for position in [self._existing(one) for one in partitions]:
            position.is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for position in [self._existing(one) for one in partitions]:
            position.is_paused = False

    def position(self, partition: TopicPartition) -> int | None:
        """The next offset to return; None while it is not known."""
        position = self._existing(partition)
        return position.offset if position.is_valid else None

    # -- all partitions

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted(one for one, at in self._positions.items() if at.is_paused))

    def missing(self) -> list[TopicPartition]:
        """Return the assigned partitions without a start position."""
        return [one for one, at in self._positions.items() if at.state is PositionState.INITIALIZING]

    def begin(self, committed: Mapping[TopicPartition, int | None], reset: OffsetReset) -> list[TopicPartition]:
        """Set missing positions to the committed offsets; without one (None) use `reset`. Return the partitions with
        neither, which stay without a position: `NoOffset` for the application.
        """
        for one in self.missing():
            offset = committed.get(one, -1)
            if offset is None and reset is not OffsetReset.NONE:
                self._positions[one].await_reset(reset)
            elif offset is not None and offset >= 0:
                self._positions[one].go(offset)
        return sorted(one for one in self.missing() if one in committed)

    def troubles(self) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        """The partitions that cannot be read at present, with their positions and errors."""
        return {
            one: (at.offset, at.trouble)
            for one, at in self._positions.items()
            if at.offset is not None and at.trouble != ErrorCode.NONE
        }

    def positions(self) -> Mapping[TopicPartition, int]:
        """Positions of all partitions that have one, for commits."""
        return {one: at.offset for one, at in self._positions.items() if at.offset is not None}

    def _existing(self, partition: TopicPartition) -> Position:
        position = self._positions.get(partition)
        if position is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return position

    def _reset_all(self, partitions: Iterable[TopicPartition], reset: OffsetReset) -> None:
        for position in [self._existing(one) for one in tuple(partitions) or self.assigned]:
            position.await_reset(reset)

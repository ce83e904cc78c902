"""What a consumer has been assigned, and where it stands in each partition (consumer-client B5)."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode


class OffsetReset(enum.Enum):
    """Where to begin when there is no usable offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(slots=True)
class Position:
    """`offset` is the next one to hand out, None until known; `reset` is the answer awaited, if one is. `trouble` is
    what the newest answer said, unless looking for another leader may help.
    """

    offset: int | None = None
    reset: OffsetReset | None = None
    retry_at_ms: int = 0
    failures: int = 0
    trouble: ErrorCode = ErrorCode.NONE


class Subscription:
    """The positions of the partitions assigned. A partition taken away takes its position with it."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, Position] = {}

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These and no others from now on; those kept keep their position."""
        self._positions = {one: self._positions.get(one, Position()) for one in sorted(partitions)}

    def at(self, partition: TopicPartition) -> Position | None:
        """None: not assigned."""
        return self._positions.get(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from there; a reset under way no longer counts. Raises ValueError."""
        if offset < 0:
            raise ValueError(f"cannot seek to {offset} in {partition}: an offset is 0 or more")
        if partition not in self._positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        self._positions[partition] = Position(offset)

    def await_reset(self, partition: TopicPartition, reset: OffsetReset) -> None:
        self._positions[partition] = Position(reset=reset)

    def missing(self) -> list[TopicPartition]:
        """Assigned, but nobody has said yet where to begin."""
        return [one for one, at in self._positions.items() if at.offset is None and at.reset is None]

    def troubles(self) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        """The partitions that cannot be read at present: where they stand, and why."""
        return {
            one: (at.offset, at.trouble)
            for one, at in self._positions.items()
            if at.offset is not None and at.trouble != ErrorCode.NONE
        }

    def positions(self) -> Mapping[TopicPartition, int]:
        """Of all partitions that have one: what a commit takes."""
        return {one: at.offset for one, at in self._positions.items() if at.offset is not None}

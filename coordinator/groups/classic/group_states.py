"""The states of a classic group, and its configuration: classes of kinds that mypyc does not compile."""

import enum
from typing import Self

import msgspec

from coordinator.config.keys import BackwardCommits


class GroupState(enum.IntEnum):
    """The five states. The value is the index of the state's cell in a row of the table."""

    title: str
    """Kafka's name of the state."""

    def __new__(cls, index: int, title: str) -> Self:
        state = int.__new__(cls, index)
        state._value_, state.title = index, title
        return state

    EMPTY = 0, "Empty"
    PREPARING = 1, "PreparingRebalance"
    COMPLETING = 2, "CompletingRebalance"
    STABLE = 3, "Stable"
    DEAD = 4, "Dead"


MAY_BECOME: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING: frozenset({GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}
"""Allowed transitions (docs/spec/group-protocol.md#1.2). Asserted by `become`; `apply` takes the state from the record
instead."""


class GroupSettings(msgspec.Struct, frozen=True, gc=False):
    """Configuration of classic groups (docs/spec/group-protocol.md#7.1)."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    max_pending_ids: int = 10_000
    offset_metadata_max_bytes: int = 4_096
    is_pinned: bool = False
    offsets_backward: BackwardCommits = BackwardCommits.FLAGGED

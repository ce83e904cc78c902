"""Clients as they present themselves, and what a request may depend on; constants that both servers share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from protocol.messages.groups import SyncGroupAssignment

TICK_MS = 4_000
SESSION_PART, REBALANCE_PART = 0.22, 0.17
"""Sessions and rebalances last some ticks, and this part of one: what they end, ends between the ticks' beginnings."""
GROUPS = 2
TOPICS = {"differential-a": 3, "differential-b": 2}
NO_TOPIC = "differential-none"
OLD_TOPIC_NAMES = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones have their ids."""
NO_ID, BOGUS_ID = "", "nobody-00000000-0000-0000-0000-000000000000"
BOGUS_TOPIC_ID = b"\x07" * 16


class Who(StrEnum):
    """Member whose id a request names."""

    OWN = "own"
    NONE = "none"
    BOGUS = "bogus"
    OTHER = "other"  # that of the client after it


class Generation(StrEnum):
    """Generation that a request names."""

    OWN = "own"
    NONE = "none"
    OLD = "old"
    NEW = "new"


class Phase(StrEnum):
    """Phase of a member, by the answers that it has had."""

    OUT = "out"
    JOINING = "joining"
    JOINED = "joined"
    SYNCING = "syncing"
    MEMBER = "member"


@dataclass(frozen=True)
class Profile:
    """One client as it presents itself to a group."""

    instance: str | None = None
    session_ms: int = TICK_MS
    rebalance_ms: int = TICK_MS
    protocols: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = tuple(TOPICS)


class View(Protocol):
    """The facts that a step may know of its client in its group, at one server."""

    profile: Profile
    group_id: str
    group_ids: tuple[str, ...]
    phase: Phase
    member_id: str
    instance: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    revision: int

    def id_of(self, who: Who) -> str: ...
    def topic_id(self, name: str) -> bytes: ...
    def assignments(self) -> tuple[SyncGroupAssignment, ...]: ...
    def subscription(self) -> bytes: ...

"""Clients as they present themselves, and what a request may depend on; constants that both servers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from protocol.messages.groups import SyncGroupAssignment

TICK_MS = 4_000
SESSION_PART, REBALANCE_PART = 0.22, 0.17
"""Sessions and rebalances last some ticks, and this part of one: what they end, ends between the ticks' beginnings."""
GROUPS = 2
TOPICS = {"differential-a": 3, "differential-b": 2}
MORE_TOPICS = {"differential-c": 7}
"""Topics of groups that the coordinator balances, beside the former."""
ALL_TOPICS = {**TOPICS, **MORE_TOPICS}
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
    """One client as it presents itself to a group. `is_balanced`: it leaves the assignment to the coordinator, and has
    the fields from there on: ids of its processes, its rebalance timeout, and what it subscribes to beside `topics`."""

    instance: str | None = None
    session_ms: int = TICK_MS
    rebalance_ms: int = TICK_MS
    protocols: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = tuple(TOPICS)
    is_balanced: bool = False
    member_ids: tuple[str, ...] = ()
    revocation_ms: int = TICK_MS
    regex: str | None = None
    assignor: str | None = None

    def text(self) -> str:
        """The profile for people: what the client's protocol has no use for is left out."""
        instance = self.instance or "-"
        if not self.is_balanced:
            protocols = ",".join(self.protocols)
            return f"instance={instance} session={self.session_ms} rebalance={self.rebalance_ms} protocols={protocols}"
        topics = ",".join(self.topics) or "-"
        regex = "" if self.regex is None else f" regex={self.regex!r}"
        assignor = "" if self.assignor is None else f" assignor={self.assignor}"
        return f"instance={instance} rebalance={self.revocation_ms} topics={topics}{regex}{assignor}"


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
    owes_full: bool
    told: Mapping[str, tuple[int, ...]]
    reported: Mapping[str, tuple[int, ...]]

    @property
    def consumer_id(self) -> str: ...
    def id_of(self, who: Who) -> str: ...
    def topic_id(self, name: str) -> bytes: ...
    def assignments(self) -> tuple[SyncGroupAssignment, ...]: ...
    def subscription(self) -> bytes: ...

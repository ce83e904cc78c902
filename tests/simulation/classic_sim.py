"""A classic member in a world of consumer groups: our own client core, checked by its own clock as the others are."""

from random import Random
from typing import Any, Protocol

from membership.events import Assigned
from membership.member import MemberSettings
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, JoinGroup, SyncGroup
from tests.simulation.faults import Seen
from tests.simulation.members import SimMember, Traits
from tests.simulation.native_member import SESSION_MS
from tests.simulation.network import Clock, Link
from tests.simulation.wires import draw_dialect

POLL_MS = 8_000


class ClassicWatcher(Protocol):
    """Checks everything that could be wrong."""

    def open_link(self, who: Any, received: Any, lost: Any) -> Link | None: ...

    def took(self, member: Any) -> None: ...

    def sent(self, message: Any, link: Link, now_ms: int) -> None: ...


class _Ears:
    """Follows the member's requests and answers to know since when, at the earliest, the coordinator may wait for its
    next step. After a JoinGroup it may be due to send another one, or a SyncGroup; the answer to a Heartbeat says what
    is due, maybe since the Heartbeat before. Nothing is due if a Heartbeat that it sent after it had synced is answered
    without error.
    """

    def __init__(self, clock: Clock, watcher: ClassicWatcher, seen: Seen) -> None:
        self.owing_from_ms: int | None = None
        self._clock, self._watcher, self._seen = clock, watcher, seen
        self._asked: dict[int, tuple[Any, int, bool]] = {}
        self._is_synced = False
        self._owed_nothing_ms = clock.now_ms

    def asked(self, member: SimMember, message: Any) -> None:
        if isinstance(message, JoinGroup):
            self._is_synced = False
            self._owes_since(self._clock.now_ms)
        self._asked[id(message)] = message, self._clock.now_ms, self._is_synced

    def _owes_since(self, at_ms: int) -> None:
        if self.owing_from_ms is None:
            self.owing_from_ms = at_ms

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self._watcher.sent(message, link, now_ms)

    def heard(self, member: SimMember, message: Any, reply: Any) -> None:
        _message, asked_ms, was_synced = self._asked.pop(id(message), (None, self._clock.now_ms, False))
        if isinstance(message, JoinGroup | SyncGroup | Heartbeat):
            self._seen.add(f"classic: {type(message).__name__} {reply.error_code.name}")
        if isinstance(message, SyncGroup) and not reply.error_code:
            self._is_synced = True
        elif isinstance(message, SyncGroup | Heartbeat) and reply.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._owes_since(self._owed_nothing_ms)
        elif isinstance(message, Heartbeat) and not reply.error_code and was_synced and self._is_synced:
            self.owing_from_ms, self._owed_nothing_ms = None, asked_ms

    def begins(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        """Begin to read at any position."""

    def reads(self, member: SimMember, partition: TopicPartition, up_to: int) -> None:
        """Read on."""


def draw_classic(group_id: str, instance: str | None, random: Random, *, is_cooperative: bool) -> Traits:
    """Draw a member. All of a world share an assignor."""
    settings = MemberSettings(
        group_id=group_id,
        group_instance_id=instance,
        assignors=("cooperative-sticky",) if is_cooperative else random.choice((("range",), ("range", "roundrobin"))),
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1_000,
        max_poll_interval_ms=POLL_MS,
        request_timeout_ms=4_000,
    )
    topics: tuple[str, ...] = random.choice((("alpha",), ("beta",), ("alpha", "beta"), ("alpha", "beta")))
    return Traits(settings, topics, draw_dialect(random, is_static=instance is not None), act_ms=300, commits=0.1)


class ClassicSim(SimMember):
    """Holds partitions by name."""

    def __init__(self, name: str, traits: Traits, clock: Clock, random: Random, watcher: Any, seen: Seen) -> None:
        self.ears = _Ears(clock, watcher, seen)
        super().__init__(name, traits, clock, random, watcher.open_link, self.ears, seen)
        self._watcher = watcher

    @property
    def is_alive(self) -> bool:
        """Return true if the member's session holds by its own clock, and so does the time for its next step."""
        session_from_ms, owing_from_ms = self.membership.lease_from_ms, self.ears.owing_from_ms
        is_in_time = owing_from_ms is None or self._clock.now_ms - owing_from_ms < POLL_MS
        holds = session_from_ms is not None and self._clock.now_ms - session_from_ms < SESSION_MS
        return self.running and holds and is_in_time

    @property
    def member_id(self) -> str:
        """Return the id that the coordinator knows it by."""
        return self.membership.member_id

    @property
    def subscribed(self) -> set[str]:
        """Return the topics that it reads."""
        return set(self.traits.topics)

    @property
    def places(self) -> set[tuple[str, int]]:
        """Return the partitions that it holds."""
        return {(one.topic, one.partition) for one in self.held}

    def _carry_out(self, effect: Any) -> None:
        super()._carry_out(effect)
        if isinstance(effect, Assigned):
            self._seen.add("classic: assignments")
            self._watcher.took(self)

"""A member of a client-balanced group in the simulated world: it asks for free partitions, reads, confirms, releases
now and then, and keeps the lease rule (docs/spec/client-balanced-groups.md#11): when its lease expires by its own
clock, it drops all partitions.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    CLIENT_MODE,
    NO_ASSIGNMENT,
    ConfirmConsumed,
    ConfirmItem,
    FetchItem,
    FetchRegistered,
    HeldKey,
    LeaveMember,
    MemberHeartbeat,
    OwnedKey,
    PartitionMeta,
    RegisterItem,
    RegisterPartitions,
    ReleasedKey,
    StartMember,
    UnregisterPartitions,
)
from protocol.record_batch import extent
from tests.simulation.faults import Seen
from tests.simulation.native_member import SESSION_MS, NativeMember, Watcher
from tests.simulation.network import Clock, Link
from tests.simulation.wires import NATIVE

HEARTBEAT_MS = 1_500
_TOPICS = ("alpha", "beta")
_AGAIN_MS = 2_000  # after a refusal of a partition


class BalanceWatcher(Watcher, Protocol):
    """Checks everything that could be wrong."""

    def granted(self, member: "Balancer", key: str, epoch: int, known: int) -> None: ...

    def delivered(self, member: "Balancer", key: str, first: int, up_to: int) -> None: ...

    def confirmed(self, key: str, offset: int) -> None: ...

    def known_epoch(self, key: str) -> int: ...


class Held:
    """A partition that it owns, as far as it knows. `handed_out` is the end offset of the batch in work."""

    def __init__(self, epoch: int, position: int) -> None:
        self.epoch, self.position = epoch, position
        self.handed_out: int | None = None
        self.last_consumed = True


class Late:
    """A duplicate of a member's request, on a connection of its own; the answer is not read."""

    dialect = NATIVE

    def __init__(self, open_link: Callable[..., Link | None], message: Message) -> None:
        self.link: Link | None = open_link(self, lambda _data: None, lambda: None)
        if self.link is not None:
            self.link.to_daemon.send(NATIVE.connect("late").encode_request(message)[1])


class Balancer(NativeMember[BalanceWatcher]):
    """A member that retries whatever failed."""

    def __init__(
        self,
        name: str,
        instance_id: str | None,
        clock: Clock,
        random: Random,
        open_link: Callable[..., Link | None],
        watcher: BalanceWatcher,
        seen: Seen,
        mode: str = CLIENT_MODE,
    ) -> None:
        super().__init__(name, instance_id, clock, random, open_link, watcher, seen)
        self.owned: dict[str, Held] = {}
        self.epoch: int | None = None
        self._known: dict[str, int] = {}
        self._meta: dict[str, bool] = {}
        self._version = -1
        self._ever: set[str] = set()
        self._not_before: dict[str, int] = {}
        self._released: dict[str, ReleasedKey] = {}
        self._beat_ms = self._attempts = 0
        self._mode = mode
        self._assigned: tuple[str, ...] | None = None
        self._assignment_id = NO_ASSIGNMENT

    def _drop_if_over(self) -> None:
        if self.owned and not self.is_alive:
            self._seen.add("leases that were over by the member's clock")
            self.owned.clear()

    # --- what to ask ---

    def _next(self) -> Message:
        group, now_ms = "balancers", self._clock.now_ms
        if self.epoch is None:
            self._attempts += 1
            held = tuple(HeldKey(key, one.epoch, one.position) for key, one in self.owned.items())
            return StartMember(
                group,
                self.name,
                _TOPICS,
                instance_id=self.instance_id,
                consume_position="first",
                session_timeout_ms=SESSION_MS,
                held=held,
                attempt=self._attempts,
                mode=self._mode,
            )
        me = (group, self.name, self.epoch)
        if self._leaving:
            given_up = tuple(ReleasedKey(key, one.epoch) for key, one in self.owned.items())
            self.owned.clear()
            return LeaveMember(*me, given_up)
        if now_ms - self._beat_ms >= HEARTBEAT_MS:
            self._beat_ms = now_ms
            owned = tuple(OwnedKey(key, one.epoch, one.position) for key, one in self.owned.items())
            return MemberHeartbeat(
                *me,
                owned=owned,
                released=tuple(self._released.values()),
                meta_version=self._version,
                assignment_id=self._assignment_id if self.owned.keys() >= set(self._assigned or ()) else NO_ASSIGNMENT,
            )
        if not self._meta:
            return PartitionMeta(*me)
        free = [
            key
            for key, subscribable in self._meta.items()
            if subscribable and key not in self.owned and self._not_before.get(key, 0) <= now_ms
            if self._mode == CLIENT_MODE or key in (self._assigned or ())
        ]
        assigned = self._assigned
        given_away = None if assigned is None else next((key for key in self.owned if key not in assigned), None)
        if given_away is not None:
            return self._give_up(me, given_away)
        if free and self._random.random() < 0.5:
            some = self._random.sample(free, min(2, len(free)))
            return RegisterPartitions(*me, tuple(RegisterItem(key, is_first=key not in self._ever) for key in some))
        if not self.owned:
            return PartitionMeta(*me, self._version)
        return self._about_one(me)

    def _about_one(self, me: tuple[str, str, int]) -> Message:
        key = self._random.choice(sorted(self.owned))
        held = self.owned[key]
        if self._random.random() < 0.06:
            return self._give_up(me, key)
        if held.handed_out is not None:
            consumed = self._random.random() < 0.8
            return ConfirmConsumed(*me, (ConfirmItem(key, held.epoch, consumed, held.handed_out),))
        return FetchRegistered(
            *me, (FetchItem(key, held.epoch, held.last_consumed, 2_000, held.position),), self._random.choice((0, 400))
        )

    def _give_up(self, me: tuple[str, str, int], key: str) -> Message:
        held = self.owned.pop(key)
        consumed = held.handed_out is not None and self._random.random() < 0.5
        released = self._released[key] = ReleasedKey(key, held.epoch, consumed, held.handed_out)
        self._not_before[key] = self._clock.now_ms + _AGAIN_MS
        return UnregisterPartitions(*me, (released,))

    # --- what is heard ---

    def _ask(self, message: Message) -> None:
        self._known = {key: self._watcher.known_epoch(key) for key in self._meta}
        super()._ask(message)

    def _lost(self, message: Message | None) -> None:
        if isinstance(message, FetchRegistered):
            held = self.owned.get(message.items[0].key)
            if held is not None:
                held.last_consumed = False

    def _heard(self, message: Message, reply: Any, asked_ms: int) -> None:
        error = getattr(reply, "error_code", ErrorCode.NONE)
        self._seen.add(f"balanced: {type(message).__name__} {error.name}")
        if error:
            self._refused(error, message)
            return
        match message:
            case StartMember():
                self._started(reply, asked_ms)
            case MemberHeartbeat():
                self.session_from_ms = asked_ms
                for one in message.released:
                    self._released.pop(one.key, None)
                for lost in reply.lost:
                    self.owned.pop(lost.key, None)
                self._told_meta(reply)
                self._told_assignment(reply)
            case PartitionMeta():
                self._told_meta(reply)
            case RegisterPartitions():
                self._registered(reply)
            case UnregisterPartitions():
                self._released.pop(message.items[0].key, None)
            case FetchRegistered():
                self._fetched(message, reply.items[0])
            case ConfirmConsumed():
                self._confirmed(message, reply.items[0])
            case LeaveMember():
                self.running = False

    def _refused(self, error: ErrorCode, message: Message) -> None:
        if error in (ErrorCode.NO_NODE, ErrorCode.REPLACED_MEMBER):
            self.epoch = None
            self._released.clear()
        if error is ErrorCode.REPLACED_MEMBER or self._leaving:
            self.owned.clear()
            self.running = False

    def _told_meta(self, reply: Any) -> None:
        if reply.meta is not None:
            self._version = reply.meta_version
            self._meta = {state.key: state.subscribable for state in reply.meta}

    def _told_assignment(self, reply: Any) -> None:
        if reply.assignment is not None:
            self._assigned, self._assignment_id = reply.assignment, reply.assignment_id
            self._seen.add("assignments")

    def _started(self, reply: Any, asked_ms: int) -> None:
        self._drop_if_over()
        self.epoch, self.session_from_ms, self._beat_ms = reply.member_epoch, asked_ms, self._clock.now_ms
        self._released.clear()
        self._assigned, self._assignment_id = None, NO_ASSIGNMENT
        self.owned = {}
        for one in reply.granted:
            self._own(one)
        self._seen.add("partitions held again", len(reply.granted))

    def _registered(self, reply: Any) -> None:
        for item in reply.items:
            if item.error_code:
                self._seen.add(f"balanced: register {item.error_code.name}")
                self._not_before[item.key] = self._clock.now_ms + _AGAIN_MS
            elif self.is_alive:
                self._own(item)
            # Else it does not count: its lease may be over at the coordinator too.

    def _own(self, one: Any) -> None:
        self._ever.add(one.key)
        self._released.pop(one.key, None)
        self.owned[one.key] = Held(one.reg_epoch, one.position)
        self._watcher.granted(self, one.key, one.reg_epoch, self._known.get(one.key, 0))

    def _fetched(self, message: FetchRegistered, item: Any) -> None:
        held = self.owned.get(item.key)
        if held is None or held.epoch != message.items[0].reg_epoch:
            return
        held.last_consumed = True
        if item.error_code in (ErrorCode.NO_NODE, ErrorCode.DUPLICATE_PARTITION, ErrorCode.CERTIFICATE):
            del self.owned[item.key]
            self._seen.add("partitions lost at a fetch")
        elif item.records and self.is_alive:
            up_to = self._client_end(item)
            self._watcher.delivered(self, item.key, item.position, up_to)
            held.position, held.handed_out = item.position, up_to

    @staticmethod
    def _client_end(item: Any) -> int:

        at = end = 0
        while at < len(item.records):
            _base, end, size, _timestamp = extent(item.records, at)
            at += size
        return end

    def _confirmed(self, message: ConfirmConsumed, item: Any) -> None:
        asked, held = message.items[0], self.owned.get(item.key)
        if item.error_code is ErrorCode.NONE and asked.consumed:
            self._watcher.confirmed(item.key, item.committed_offset)
        if held is None or held.epoch != asked.reg_epoch:
            return
        if item.error_code is ErrorCode.NOT_OWNER_COMMIT:
            del self.owned[item.key]
        elif not item.error_code:
            if asked.consumed:
                held.position = item.committed_offset
            held.handed_out = None

"""A member of the simulated world: our own client core, an application that reads and commits, and its faults."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from membership.core import Membership
from membership.events import (
    Assigned,
    CallFailed,
    Closed,
    Closing,
    CommitAsked,
    CommitDone,
    Fatal,
    HangUp,
    LostPartitions,
    MemberEvent,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
    Polled,
    Pushed,
    Released,
    Replied,
    Revoked,
    SendRequest,
    SubscribedToRegex,
    TimePassed,
)
from membership.member import MemberSettings
from membership.server_driven import make_membership
from membership.topic_partition import TopicPartition
from protocol.messages import Message
from protocol.messages.groups import JoinGroupReply, SyncGroup
from protocol.native.client import NativeAnswer
from tests.simulation.faults import Seen
from tests.simulation.network import Clock, Link
from tests.simulation.wires import Dialect, draw_dialect

ERRAND_MS = 5_000
_ASSIGNORS = (
    (("range",), ("range", "roundrobin"), ("roundrobin", "range")),
    (("cooperative-sticky",),),
    (("sticky",), ("sticky", "range")),
    (("cooperative-sticky", "range"), ("range", "cooperative-sticky")),
)
"""Assignors of the members of one group: they have one in common, and the same rebalance protocol."""


class Exchange(Protocol):
    """Takes all requests and answers of a member."""

    def asked(self, member: "SimMember", message: Any) -> None: ...

    def sent(self, message: Any, link: Link, now_ms: int) -> None: ...

    def heard(self, member: "SimMember", message: Any, reply: Any) -> None: ...

    def begins(self, member: "SimMember", partition: TopicPartition, offset: int) -> None: ...

    def reads(self, member: "SimMember", partition: TopicPartition, up_to: int) -> None: ...


class Traits(NamedTuple):
    """Traits of a member. Its application acts every `act_ms` or so, and commits with this probability. `regex`: the
    coordinator finds the topics by it."""

    settings: MemberSettings
    topics: tuple[str, ...]
    dialect: Dialect
    act_ms: int
    commits: float = 0.4
    regex: str = ""


def draw_traits(seed: int, name: str, group_id: str, *, is_slow: bool) -> Traits:
    """Draw traits that depend on the seed and the name only. Slow ones send heartbeats every 3 s to 10 min."""
    random = Random(f"{seed} {name}")
    instance = f"instance-{name}" if random.random() < 0.4 else None
    heartbeat_ms, session_ms, poll_ms, act_ms = 1_500, 6_000, 8_000, 450
    if is_slow:
        heartbeat_ms = int(3_000 * 200 ** random.random() ** 0.5)
        session_ms = max(int(heartbeat_ms * random.uniform(2.5, 3)), 6_000)
        poll_ms = max(int(heartbeat_ms * random.uniform(2, 3)), 8_000)
        act_ms = int(heartbeat_ms * random.uniform(0.25, 0.75))
    settings = MemberSettings(
        group_id=group_id,
        group_instance_id=instance,
        assignors=random.choice(_ASSIGNORS[Random(f"{seed} {group_id}").randrange(len(_ASSIGNORS))]),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        max_poll_interval_ms=poll_ms,
        request_timeout_ms=4_000,
    )
    topics: tuple[str, ...] = random.choice((("alpha",), ("alpha", "beta"), ("beta",)))
    return Traits(settings, topics, draw_dialect(random, is_static=instance is not None), act_ms)


class SimMember:
    """Runs until it is closed or killed. `open_link` connects it to the daemon, or gives None while that is down.

    Misdeeds: `dies_as_leader`; `syncs_after_ms`, before which it sends no SyncGroup; `tamper`, which makes another of
    its next assignment.
    """

    def __init__(
        self,
        name: str,
        traits: Traits,
        clock: Clock,
        random: Random,
        open_link: Callable[["SimMember", Callable[[bytes], None], Callable[[], None]], Link | None],
        exchange: Exchange,
        seen: Seen,
    ) -> None:
        self.name, self.traits, self.settings, self.dialect = name, traits, traits.settings, traits.dialect
        self.membership: Membership = make_membership(
            traits.settings, () if traits.regex else traits.topics, random.random
        )
        self.running = True
        self.stalled_until_ms = -1
        self.dies_as_leader = False
        self.syncs_after_ms = -1
        self.tamper: Callable[[SyncGroup], SyncGroup] | None = None
        self.last_request: Message | None = None
        self.held: dict[TopicPartition, int | None] = {}
        self.link: Link | None = None
        self._clock, self._random, self._seen = clock, random, seen
        self._open_link, self._exchange = open_link, exchange
        self._client = self.dialect.connect(self.name)
        self._asked: dict[int, tuple[int, Any, int]] = {}
        self._unread: list[bytes] = []
        self._errands = 0
        self._committing = False
        self._asking_offsets: int | None = None
        self._release_after_commit = False
        self._releasing: tuple[TopicPartition, ...] = ()
        self._wake_ms: int | None = None

    def start(self) -> None:
        if self.traits.regex:
            self._step(SubscribedToRegex(self.traits.regex))
        self._step(Polled())
        self._later()

    def _later(self) -> None:
        self._clock.after(int(self.traits.act_ms * (0.1 + 1.9 * self._random.random())), self._act)

    def _act(self) -> None:
        """Let the application act: read, poll, commit."""
        if not self.running:
            return
        if self._clock.now_ms >= self.stalled_until_ms:
            read = int(self._random.random() * 40)
            for partition, position in self.held.items():
                if position is not None and partition not in self._being_released:
                    self.held[partition] = position + read
                    self._exchange.reads(self, partition, position + read)
            if self._random.random() < self.traits.commits:
                self._commit()
            self._step(Polled())
        self._later()

    @property
    def _being_released(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose last commit is in flight; they are not read any more."""
        return self._releasing if self._release_after_commit else ()

    def _commit(self) -> None:
        offsets = {p: OffsetToCommit(position) for p, position in self.held.items() if position is not None}
        if offsets and not self._committing:
            self._committing = True
            self._errands += 1
            self._step(CommitAsked(self._errands, offsets, self._clock.now_ms + ERRAND_MS))

    def leave(self) -> None:
        """Close the member cleanly."""
        self._step(Closing())

    def kill(self) -> None:
        """End the process without a leave; its socket may be closed or stay half open."""
        self.running = False
        if self.link is not None and self._random.random() < 0.5:
            self.link.cut(self._clock, self._random)

    # --- the core and its wire ---

    def _step(self, event: MemberEvent) -> None:
        if not self.running:
            return
        for effect in self.membership.step(event, self._clock.now_ms):
            self._carry_out(effect)
        self._arm()

    def _arm(self) -> None:
        deadline_ms = self.membership.next_deadline_ms
        if deadline_ms is None:
            return
        at_ms = max(deadline_ms, self._clock.now_ms + 1)
        if self._wake_ms is None or at_ms < self._wake_ms:
            self._wake_at(at_ms)

    def _wake_at(self, at_ms: int) -> None:
        self._wake_ms = at_ms
        self._clock.after(at_ms - self._clock.now_ms, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_ms != at_ms:
            return  # it was wanted earlier meanwhile
        self._wake_ms = None
        if self._clock.now_ms < self.stalled_until_ms:
            self._wake_at(self.stalled_until_ms)
        else:
            self._step(TimePassed())

    def _carry_out(self, effect: Any) -> None:
        match effect:
            case SendRequest():
                self._call(effect)
            case HangUp() if self.link is not None:
                self.link.close_by_client()
                self._drop_link()
            case Assigned():
                for partition in effect.added:
                    self.held[partition] = None
                self._ask_offsets()
            case Revoked() | LostPartitions():
                self._revoked(effect.partitions, lost=isinstance(effect, LostPartitions))
            case CommitDone():
                self._commit_ended(effect)
            case OffsetsDone():
                self._offsets_known(effect)
            case Fatal() | Closed():
                self._end(effect)

    def _commit_ended(self, done: CommitDone) -> None:
        self._committing = False
        self._seen.add("refused commits", bool(done.error_code))
        if self._release_after_commit:
            self._release()

    def _end(self, effect: Fatal | Closed) -> None:
        if isinstance(effect, Fatal):
            self._seen.add(f"fatal {effect.error_code.name}")
        self.running = False
        if self.link is not None:
            self.link.close_by_client()

    def _ask_offsets(self) -> None:
        wanted = tuple(partition for partition, position in self.held.items() if position is None)
        if wanted:
            self._errands += 1
            self._asking_offsets = self._errands
            self._step(OffsetsAsked(self._errands, wanted, self._clock.now_ms + ERRAND_MS))

    def _offsets_known(self, done: OffsetsDone) -> None:
        if done.operation != self._asking_offsets:
            return
        self._asking_offsets = None
        if done.error_code:
            self._ask_offsets()
            return
        for partition, offset in done.offsets.items():
            if partition in self.held and self.held[partition] is None:
                self.held[partition] = offset or 0
                self._exchange.begins(self, partition, offset or 0)

    def _revoked(self, partitions: tuple[TopicPartition, ...], *, lost: bool) -> None:
        self._releasing = partitions
        if lost or self._random.random() < 0.3:
            self._release()
        else:
            self._release_after_commit = True
            self._commit()
            if not self._committing:
                self._release()

    def _release(self) -> None:
        self._release_after_commit = False
        for partition in self._releasing:
            self.held.pop(partition, None)
        # Not from within the step that revoked: the core is not entered twice.
        self._clock.after(0, lambda: self._step(Released()))

    def _call(self, call: SendRequest) -> None:
        if self.link is None:
            self.link = self._open_link(self, self._received, self._lost_link)
        if self.link is None:
            self._clock.after(self._random.choice((1, 20)), lambda: self._step(CallFailed(call.call)))
            return
        message = call.message
        if type(message) is SyncGroup:
            if self._clock.now_ms < self.syncs_after_ms:
                self._seen.add("syncs that were never sent")
                return
            if self.tamper is not None and message.assignments:
                message, self.tamper = self.tamper(message), None
        number, data = self._client.encode_request(message)
        self._asked[number] = (call.call, message, self._clock.now_ms)
        self.last_request = message
        self._exchange.asked(self, message)
        self.link.to_daemon.send(data)
        self._exchange.sent(message, self.link, self._clock.now_ms)

    def _received(self, data: bytes) -> None:
        if not self.running:
            return
        if self._clock.now_ms < self.stalled_until_ms or self._unread:
            # It reads nothing while it is stalled, and afterwards in order of arrival.
            self._unread.append(data)
            if len(self._unread) == 1:
                self._read_later()
            return
        self._hear(data)

    def _read_later(self) -> None:
        link = self.link
        delay_ms = max(self.stalled_until_ms - self._clock.now_ms, 0)
        self._clock.after(delay_ms, lambda: self._read_on() if self.link is link else None)

    def _read_on(self) -> None:
        if self._clock.now_ms < self.stalled_until_ms:
            self._read_later()
            return
        link, unread, self._unread = self.link, self._unread, []
        for data in unread:
            if self.link is link and self.running:
                self._hear(data)

    def _hear(self, data: bytes) -> None:
        link = self.link
        for item in self._client.receive_data(data):
            if self.link is not link:
                return  # hung up on because of what came before it
            if isinstance(item, NativeAnswer):
                call, message, _asked_ms = self._asked.pop(item.number)
                self._exchange.heard(self, message, item.reply)
                if self.dies_as_leader and type(item.reply) is JoinGroupReply and item.reply.members:
                    self._seen.add("leaders that died before their sync")
                    self.kill()
                    return
                self._step(Replied(call, item.reply))
            else:
                self._step(Pushed(item.message))

    def _lost_link(self) -> None:
        self._drop_link()

    def _drop_link(self) -> None:
        self.link = None
        self._unread = []
        self._client = self.dialect.connect(self.name)
        failed, self._asked = self._asked, {}
        for call, _message, _asked_ms in failed.values():
            self._clock.after(0, lambda call=call: self._step(CallFailed(call)))  # type: ignore[misc]

    @property
    def is_settled(self) -> bool:
        """Return true if the member knows its position in every held partition."""
        return all(position is not None for position in self.held.values())

    @property
    def waiting_since_ms(self) -> int | None:
        """Return the send time of the oldest unanswered request whose connection is open."""
        return min((asked_ms for _call, _message, asked_ms in self._asked.values()), default=None)

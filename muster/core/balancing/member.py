"""The state of a client-balanced member, and the methods that change it."""

import enum
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from membership.channel import CoordinatorChannel
from membership.events import MemberEffect, NodeAddress
from muster.core.balancing.config import BalancedConfig
from muster.core.balancing.events import Noted, OperationEnded
from muster.core.balancing.keys import parsed
from muster.core.balancing.results import Code, OffsetInfo, Result, failure, success
from muster.core.balancing.targets import Targets
from protocol.messages import Message
from protocol.messages.balanced import NO_ASSIGNMENT, SERVER_MODE, ReleasedKey
from protocol.partition_key import PartitionKey

BACKOFF_MS, MAX_BACKOFF_MS = 100, 1_000


def backoff_ms(failures: int) -> int:
    """Return the pause before a retry, exponential from 100 ms to 1 s (docs/spec/client-balanced-groups.md#11)."""
    return min(BACKOFF_MS << min(failures, 10), MAX_BACKOFF_MS)


class Phase(enum.Enum):
    """Phases of a member (docs/spec/client-balanced-groups.md#4); from ENDED it cannot start again."""

    NOT_STARTED = "not started"
    STARTING = "starting"
    STARTED = "started"
    STOPPING = "stopping"
    ENDED = "shut down"


class BalancedTimer(enum.IntEnum):
    """Timers; those with equal deadlines fire in this order."""

    HEARTBEAT = 0
    RETRY = 1  # pause before a retry: while armed, no join is sent
    CLOSING = 2  # end of the wait before it leaves


class PartitionUse(enum.Enum):
    """Uses of an owned partition; only an IDLE one can be taken."""

    IDLE = "idle"
    RESTING = "resting"
    FETCHING = "fetching"
    HANDED = "handed"
    CONFIRMING = "confirming"


IN_USE = frozenset({PartitionUse.FETCHING, PartitionUse.HANDED, PartitionUse.CONFIRMING})


@dataclass(slots=True, eq=False)
class Held:
    """An owned partition. `confirmed` is the offset after the confirmed records; `token` counts the batches;
    `last_consumed` is sent with the next fetch; `next_offset` is the end of the batch that the application has."""

    key: str
    place: PartitionKey
    reg_epoch: int
    curr: int
    max: int
    updated_ms: int
    confirmed: int
    use: PartitionUse = PartitionUse.IDLE
    token: int = 0
    last_consumed: bool = True
    next_offset: int | None = None
    reader: int | None = None
    """The operation that got the present batch."""
    taken_ms: int = 0
    asked_epoch: int = -1
    """Epoch of the grant at the last fetch."""
    jumps: bool = False
    """True if it must seek to its end as soon as it can be taken."""

    @property
    def done_to(self) -> int | None:
        """The offset to report as consumed when the partition is released."""
        return self.next_offset if self.use in IN_USE else self.confirmed

    def update_offsets(self, curr: int, end: int, now_ms: int) -> None:
        """Store offsets from the coordinator; a value below 0 never replaces a known one."""
        self.curr = curr if curr >= 0 else self.curr
        self.max = end if end >= 0 else self.max
        self.updated_ms = now_ms


@dataclass(slots=True)
class Starting:
    operation: int
    tries: int = 0


@dataclass(slots=True)
class Waiter:
    """A caller that waits for a batch, or for a partition; without a deadline it waits for ever."""

    operation: int
    deadline_ms: int | None


@dataclass(slots=True)
class Leaving:
    """A partition being released, which waits until its batch is confirmed."""

    deadline_ms: int
    operation: int | None


@dataclass(slots=True)
class CoordinatorAnswer:
    """The outcome of a request. `code` 0: `reply` is the reply. EMPTY_REPLY: there was no reply."""

    sent_ms: int
    reply: Message | None
    code: int = 0
    reason: str = ""

    @property
    def is_unanswered(self) -> bool:
        return self.code == Code.EMPTY_REPLY


Then = Callable[["BalancedMemberState", CoordinatorAnswer], None]


@dataclass(slots=True, eq=False)
class Wanted:
    """A request that waits for the coordinator, and for the member to be in the group. `make` is called when it is
    sent."""

    make: Callable[[], Message]
    then: Then
    deadline_ms: int
    answer_within_ms: int


@dataclass(slots=True, eq=False)
class BalancedRequest:
    message: Message
    then: Then
    sent_ms: int
    deadline_ms: int
    node: NodeAddress | None
    member_epoch: int

    @property
    def to_coordinator(self) -> bool:
        return self.node is not None


@dataclass(slots=True)
class BalancedMemberState:
    """All mutable state of a member."""

    config: BalancedConfig
    group_id: str
    consumer_id: str
    now_ms: int = 0
    phase: Phase = Phase.NOT_STARTED
    targets: Targets = field(default_factory=dict)
    source_count: int | None = None
    node_id: int | None = None
    starting: Starting | None = None
    stopping: list[int] = field(default_factory=list)
    is_leaving: bool = False
    # membership
    member_epoch: int = -1
    is_joined: bool = False
    refusal: Result | None = None
    """Reason for which the member is not in its group; cleared when it is again."""
    is_replaced: bool = False
    session_timeout_ms: int = 0
    heartbeat_ms: int = 0
    lease_ends_ms: int | None = None
    join_failures: int = 0
    heartbeat_failures: int = 0
    lookup_trouble: tuple[int, str] | None = None
    """The failure of the last lookup, until it is reported."""
    # what it reports
    owned_version: int = 0
    reported_version: int | None = None
    beats_since_report: int = 0
    released: dict[str, ReleasedKey] = field(default_factory=dict)
    carried_out: int = 0
    """Id of the operator's last order that was carried out."""
    # requests
    channel: CoordinatorChannel[BalancedRequest] = field(init=False)
    wanted: deque[Wanted] = field(default_factory=deque)
    timers: dict[BalancedTimer, int] = field(default_factory=dict)
    # configured partitions
    meta_version: int = -1
    meta: dict[str, bool] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons for which keys are not subscribable."""
    has_meta: bool = False
    """True once the application has requested and got the configured partitions."""
    meta_heard_ms: int | None = None
    meta_waiters: list[int] = field(default_factory=list)
    # assigned ones, of a server-balanced group
    assigned: frozenset[str] = frozenset()
    assignment_id: int = NO_ASSIGNMENT
    # owned ones
    keys: dict[str, Held] = field(default_factory=dict)
    idle: deque[Held] = field(default_factory=deque)
    resting: list[tuple[int, int, Held]] = field(default_factory=list)
    rests: int = 0
    """Counter that keeps pauses with equal ends in order."""
    tokens: dict[str, int] = field(default_factory=dict)
    busy: dict[str, deque[Callable[[], None]]] = field(default_factory=dict)
    """Keys with an action under way, and the actions that wait for its end."""
    leaving: dict[str, Leaving] = field(default_factory=dict)
    granted_once: set[str] = field(default_factory=set)
    starts: int = 0
    """Number of StartMembers sent, by which the coordinator recognizes a late one."""
    refused_ms: dict[str, int] = field(default_factory=dict)
    doubtful: dict[str, int] = field(default_factory=dict)
    """Keys with an unanswered registration, and its time: the coordinator may have granted them, or may yet."""
    alarms: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    operations: set[int] = field(default_factory=set)
    """Operations that have not ended."""
    readers: deque[Waiter] = field(default_factory=deque)
    expectant: list[Waiter] = field(default_factory=list)
    effects: list[MemberEffect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.channel = CoordinatorChannel(self.group_id, backoff_ms)

    @property
    def is_server_balanced(self) -> bool:
        """True if the coordinator assigns the partitions."""
        return self.config.mode == SERVER_MODE

    @property
    def coordinator(self) -> NodeAddress | None:
        return self.channel.coordinator

    # -- operations

    def end(self, operation: int, result: Result) -> None:
        """End an operation, once."""
        if operation in self.operations:
            self.operations.remove(operation)
            self.effects.append(OperationEnded(operation, result))

    def note(self, event: str, **fields: object) -> None:
        self.effects.append(Noted(event, fields))

    # -- time

    def arm(self, timer: BalancedTimer, delay_ms: int) -> None:
        self.timers[timer] = self.now_ms + delay_ms

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.rests += 1
        heapq.heappush(self.alarms, (self.now_ms + delay_ms, self.rests, action))

    def is_past(self, moment_ms: int | None) -> bool:
        return moment_ms is not None and moment_ms <= self.now_ms

    # -- phases

    @property
    def is_running(self) -> bool:
        return self.phase in {Phase.STARTING, Phase.STARTED}

    @property
    def refused(self) -> Result | None:
        """Return the result with which all requests for data fail at once, if there is one."""
        return self.refusal if self.is_running else failure(Code.CLIENT_SHUTDOWN, self.not_running)

    @property
    def not_running(self) -> str:
        return f"this consumer is {self.phase.value}: it reads between start and shutdown"

    # -- owned partitions

    def own(self, key: str, reg_epoch: int, curr: int, end: int) -> Held:
        """Add an owned partition, which can be taken from now on."""
        held = Held(key, parsed(key), reg_epoch, curr, end, self.now_ms, curr)
        self.keys[key] = held
        self.granted_once.add(key)
        self.released.pop(key, None)
        self.idle.append(held)
        self.owned_version += 1
        return held

    def drop(self, key: str) -> Held | None:
        """Drop a partition that this member no longer owns: its batch at the application cannot be confirmed any more.
        An operation that was releasing it ends."""
        held = self.keys.pop(key, None)
        if held is not None:
            self.owned_version += 1
            if held.use is PartitionUse.IDLE:
                self.idle.remove(held)
        leaving = self.leaving.pop(key, None)
        if leaving is not None:
            if leaving.operation is not None:
                self.end(leaving.operation, success())
            self.done(key)
        return held

    def drop_all(self, why: str) -> None:
        if self.keys:
            self.note("partitions lost", keys=sorted(self.keys), why=why)
        for key in tuple(self.keys):
            self.drop(key)

    def is_current(self, held: Held) -> bool:
        return self.keys.get(held.key) is held

    def put_back(self, held: Held, pause_ms: int = 0) -> None:
        """Put the partition at the end of the queue, at once or after a pause."""
        if not self.is_current(held):
            return
        held.reader, held.next_offset = None, None
        if pause_ms > 0:
            held.use = PartitionUse.RESTING
            self.rests += 1
            heapq.heappush(self.resting, (self.now_ms + pause_ms, self.rests, held))
        else:
            held.use = PartitionUse.IDLE
            self.idle.append(held)

    def wake_rested(self) -> None:
        while self.resting and self.resting[0][0] <= self.now_ms:
            held = heapq.heappop(self.resting)[2]
            if self.is_current(held) and held.use is PartitionUse.RESTING:
                held.use = PartitionUse.IDLE
                self.idle.append(held)

    def takeable(self) -> Held | None:
        """Return the first partition in the queue without another action under way."""
        for held in self.idle:
            if held.key not in self.busy:
                return held
        return None

    def offsets(self) -> dict[str, OffsetInfo]:
        return {key: OffsetInfo(held.curr, held.max, held.updated_ms) for key, held in self.keys.items()}

    # -- one thing at a time with a key

    def do(self, key: str, action: Callable[[], None]) -> None:
        """Run the action now or, if another one is under way for the key, after its `done`."""
        if key in self.busy:
            self.busy[key].append(action)
        else:
            self.busy[key] = deque()
            action()

    def done(self, key: str) -> None:
        later = self.busy.get(key)
        if later:
            later.popleft()()
        else:
            self.busy.pop(key, None)

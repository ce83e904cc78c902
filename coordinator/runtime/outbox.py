"""Replies and pushes to be sent, and replies that wait for a log.

A reply is sent now (`send`), or held at a position of a log (`hold`) and released, in order, once the log is durable up
to there (the write rule). The outbox of a log also keeps, for each group, the position that its replies must wait for:
that of its last record, until it is durable. The node encodes ready replies, a bounded slice a step.

Shards that share one log share the node's outbox. A shard with a log of its own has a branch of the outbox, which
waits only for that log and sends through the node's.
"""

from collections import deque
from collections.abc import Callable, Iterable

from coordinator.groups.outcome import Answer
from protocol.messages import Message
from protocol.session import RequestRef

Held = tuple[int, RequestRef, Message]
"""A reply that may be sent when the log is durable up to the position."""
NEVER = 2**62
"""Position that no log reaches."""


class Outbox:
    """Replies and pushes of a node, in order. `trunk`: the outbox that this is a branch of."""

    __slots__ = ("_durable", "_newest", "_positions", "branches", "held", "listening", "pushes", "ready", "waiting")

    def __init__(self, durable: int, trunk: "Outbox | None" = None) -> None:
        self.ready: deque[tuple[RequestRef, Message]] = deque() if trunk is None else trunk.ready
        self.held: deque[Held] = deque()
        self.waiting: list[tuple[int, Awaited]] = []
        """Replies that wait for other logs too, each with its position in this one."""
        self.pushes: deque[tuple[int, Message]] = deque() if trunk is None else trunk.pushes
        """Messages without a request, each with its connection."""
        self.listening: set[int] = set() if trunk is None else trunk.listening
        """Connections that can receive pushes."""
        self.branches: list[Outbox] = []
        self._durable = durable
        self._positions: dict[str, int] = {}
        self._newest = 0
        if trunk is not None:
            trunk.branches.append(self)

    def wrote(self, group_id: str, position: int) -> None:
        """Set the position at which the group's last record is durable. Positions only grow."""
        self._positions[group_id] = self._newest = position

    def position_of(self, group_id: str) -> int:
        """Position that a reply about the group waits for; 0 if none."""
        return self._positions.get(group_id, 0)

    def newest_position(self) -> int:
        """Position that a reply about all groups waits for; 0 if none."""
        return self._newest

    def send(self, ref: RequestRef, reply: Message) -> None:
        """Send the reply in this step, or as soon as the slice allows."""
        self.ready.append((ref, reply))

    def push(self, pushes: Iterable[tuple[int, Message]]) -> None:
        """Send the messages, each to its connection; nothing is queued for one that cannot receive pushes."""
        listening = self.listening
        self.pushes.extend([push for push in pushes if push[0] in listening])

    def hold(self, position: int, ref: RequestRef, reply: Message) -> None:
        """Send the reply when the log is durable up to `position`; at once if it is."""
        if position <= self._durable:
            self.ready.append((ref, reply))
            return
        # In order: a reply never waits for a lower position than the reply before it. One flush nearly always covers
        # both.
        if self.held and self.held[-1][0] > position:
            position = self.held[-1][0]
        self.held.append((position, ref, reply))

    def hold_for(self, group_id: str, ref: RequestRef, reply: Message) -> None:
        """Send the reply when the group's last record is durable."""
        self.hold(self.position_of(group_id), ref, reply)

    def deliver(self, group_id: str, answers: Iterable[Answer]) -> None:
        """Send the replies that are marked `at_once`; hold the others until the group's last record is durable."""
        for ref, reply, at_once in answers:
            if at_once:
                self.send(ref, reply)
            else:
                self.hold_for(group_id, ref, reply)

    def release(self, durable: int) -> None:
        """Release the replies up to this position: the log is durable."""
        self._durable = durable
        while self.held and self.held[0][0] <= durable:
            _, ref, reply = self.held.popleft()
            self.ready.append((ref, reply))
        if self.waiting:
            done = [one for position, one in self.waiting if position <= durable]
            self.waiting = [(position, one) for position, one in self.waiting if position > durable]
            for one in done:
                one.go_on()
        if self._newest <= durable:
            self._positions.clear()
        else:
            self._positions = {group_id: at for group_id, at in self._positions.items() if at > durable}

    def wait(self, position: int, awaited: "Awaited") -> bool:
        """Continue `awaited` when the log is durable up to the position. Return false if it is already."""
        if position <= self._durable:
            return False
        self.waiting.append((position, awaited))
        return True

    @property
    def held_replies(self) -> int:
        """Number of replies that wait for any log."""
        return len(self.held) + len(self.waiting) + sum([branch.held_replies for branch in self.branches])

    def __bool__(self) -> bool:
        return bool(self.ready or self.pushes)


class LeasedOutbox(Outbox):
    """A branch for a log that other nodes may take over. Reads of its groups may be answered only when the position
    returned by `barrier` is durable: 0 while no other node can have taken over the log, `NEVER` if this node does not
    serve it. When the log is lost, the `refusal` of each waiting reply is sent in its place, also of replies that are
    held after the loss."""

    __slots__ = ("_barrier", "_lost", "_refusal")

    def __init__(self, trunk: Outbox, barrier: Callable[[], int], refusal: Callable[[Message], Message]) -> None:
        super().__init__(0, trunk)
        self._barrier = barrier
        self._refusal = refusal
        self._lost = 0

    def position_of(self, group_id: str) -> int:
        return max(super().position_of(group_id), self._barrier())

    def newest_position(self) -> int:
        return max(super().newest_position(), self._barrier())

    def hold(self, position: int, ref: RequestRef, reply: Message) -> None:
        if self._is_lost(position):
            self.ready.append((ref, self._refusal(reply)))
        else:
            super().hold(position, ref, reply)

    def wait(self, position: int, awaited: "Awaited") -> bool:
        if self._is_lost(position):
            self.ready.append((awaited.ref, self._refusal(awaited.reply)))
            return True
        return super().wait(position, awaited)

    def _is_lost(self, position: int) -> bool:
        return 0 < position <= self._lost or position >= NEVER

    def lose(self, last: int) -> None:
        """Refuse the waiting replies: which positions up to the last one will be durable is unknown now."""
        held, waiting = self.held, self.waiting
        self.held, self.waiting = deque(), []
        self._positions.clear()
        self._newest, self._lost = 0, last
        for _, ref, reply in held:
            self.ready.append((ref, self._refusal(reply)))
        for _, one in waiting:
            self.ready.append((one.ref, self._refusal(one.reply)))


class Awaited:
    """Positions that one reply waits for, which may be about groups of several logs."""

    __slots__ = ("_outbox", "_positions", "ref", "reply")

    def __init__(self) -> None:
        self._positions: dict[Outbox, int] = {}
        self._outbox: Outbox
        self.ref: RequestRef
        self.reply: Message

    def add(self, outbox: Outbox, position: int) -> None:
        """Wait for the position in the log of this outbox."""
        if position > self._positions.get(outbox, 0):
            self._positions[outbox] = position

    def add_group(self, outbox: Outbox, group_id: str) -> None:
        """Wait for the last record of the group, whose log has this outbox."""
        position = outbox.position_of(group_id)
        if position:
            self.add(outbox, position)

    def hold(self, outbox: Outbox, ref: RequestRef, reply: Message) -> None:
        """Send the reply when all positions that it waits for are durable; `outbox`: the node's."""
        if not self._positions:
            outbox.send(ref, reply)
            return
        if len(self._positions) > 1:
            self._outbox, self.ref, self.reply = outbox, ref, reply
            self.go_on()
            return
        only, position = self._positions.popitem()
        only.hold(position, ref, reply)

    def go_on(self) -> None:
        """Wait for the next log that is not durable, or send the reply."""
        while self._positions:
            outbox, position = self._positions.popitem()
            if outbox.wait(position, self):
                return
        self._outbox.send(self.ref, self.reply)

"""A whole node under requests that no client would send: well-formed ones of any content, and broken ones."""

from collections.abc import Callable
from random import Random

from coordinator.node.effects import Effect, Send
from coordinator.node.events import Event, Lost, Opened, Received
from protocol.apis import BY_MESSAGE
from protocol.kafka.client import encode_request
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import encode_batch
from tests.node.node_rig import NodeRig
from tests.protocol.kafka.bending import Run, Unforeseen, bend
from tests.protocol.kafka.samples import CASES, Chosen, sample

_ASKED = [case for case in CASES if case.is_request and case.api.advertised]
_CONNECTIONS = 8
_STEPS_A_NODE = 3_000


_BATCH = encode_batch([(b"k", b"v"), (None, b"w" * 50)], timestamp_ms=1_700_000_000_000)


class _Knowing(Chosen):
    """Chooses valid values now and then: member ids that were assigned, timeouts that are allowed, records that
    parse."""

    def integer(self, bits: int) -> int:
        fits = (0, 1, 6_000 if bits > 8 else 2)
        return self._random.choice(fits) if self._random.random() < 0.5 else super().integer(bits)

    def text(self) -> str:
        return self._random.choice(("a", "a", "topic-1", "fuzz-1", "fuzz-2", "consumer", "", "größe", "x" * 300))

    def data(self) -> bytes:
        return _BATCH if self._random.random() < 0.3 else super().data()


_JOIN = (JoinProtocol("range", b"x"),)
_TOPIC = OffsetCommitTopic("a", (OffsetCommitPartition(0, 5), OffsetCommitPartition(1, 6, -1, "m")))
_SENSIBLE: tuple[Callable[[str, int], Message], ...] = (
    lambda member, generation: JoinGroup("a", 6_000, "", "consumer", _JOIN, 3_000),
    lambda member, generation: JoinGroup("a", 6_000, member, "consumer", _JOIN, 3_000),
    lambda member, generation: JoinGroup("a", 6_000, "", "consumer", _JOIN, 3_000, group_instance_id="i"),
    lambda member, generation: SyncGroup("a", generation, member, None, "consumer", "range"),
    lambda member, generation: SyncGroup("a", generation, member, assignments=(SyncGroupAssignment(member, b"y"),)),
    lambda member, generation: Heartbeat("a", generation, member),
    lambda member, generation: LeaveGroup("a", (LeavingMember(member),)),
    lambda member, generation: OffsetCommit("a", (_TOPIC,), generation, member),
    lambda member, generation: OffsetCommit("a", (_TOPIC,)),
    lambda member, generation: CreateTopics((CreatableTopic("a", 2, 1), CreatableTopic("topic-1", 1, 1))),
)
"""Requests that create groups, topics and offsets for the others."""


def _frame(random: Random) -> bytes:
    number = random.getrandbits(31)
    if random.random() < 0.4:
        message = random.choice(_SENSIBLE)(f"fuzz-{random.randrange(1, 6)}", random.randrange(1, 5))
        known = BY_MESSAGE[type(message)].request
        return encode_request(message, random.randint(known.oldest, known.newest), number, "fuzz")
    case = random.choice(_ASKED)
    frame = encode_request(sample(case, _Knowing(random)), case.version, number, "fuzz")
    if random.random() < 0.1:
        body = bend(frame[4:], random)
        frame = len(body).to_bytes(4, "big") + body
    return frame


class _Deaf(NodeRig):
    """Drops all replies. New connections follow closed ones."""

    def __init__(self) -> None:
        self.connections: list[int] = []
        self._opened = 0
        super().__init__()
        for _ in range(_CONNECTIONS):
            self.open()

    def open(self) -> None:
        self._opened += 1
        self.connections.append(self._opened)
        self.meet(Opened(self._opened, "kafka", "10.0.0.1"))

    def lose(self, number: int) -> None:
        self.meet(Lost(number))
        self.connections.remove(number)
        self.open()

    def meet(self, event: Event) -> None:
        self.step(event)
        self.wake_until_idle()

    def _carry_out(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            super()._carry_out(effect)


def node() -> Run:
    """An input is what a connection sends in one piece. A node lives for some thousands of them, with its members,
    topics and offsets; time passes."""
    lives: list[_Deaf] = []
    steps = 0

    def run(random: Random) -> bytes:
        nonlocal steps
        if steps % _STEPS_A_NODE == 0:
            lives[:] = [_Deaf()]
        steps += 1
        data = b"".join(_frame(random) for _ in range(random.choice((1, 1, 2, 5))))
        rig = lives[0]
        number = random.choice(rig.connections)
        try:
            rig.meet(Received(number, data))
            if number in rig.closed or random.random() < 0.2:
                rig.lose(number)
            if random.random() < 0.1:
                rig.wait(random.choice((1, 100, 3_000)))
        except Exception as error:
            lives[:] = [_Deaf()]
            raise Unforeseen(data) from error
        return data

    return run

"""Clients that are not members: one checks that answers come in time, one commits by topic ids, one floods."""

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat, JoinGroup, JoinProtocol
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from protocol.native.client import NativeAnswer
from protocol.record_batch import encode_batch
from tests.simulation.beside.broker import PHOENIX
from tests.simulation.beside.port import Port
from tests.simulation.beside.wires import BY_ID, IN_LINE
from tests.simulation.errors import Broken
from tests.simulation.network import Link
from tests.simulation.wires import NATIVE, Dialect

if TYPE_CHECKING:
    from tests.simulation.beside.world import BesideWorld

PULSE, KEEPER = "pulse", "keeper"
_LOOK_MS, _BEAT_EVERY = 100, 7
_AT_ONCE_MS, _MOST_LOOKS = 700, 6
_PROTOCOLS = (JoinProtocol("range", b""),)
_WAIT = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Pulse:
    """Speaks the native protocol over a connection without faults: whatever happens to the brokers, it is answered in
    time, unless the node itself is delayed."""

    dialect = NATIVE

    def __init__(self, world: "BesideWorld", random: Random) -> None:
        self.link: Link | None = None
        self.is_stopped = False
        self._world, self._random = world, random
        self._wire = NATIVE.connect("pulse")
        self._asked: dict[int, Message] = {}
        self._looks = self._offset = 0
        self._is_met = False
        self.hindered_ms = 0
        """Last time at which the node itself was delayed."""

    def look(self) -> None:
        world = self._world
        if self.is_stopped:
            return
        world.after(_LOOK_MS, self.look)
        if world.front.is_hindered:
            self.hindered_ms = world.now_ms
        self._looks += 1
        if self._looks % _BEAT_EVERY == 0:
            self._beat()

    def _beat(self) -> None:
        world = self._world
        if self.link is None:
            self._wire, self._asked = NATIVE.connect("pulse"), {}
            self.link = world.connect(world.front, self, self._received, self._lost, is_calm=True)
        if self.link is not None:
            self._ask(self._next())

    def _next(self) -> Message:
        chance = self._random.random()
        if chance < 0.3:
            return Heartbeat(PULSE, 1, "nobody")
        if chance < 0.4:
            return JoinGroup("joined pulse", 6_000, protocol_type="consumer", protocols=_PROTOCOLS)
        self._offset += 1
        if chance < 0.55:
            return self._commit("nowhere", 0)
        return self._commit("alpha", self._random.randrange(4))

    def _commit(self, topic: str, partition: int) -> OffsetCommit:
        message = OffsetCommit(PULSE, (OffsetCommitTopic(topic, (OffsetCommitPartition(partition, self._offset),)),))
        self._world.checkers.asked(self, message)  # type: ignore[arg-type]
        return message

    def _ask(self, message: Message) -> None:
        assert self.link is not None
        number, data = self._wire.encode_request(message)
        self._asked[number] = message
        late_ms = self.link.to_daemon.arrives_in_ms
        self.link.to_daemon.send(data)
        world = self._world
        world.after(late_ms + self._bound_ms(message), partial(self._must_be_answered, message, world.now_ms))

    def _bound_ms(self, message: Message) -> int:
        if isinstance(message, Heartbeat):
            return _AT_ONCE_MS
        asks = 1 if self._is_met and isinstance(message, OffsetCommit) else _MOST_LOOKS
        return _AT_ONCE_MS + asks * self._world.front.config.upstream_ask_timeout_ms

    def _must_be_answered(self, message: Message, asked_ms: int) -> None:
        is_open = any(message is other for other in self._asked.values())
        if is_open and self.link is not None and self.link.open and self.hindered_ms < asked_ms:
            raise Broken(f"{type(message).__name__} of {asked_ms} ms waits at {self._world.now_ms} ms")

    def _received(self, data: bytes) -> None:
        for item in self._wire.receive_data(data):
            if isinstance(item, NativeAnswer):
                message = self._asked.pop(item.number)
                self._world.seen.add("beats answered")
                if isinstance(message, OffsetCommit):
                    self._committed(message, item.reply)

    def _committed(self, message: OffsetCommit, reply: Any) -> None:
        self._world.checkers.heard(self, message, reply)  # type: ignore[arg-type]
        is_refused = isinstance(reply, ErrorReply)
        error = reply.error_code if is_refused else reply.topics[0].partitions[0].error_code
        self._is_met = self._is_met or not error
        self._world.seen.add(f"beats: {error.name}")
        self._world.seen.add("commits believed", message.topics[0].name == "nowhere" and not error)
        if message.topics[0].name == "alpha" and error and error not in _WAIT:
            raise Broken(f"a commit for a topic that is there is refused: {error.name}")

    def _lost(self) -> None:
        self.link, self._asked = None, {}


class Keeper:
    """Looks up a topic's id, commits an offset by that id, and reads it back."""

    def __init__(self, world: "BesideWorld", random: Random) -> None:
        self._world, self._random = world, random
        self._port = Port("keeper", BY_ID, world, world.open_link, self._heard)
        self._id = bytes(16)
        self._offset = 0
        self.is_stopped = False
        self._in_doubt: set[int] = set()
        """Unanswered commits: they may be stored at any time, after newer ones too."""
        self._stored = -1

    def act(self) -> None:
        if self.is_stopped:
            return
        self._world.after(self._random.randrange(300, 900), self.act)
        self._port.look()
        if self._port.message is None:
            self._port.ask(Metadata((MetadataTopic(PHOENIX),)))

    def _heard(self, message: Message, reply: Any) -> None:
        world = self._world
        if reply is None:
            return
        if isinstance(reply, MetadataReply):
            world.checkers.topology(reply)
            if not reply.topics[0].error_code:
                if self._id != reply.topics[0].topic_id:
                    self._stored = -1  # of a topic that is gone; a full disk may refuse all commits for the new one
                self._id = reply.topics[0].topic_id
                self._offset += 1
                self._in_doubt.add(self._offset)
                part = OffsetCommitPartition(0, self._offset)
                self._port.ask(OffsetCommit(KEEPER, (OffsetCommitTopic("", (part,), self._id),)))
            return
        if isinstance(message, OffsetCommit):
            part = reply.topics[0].partitions[0]
            self._must_be_known(part.error_code)
            if not part.error_code:
                world.seen.add("commits by id")
                self._stored = self._offset
            self._in_doubt.discard(self._offset)
            self._port.ask(OffsetFetch((OffsetFetchGroup(KEEPER, (OffsetFetchTopic("", (0,), self._id),)),)))
        elif isinstance(message, OffsetFetch):
            self._fetched(reply.groups[0])

    def _must_be_known(self, error: ErrorCode) -> None:
        """Check the error for a topic whose id was just returned on this connection."""
        node = self._world.broker.node
        if error is ErrorCode.UNKNOWN_TOPIC_ID and node is not None and node.core.topics.id_of(PHOENIX) == self._id:
            raise Broken(f"the id of {PHOENIX} is not known, though the client was told it here")

    def _fetched(self, group: Any) -> None:
        for topic in group.topics:
            for part in topic.partitions:
                self._must_be_known(part.error_code)
                self._must_be_stored(part)

    def _must_be_stored(self, part: Any) -> None:
        if part.error_code or self._stored < 0 or part.committed_offset == self._stored:
            return
        if part.committed_offset not in self._in_doubt:
            raise Broken(f"{KEEPER} is told {part.committed_offset}, it committed {self._stored}")
        self._stored = part.committed_offset


class Flood:
    """Sends a join, and after it more than may wait on one connection."""

    dialect: Dialect = IN_LINE

    def __init__(self, world: "BesideWorld", requests: int) -> None:
        self._wire = IN_LINE.connect("flood")
        self.link: Link | None = world.open_link(self, self._received, self._lost)
        if self.link is None:
            return
        world.seen.add("floods")
        join = JoinGroup("flooded", 6_000, protocol_type="consumer", protocols=_PROTOCOLS, rebalance_timeout_ms=6_000)
        batch = encode_batch([(None, bytes(40_000))], timestamp_ms=1)
        produce = Produce((ProduceTopic("nowhere", (ProducePartition(0, batch),)),))
        self._say(join)
        for _ in range(requests):
            self._say(produce)
        world.after(15_000, self._leave)

    def _say(self, message: Message) -> None:
        assert self.link is not None
        self.link.to_daemon.send(self._wire.encode_request(message)[1])

    def _received(self, data: bytes) -> None:
        self._wire.receive_data(data)

    def _lost(self) -> None:
        self.link = None

    def _leave(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.close_by_client()

"""Protocols of simulated members: the native one, or Kafka's in versions that the seed draws."""

from random import Random
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from protocol.apis import BY_MESSAGE
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import OffsetCommit, OffsetFetch
from protocol.messages.topics import Metadata
from protocol.native.client import NativeAnswer, NativeClient, Push

MAX_FRAME_BYTES = 1 << 20


class Wire(Protocol):
    """A client's side of one connection."""

    def encode_request(self, message: Message) -> tuple[int, bytes]: ...

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]: ...


class Dialect(NamedTuple):
    """Protocol and versions of a member, for all its connections."""

    name: str
    versions: dict[type[Message], int]

    def connect(self, client_id: str) -> Wire:
        return KafkaWire(client_id, self.versions) if self.versions else NativeClient(MAX_FRAME_BYTES)


NATIVE = Dialect("native", {})

_OLDEST: Final[dict[type[Message], int]] = {
    JoinGroup: 0,
    SyncGroup: 0,
    Heartbeat: 0,
    LeaveGroup: 3,  # below it the reply names no members, and our client needs them
    OffsetCommit: 1,
    OffsetFetch: 2,
    FindCoordinator: 4,  # below it the reply does not name the group
    Metadata: 1,
}
_OLDEST_WITH_INSTANCE: Final[dict[type[Message], int]] = {JoinGroup: 5, SyncGroup: 3, Heartbeat: 3, OffsetCommit: 7}
_BY_NAME: Final[dict[type[Message], int]] = {OffsetCommit: 9, OffsetFetch: 9}
"""The newest versions that name topics by name: our client knows no ids."""


def draw_dialect(random: Random, *, is_static: bool) -> Dialect:
    """Draw the dialect: every second member speaks Kafka's protocol, of any age."""
    if random.random() < 0.5:
        return NATIVE
    versions = {}
    for message, oldest in _OLDEST.items():
        least = max(oldest, _OLDEST_WITH_INSTANCE.get(message, 0) if is_static else 0)
        versions[message] = random.randint(least, _BY_NAME.get(message, BY_MESSAGE[message].request.newest))
    return Dialect("kafka", versions)


def server_driven_versions(random: Random, *, has_regex: bool) -> dict[type[Message], int]:
    """Draw the versions in which a member of a server-driven group says what only such members say. Its commits name
    its epoch from version 9 on, and a regular expression needs version 1 of its heartbeat."""
    return {ConsumerGroupHeartbeat: 1 if has_regex else random.choice((0, 1)), OffsetCommit: _BY_NAME[OffsetCommit]}


class KafkaWire:
    """Kafka's protocol, with the interface of the native client."""

    def __init__(self, client_id: str, versions: dict[type[Message], int]) -> None:
        self._client = KafkaClient(client_id, MAX_FRAME_BYTES)
        self._versions = versions
        self._group_ids: dict[int, str] = {}

    def encode_request(self, message: Message) -> tuple[int, bytes]:
        number, data = self._client.encode_request(message, self._versions[type(message)])
        if isinstance(message, OffsetFetch):
            self._group_ids[number] = message.groups[0].group_id
        return number, data

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        return [self._answer(number, reply) for number, reply in self._client.receive_data(data)]

    def _answer(self, number: int, reply: Any) -> NativeAnswer:
        group_id = self._group_ids.pop(number, None)
        if group_id is not None:
            # Replies of old versions do not name the group: there is only one.
            reply = msgspec.structs.replace(
                reply, groups=tuple(msgspec.structs.replace(group, group_id=group_id) for group in reply.groups)
            )
        return NativeAnswer(number, reply)

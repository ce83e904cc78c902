"""The protocol of clients of the proxied listeners: groups and records on one connection, in offered versions."""

from random import Random
from typing import Any

from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages.data import Fetch, InitProducerId, Produce
from protocol.messages.groups import JoinGroup
from protocol.messages.node import ApiVersions
from protocol.messages.offsets import OffsetCommit, OffsetFetch
from protocol.messages.topics import Metadata
from protocol.native.client import NativeAnswer, Push
from tests.simulation.errors import Broken
from tests.simulation.wires import Dialect, KafkaWire, Wire, server_driven_versions

_RECORDS: dict[type[Message], tuple[int, int]] = {
    Fetch: (4, 15),
    Produce: (3, 9),
    InitProducerId: (0, 5),
    ApiVersions: (0, 3),
    Metadata: (1, 13),
}
FETCH_BY_ID, METADATA_WITH_IDS, METADATA_BY_ID = 13, 10, 12
_MOST_NUMBER = 1 << 30


class _Wire(KafkaWire):
    """Check that each reply answers its request."""

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        try:
            return super().receive_data(data)
        except ProtocolViolation as violation:
            raise Broken(f"a client is told what it did not ask: {violation}") from violation


class BesideDialect(Dialect):
    """A client of Kafka's protocol. Its correlation ids begin at a number of its own, so that a reply to another
    client's request is noticed."""

    __slots__ = ()

    def connect(self, client_id: str) -> Wire:
        wire = _Wire(client_id, self.versions)
        wire._client._next_number = Random(client_id).randrange(_MOST_NUMBER)
        return wire


def with_records(dialect: Dialect, random: Random) -> Dialect:
    """Return the same client, which reads and writes too; one that speaks the native protocol does not."""
    if not dialect.versions:
        return dialect
    return BesideDialect("kafka", dialect.versions | draw_versions(random))


def draw_versions(random: Random) -> dict[type[Message], int]:
    """Draw versions of the requests about records and topics."""
    versions: dict[type[Message], Any] = {
        message: random.randint(oldest, newest) for message, (oldest, newest) in _RECORDS.items()
    }
    if versions[Fetch] >= FETCH_BY_ID:
        versions[Metadata] = max(versions[Metadata], METADATA_WITH_IDS)
    return versions


def server_driven(dialect: Dialect, random: Random, *, has_regex: bool) -> Dialect:
    """Return the same client, in the versions that a member of a server-driven group needs."""
    if not dialect.versions:
        return dialect
    versions: dict[type[Message], Any] = {
        **server_driven_versions(random, has_regex=has_regex),
        Metadata: max(dialect.versions[Metadata], METADATA_BY_ID),
        OffsetFetch: 9,
    }
    return BesideDialect("kafka", dialect.versions | versions)


def of_records(random: Random) -> Dialect:
    """Return the dialect of a connection for records alone."""
    return BesideDialect("kafka", draw_versions(random))


BY_ID = BesideDialect("kafka", {Metadata: 12, OffsetCommit: 10, OffsetFetch: 10})
"""A client that names topics by id wherever the API has a version that does."""
IN_LINE = BesideDialect("kafka", {JoinGroup: 3, Produce: 9, Metadata: 12})
UPSTREAM = Dialect("kafka", {})
"""A connection of the node's own to a broker."""

"""Groups whose members heartbeat and commit as Kafka's clients do by default, and how long each heartbeat takes."""

import select
import time
from collections.abc import Callable
from typing import Final

import msgpack

from bench import frames
from bench.crowd import Crowd, CrowdMember
from bench.frames import UnexpectedReply
from bench.processes import Daemon
from muster import Producer
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

GROUPS: Final = 1_000
MEMBERS_A_GROUP: Final = 10
OFFSETS_A_MEMBER: Final = 10
SILENT_GROUPS: Final = 20
_TOPICS: Final = tuple(f"topic-{number}" for number in range(10))
_PARTITIONS: Final = MEMBERS_A_GROUP * OFFSETS_A_MEMBER
_RECORDS: Final = 200
"""Records in each partition."""
_RECORDS_A_COMMIT: Final = 2
_HEARTBEAT_S, _COMMIT_S = 3.0, 5.0
_COMMIT_NUMBERS: Final = 1 << 20
"""Added to a line's number: the number of its commits."""


def fill(daemon: Daemon) -> None:
    """Make the topics, with records to be behind of."""
    for topic in _TOPICS:
        daemon.create_topic(topic, _PARTITIONS)
    host, port = daemon.native
    with Producer(f"{host}:{port}", linger_ms=20) as producer:
        for topic in _TOPICS:
            for number in range(_RECORDS * _PARTITIONS):
                producer.send(topic, b"record", partition=number % _PARTITIONS)


def form(daemon: Daemon) -> Crowd:
    """Form the groups. Group number n reads topic n modulo 10, each of its members ten partitions."""
    crowd = Crowd(daemon.native, protocol_of=_protocol, assigned=_assigned)
    crowd.form({f"group-{number}": MEMBERS_A_GROUP for number in range(GROUPS)})
    for number in range(SILENT_GROUPS):
        crowd.groups[f"group-{number * GROUPS // SILENT_GROUPS}"].members[-1].line.close()
    return crowd


def _topic(group_id: str) -> str:
    return _TOPICS[int(group_id.rpartition("-")[2]) % len(_TOPICS)]


def _protocol(group_id: str) -> bytes:
    return encode_subscription(Subscription((_topic(group_id),)))


def _assigned(group_id: str, place: int) -> bytes:
    partitions = tuple(range(place * OFFSETS_A_MEMBER, (place + 1) * OFFSETS_A_MEMBER))
    return encode_assignment(Assignment((TopicPartitions(_topic(group_id), partitions),)))


class _Reader:
    """A member's connection with both of its requests."""

    __slots__ = ("beat", "beat_sent", "beaten", "commit", "commit_sent", "committed", "line", "offset")

    def __init__(self, member: CrowdMember) -> None:
        line, of_member = member.line, (member.group.group_id, member.generation_id, member.member_id)
        ((topic, partitions),) = decode_assignment(member.assignment).partitions
        self.line = line
        self.beat = frames.heartbeat(line.number, *of_member)
        self.beaten = frames.heartbeat_reply(line.number)
        self.commit = frames.commit(line.number + _COMMIT_NUMBERS, *of_member, topic, partitions)
        self.committed = self._first_commit()
        self.beat_sent = self.commit_sent = 0.0
        self.offset = 1

    def _first_commit(self) -> bytes:
        """Commit once, checked; what the server says now it should say each time."""
        line = self.line
        line.number += _COMMIT_NUMBERS
        line.use(self.commit)
        line.number -= _COMMIT_NUMBERS
        line.socket.setblocking(False)
        return line.expected


class _Pace:
    """Readers in turn, evenly over an interval."""

    def __init__(self, readers: list[_Reader], every_s: float, now: float) -> None:
        self._readers, self._apart = readers, every_s / len(readers)
        self._began, self._sent = now, 0

    def due(self, now: float) -> list[_Reader]:
        """Return the readers whose turn has come since the last call."""
        until = int((now - self._began) / self._apart)
        count = len(self._readers)
        some = [self._readers[number % count] for number in range(self._sent, until)]
        self._sent = until
        return some


class Load:
    """All members that are not silent, in one thread."""

    def __init__(self, crowd: Crowd) -> None:
        self._readers = [_Reader(member) for member in crowd.members if member.line.socket.fileno() >= 0]
        self._by_fileno = {reader.line.fileno: reader for reader in self._readers}
        self._poll = select.epoll()
        for fileno in self._by_fileno:
            self._poll.register(fileno, select.EPOLLIN)

    def run(self, goes_on: Callable[[], bool]) -> list[float]:
        """Return the milliseconds that each heartbeat took, until `goes_on` says no and all are answered."""
        now = time.perf_counter()
        beats, commits = _Pace(self._readers, _HEARTBEAT_S, now), _Pace(self._readers, _COMMIT_S, now)
        took: list[float] = []
        while goes_on():
            now = time.perf_counter()
            for reader in beats.due(now):
                if not reader.beat_sent:
                    reader.beat_sent = time.perf_counter()
                    reader.line.socket.send(reader.beat.data)
            for reader in commits.due(now):
                self._commit(reader)
            self._receive(0.001, took)
        while any(reader.beat_sent or reader.commit_sent for reader in self._readers):
            self._receive(0.2, took)
        return took

    def _commit(self, reader: _Reader) -> None:
        if not reader.commit_sent:
            reader.offset = min(reader.offset + _RECORDS_A_COMMIT, _RECORDS)
            reader.commit.set_offset(reader.offset)
            reader.commit_sent = time.perf_counter()
            reader.line.socket.send(reader.commit.data)

    def _receive(self, seconds: float, took: list[float]) -> None:
        for fileno, _ in self._poll.poll(seconds):
            reader = self._by_fileno[fileno]
            data = reader.line.socket.recv(65536)
            if reader.beat_sent and reader.beaten in data:
                data = data.replace(reader.beaten, b"", 1)
                took.append((time.perf_counter() - reader.beat_sent) * 1e3)
                reader.beat_sent = 0.0
            if reader.commit_sent and reader.committed in data:
                data = data.replace(reader.committed, b"", 1)
                reader.commit_sent = 0.0
            if data:
                raise UnexpectedReply(f"member {reader.line.number} was answered {msgpack.unpackb(data)!r}")

"""Nodes of a simulated cluster for a fetcher: logs, and the server's side of fetch sessions."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.data import (
    AbortedTransaction,
    EpochEndOffset,
    EpochTopicReply,
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopicReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
)
from protocol.record_batch import empty_batch, encode_batch, read_header


def batch(base_offset: int, count: int, **more: int | bool) -> bytes:
    pairs = [(None, b"%d" % (base_offset + n)) for n in range(count)]
    return encode_batch(pairs, timestamp_ms=1, base_offset=base_offset, **more)  # type: ignore[arg-type]


@dataclass
class Log:
    """A log of arbitrary batches; `epochs` has the end of each leader epoch."""

    leader: int
    epoch: int = 0
    start: int = 0
    batches: list[bytes] = field(default_factory=list)
    error: ErrorCode = ErrorCode.NONE
    preferred: int = -1
    aborted: list[AbortedTransaction] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else self.start

    def append(self, count: int, **more: int | bool) -> None:
        self.batches.append(batch(self.end, count, leader_epoch=self.epoch, **more))

    def control(self, *, producer_id: int = -1, commits: bool = True) -> None:
        key = b"\0\0\0\1" if commits else b"\0\0\0\0"
        self.batches.append(
            encode_batch(
                [(key, b"")],
                timestamp_ms=1,
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=True,
                control=True,
            )
        )

    def compacted_away(self, count: int) -> None:
        self.batches.append(empty_batch(self.end, self.end + count))

    def read(self, offset: int, at_most: int) -> bytes:
        data = b""
        for one in self.batches:
            if read_header(one).next_offset > offset and (not data or len(data) + len(one) <= at_most):
                data += one
        return data


@dataclass
class Remembered:
    """A fetch session, at the node."""

    epoch: int
    partitions: dict[TopicPartition, FetchPartition]
    told: dict[TopicPartition, int] = field(default_factory=dict)  # high watermarks


class Node:
    """One node. `slots` is the number of sessions it keeps; for `follows` it has the records as a follower."""

    def __init__(self, number: int, logs: dict[TopicPartition, Log], slots: int = 10) -> None:
        self.number = number
        self.logs = logs
        self.slots = slots
        self.sessions: dict[int, Remembered] = {}
        self._last_id = 100 * (number + 1)
        self.follows: set[TopicPartition] = set()
        self.throttle_time_ms = 0

    def restart(self) -> None:
        self.sessions.clear()

    # -- fetching

    def begin(self, message: Fetch) -> tuple[int, dict[TopicPartition, FetchPartition]] | FetchReply:
        """Return the session of the request (0: none) and all its partitions, or the error
        (docs/spec/consumer-client.md#C)."""
        said = {TopicPartition(t.topic, p.partition): p for t in message.topics for p in t.partitions}
        if message.session_epoch in (0, -1):
            self.sessions.pop(message.session_id, None)
            if message.session_epoch == -1 or len(self.sessions) >= self.slots or not said:
                return 0, said
            self._last_id += 1
            self.sessions[self._last_id] = Remembered(1, said)
            return self._last_id, said
        session = self.sessions.get(message.session_id)
        if session is None:
            return FetchReply(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if message.session_epoch != session.epoch:
            return FetchReply(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        for topic in message.forgotten_topics_data:
            for number in topic.partitions:
                del session.partitions[TopicPartition(topic.topic, number)]
        for one, asked in said.items():
            session.partitions.pop(one, None)
            session.partitions[one] = asked
        session.epoch += 1
        return message.session_id, session.partitions

    def has_news(self, message: Fetch, wanted: dict[TopicPartition, FetchPartition]) -> bool:
        answers = [self._read(one, asked, message) for one, asked in wanted.items()]
        return not wanted or any(
            one.records or one.error_code != ErrorCode.NONE or one.preferred_read_replica >= 0 for one in answers
        )

    def answer(self, message: Fetch, session_id: int, wanted: dict[TopicPartition, FetchPartition]) -> FetchReply:
        session = self.sessions.get(session_id)
        topics: dict[str, list[FetchPartitionReply]] = {}
        for one, asked in tuple(wanted.items()):
            reply = self._read(one, asked, message)
            is_news = bool(reply.records) or reply.error_code != ErrorCode.NONE or reply.preferred_read_replica >= 0
            if session is not None:
                is_news |= session.told.get(one) != reply.high_watermark
                session.told[one] = reply.high_watermark if reply.error_code == ErrorCode.NONE else -1
            if is_news or message.session_epoch in (0, -1):
                topics.setdefault(one.topic, []).append(reply)
        responses = tuple(FetchTopicReply(name, tuple(ones)) for name, ones in topics.items())
        return FetchReply(ErrorCode.NONE, responses, session_id, self.throttle_time_ms)

    def _read(self, one: TopicPartition, asked: FetchPartition, message: Fetch) -> FetchPartitionReply:
        log = self.logs.get(one)
        error = self._error(one, asked.current_leader_epoch)
        if log is None or error != ErrorCode.NONE:
            return FetchPartitionReply(one.partition, error)
        reply = FetchPartitionReply(one.partition, ErrorCode.NONE, log.end, log.end, log.start)
        if not log.start <= asked.fetch_offset <= log.end:
            return FetchPartitionReply(one.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.number == log.leader and log.preferred not in {-1, self.number}:
            return replace(reply, preferred_read_replica=log.preferred)
        records = log.read(asked.fetch_offset, asked.partition_max_bytes)
        aborted = tuple(log.aborted) if message.isolation_level else None
        return replace(reply, records=records, aborted_transactions=aborted)

    def _error(self, one: TopicPartition, epoch: int) -> ErrorCode:
        log = self.logs.get(one)
        if log is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.number != log.leader and one not in self.follows:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.error != ErrorCode.NONE:
            return log.error
        if epoch not in {-1, log.epoch}:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < log.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    # -- asking about offsets

    def list_offsets(self, message: ListOffsets) -> ListOffsetsReply:
        topics = []
        for topic in message.topics:
            answers = []
            for asked in topic.partitions:
                one = TopicPartition(topic.name, asked.partition_index)
                error = self._error(one, asked.current_leader_epoch)
                offset = -1
                if error == ErrorCode.NONE:
                    offset = self.logs[one].start if asked.timestamp == -2 else self.logs[one].end
                answers.append(ListOffsetsPartitionReply(asked.partition_index, error, offset=offset))
            topics.append(ListOffsetsTopicReply(topic.name, tuple(answers)))
        return ListOffsetsReply(tuple(topics))

    def end_offsets(self, message: OffsetForLeaderEpoch) -> OffsetForLeaderEpochReply:
        topics = []
        for topic in message.topics:
            answers = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.topic, asked.partition)]
                end = log.epochs.get(asked.leader_epoch, log.end)
                answers.append(EpochEndOffset(asked.partition, ErrorCode.NONE, asked.leader_epoch, end))
            topics.append(EpochTopicReply(topic.topic, tuple(answers)))
        return OffsetForLeaderEpochReply(tuple(topics))

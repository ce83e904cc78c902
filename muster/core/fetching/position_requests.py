"""Requests that find positions: start offsets, ends of logs, and validation with a new leader
(docs/spec/consumer-client.md#B5).

Each node gets at most one request of a kind at a time. A reply counts only if its request is still valid: the same
assignment of the partition, in the same state, waiting for the same result.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from membership.events import NodeAddress
from membership.topic_partition import TopicPartition
from muster.core.fetching.leaders import Leader, Leaders
from muster.core.fetching.retries import Retries
from muster.core.fetching.settings import FetchSettings, Isolation
from muster.core.positions import ConsumerPositions, OffsetReset, Position, PositionState
from muster.errors import LogTruncated, MusterError, Refused
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    EpochEndOffset,
    EpochPartition,
    EpochTopic,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic

TIMESTAMPS = {OffsetReset.EARLIEST: -2, OffsetReset.LATEST: -1}
_END = TIMESTAMPS[OffsetReset.LATEST]
_UNABLE = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})

T = TypeVar("T")

Report = Callable[[TopicPartition, Position, MusterError], None]


class PartitionRequest(NamedTuple):
    """A request about a position. `number` is the offset to fetch or to validate, or the timestamp of a ListOffsets."""

    position: Position
    number: int
    epoch: int = -1


NodeRequest = tuple[NodeAddress, Message, dict[TopicPartition, PartitionRequest]]


class PositionRequests:
    """The pending requests about positions. `report` takes errors for the application."""

    def __init__(
        self,
        subscription: ConsumerPositions,
        settings: FetchSettings,
        leaders: Leaders,
        retries: Retries,
        report: Report,
    ) -> None:
        self._subscription = subscription
        self._settings = settings
        self._leaders = leaders
        self._retries = retries
        self._report = report

    def check(self, position: Position, leader: Leader) -> None:
        """Validate a position before a fetch, since a leader with a newer epoch may lack records that were read
        before."""
        if leader.epoch <= position.checked_epoch:
            return
        if self._settings.validates_positions and 0 <= position.offset_epoch < leader.epoch:
            position.await_validation()
        else:
            position.checked_epoch = leader.epoch

    def plan(self, busy: set[tuple[NodeAddress, type[Message]]]) -> Iterator[NodeRequest]:
        offsets: dict[NodeAddress, dict[TopicPartition, PartitionRequest]] = {}
        epochs: dict[NodeAddress, dict[TopicPartition, PartitionRequest]] = {}
        for one, position in self._subscription.items():
            leader = self._leaders.at(one)
            if leader is None or position.retry_at_ms > self._retries.now_ms:
                continue
            timestamp = _timestamp(position)
            if timestamp is not None and (leader.node, ListOffsets) not in busy:
                offsets.setdefault(leader.node, {})[one] = PartitionRequest(position, timestamp, leader.epoch)
            elif position.state is PositionState.AWAIT_VALIDATION and (leader.node, OffsetForLeaderEpoch) not in busy:
                assert position.offset is not None
                epochs.setdefault(leader.node, {})[one] = PartitionRequest(position, position.offset, leader.epoch)
        for node, requests in offsets.items():
            yield node, self._list_offsets(requests), requests
        for node, requests in epochs.items():
            yield node, _end_offsets(requests), requests

    def on_offsets_reply(self, requests: Mapping[TopicPartition, PartitionRequest], reply: ListOffsetsReply) -> None:
        for topic in reply.topics:
            for answer in topic.partitions:
                one = TopicPartition(topic.name, answer.partition_index)
                request = requests.get(one)
                if request is None or not self._stands(one, request):
                    continue
                position, timestamp = request.position, request.number
                if answer.error_code != ErrorCode.NONE or answer.offset < 0:
                    self._refused(one, position, answer.error_code, "has no known end")
                elif position.state is PositionState.AWAIT_RESET:
                    position.go(answer.offset, answer.leader_epoch)
                elif timestamp == _END:
                    position.wants_end = False
                    position.high_watermark = max(position.high_watermark, answer.offset)
                    position.last_stable_offset = max(position.last_stable_offset, answer.offset)

    def on_epochs_reply(
        self, requests: Mapping[TopicPartition, PartitionRequest], reply: OffsetForLeaderEpochReply
    ) -> None:
        for topic in reply.topics:
            for answer in topic.partitions:
                one = TopicPartition(topic.topic, answer.partition)
                request = requests.get(one)
                if request is not None and self._is_validating(one, request):
                    self._validate(one, request, answer)

    def give_up_validating(self, requests: Mapping[TopicPartition, PartitionRequest]) -> None:
        """Skip validation, since the node does not have the request: positions count as valid."""
        for one, request in requests.items():
            if self._is_validating(one, request):
                request.position.validated(request.epoch)

    def _validate(self, one: TopicPartition, request: PartitionRequest, answer: EpochEndOffset) -> None:
        position, offset = request.position, request.number
        if answer.error_code in _UNABLE:
            position.validated(request.epoch)
        elif answer.error_code != ErrorCode.NONE:
            self._refused(one, position, answer.error_code, "cannot be checked")
        elif answer.end_offset >= offset:
            position.validated(request.epoch)
            position.failures = 0
        elif self._settings.reset is OffsetReset.NONE:
            divergent = answer.end_offset if answer.end_offset >= 0 and answer.leader_epoch >= 0 else None
            sentence = (
                f"{one} was read up to {offset}, but its leader's log "
                + ("does not have that" if divergent is None else f"parts from it at {divergent}")
                + ", and auto_offset_reset is 'none': seek to go on"
            )
            self._retries.later(position)
            self._report(one, position, LogTruncated(one, offset, divergent, sentence))
        elif answer.end_offset < 0 or answer.leader_epoch < 0:
            position.await_reset(self._settings.reset)
        else:
            position.go(answer.end_offset, answer.leader_epoch)

    def _refused(self, one: TopicPartition, position: Position, code: ErrorCode, what: str) -> None:
        if code == ErrorCode.NONE or code.retriable:
            self._retries.elsewhere(one, position)
        else:
            self._retries.later(position)
            self._report(one, position, Refused(code, f"{one} {what}: {code.name}"))

    def _stands(self, one: TopicPartition, request: PartitionRequest) -> bool:
        position = request.position
        return self._subscription.at(one) is position and _timestamp(position) == request.number

    def _is_validating(self, one: TopicPartition, request: PartitionRequest) -> bool:
        position = request.position
        return (
            self._subscription.at(one) is position
            and position.state is PositionState.AWAIT_VALIDATION
            and position.offset == request.number
        )

    def _list_offsets(self, requests: Mapping[TopicPartition, PartitionRequest]) -> ListOffsets:
        def one(number: int, request: PartitionRequest) -> ListOffsetsPartition:
            return ListOffsetsPartition(number, request.number, request.epoch)

        topics = (
            ListOffsetsTopic(topic, tuple(one(number, request) for number, request in ones.items()))
            for topic, ones in by_topic(requests).items()
        )
        return ListOffsets(tuple(topics), int(self._settings.isolation == Isolation.READ_COMMITTED))


def _timestamp(position: Position) -> int | None:
    """Return the timestamp to request from the leader, if there is one."""
    if position.state is PositionState.AWAIT_RESET:
        assert position.reset is not None
        return TIMESTAMPS[position.reset]
    return _END if position.wants_end and position.is_valid else None


def _end_offsets(requests: Mapping[TopicPartition, PartitionRequest]) -> OffsetForLeaderEpoch:
    def one(number: int, request: PartitionRequest) -> EpochPartition:
        return EpochPartition(number, request.position.offset_epoch, request.epoch)

    return OffsetForLeaderEpoch(
        tuple(
            EpochTopic(topic, tuple(one(number, request) for number, request in ones.items()))
            for topic, ones in by_topic(requests).items()
        )
    )


def by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """Group by topic and number, in the given order."""
    topics: dict[str, dict[int, T]] = {}
    for one, what in partitions.items():
        topics.setdefault(one.topic, {})[one.partition] = what
    return topics

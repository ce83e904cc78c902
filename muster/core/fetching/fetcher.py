"""The fetcher itself: fetch requests to nodes, and the handling of their replies.

One fetch for each node is in flight, and none for a partition with buffered records. A position moves only when records
are returned, and only from the offset of their request, which discards late, repeated and outdated replies
(docs/spec/consumer-client.md#B6).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from membership.events import CallFailed, HangUp, MemberEffect, MemberEvent, NodeAddress, Replied, SendRequest
from membership.topic_partition import TopicPartition
from muster.core.fetching.buffer import FailedFetch, FetchBuffer, TakenRecords, Taking
from muster.core.fetching.leaders import Leaders
from muster.core.fetching.position_requests import PartitionRequest, PositionRequests, by_topic
from muster.core.fetching.records import ConsumerRecord, FetchedRecords
from muster.core.fetching.retries import Retries
from muster.core.fetching.sessions import FetchSession, SessionRequest
from muster.core.fetching.settings import FetchSettings, Grants, Isolation
from muster.core.positions import ConsumerPositions, OffsetReset, Position, PositionState
from muster.errors import MusterError, NoOffset, OffsetOutOfRange, Refused
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    ForgottenTopic,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from protocol.messages.offsets import ListOffsetsReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

_LASTING = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
"""Errors that are retried, although without another replica only a repaired disk helps."""
_REPORTED = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.CORRUPT_MESSAGE}
)
_SAME_LEADER = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_SESSION_LOST = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class _SentFetch(msgspec.Struct, frozen=True):
    message: Message
    node: NodeAddress | None
    requests: Mapping[TopicPartition, PartitionRequest]
    deadline_ms: int


class Fetcher:
    """Fetches records for each partition of a `ConsumerPositions`: `step` takes events and returns requests, `take`
    returns records. `jitter` returns numbers in [0, 1) for backoffs, as `random.random` does.
    """

    def __init__(
        self, subscription: ConsumerPositions, settings: FetchSettings, jitter: Callable[[], float] = lambda: 0.5
    ) -> None:
        self._subscription = subscription
        self._settings = settings
        self._leaders = Leaders()
        self._buffer = FetchBuffer(subscription)
        self._retries = Retries(settings, self._leaders, jitter)
        self._position_requests = PositionRequests(subscription, settings, self._leaders, self._retries, self._report)
        self._sessions: dict[NodeAddress, FetchSession] = {}
        self._quiet_until_ms: dict[NodeAddress, int] = {}
        self._sent: dict[int, _SentFetch] = {}
        self._calls_made = 0
        self._metadata_at_ms = 0
        self._metadata_failures = 0
        self._leaders_until_ms = 0
        self._asks_for_all = False
        self._now_ms = 0
        self._is_closing = False
        self._effects: list[MemberEffect] = []
        self.grants = Grants()
        """Grants that fetches send; none unless partitions are claimed."""

    # -- called by the consumer

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Handle a reply or the passing of time (`TimePassed`); return the next requests."""
        self._now_ms = self._retries.now_ms = max(now_ms, self._now_ms)
        if isinstance(event, Replied | CallFailed):
            sent = self._sent.pop(event.call, None)
            if sent is not None:
                self._on_reply(sent, event.reply if isinstance(event, Replied) else None)
        for number, sent in tuple(self._sent.items()):
            if sent.deadline_ms <= self._now_ms:
                del self._sent[number]
                self._effects.append(HangUp(sent.node))
                self._on_reply(sent, None)
        if not self._is_closing:
            self._plan()
        return self._flush()

    @property
    def next_deadline_ms(self) -> int | None:
        return min(self._deadlines(), default=None)

    @property
    def has_something(self) -> bool:
        """True if `take` has records to return, or an error to raise."""
        return self._buffer.has_something

    @property
    def made_progress(self) -> bool:
        """True if the last `take` moved a position, even if only past control records."""
        return self._buffer.made_progress

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return records in a new list."""
        taken: list[ConsumerRecord] = []
        self._buffer.take(max_records, taken)
        return taken

    def take_into(self, taken: Taking, max_records: int) -> None:
        """Move records into `taken` and the positions past them. Raises the error of a partition once no records are
        left before it. Call `step` next, since returned records free space for the next fetches.
        """
        self._buffer.take(max_records, taken)

    def take_one(self) -> TakenRecords | None:
        """Same as that of `FetchBuffer`."""
        return self._buffer.take_one()

    def assign(self, partitions: Iterable[TopicPartition], *, awaits_callback: bool = False) -> None:
        """Same as `ConsumerPositions.assign`; buffered records of revoked partitions are dropped at once."""
        self._subscription.assign(partitions, awaits_callback=awaits_callback)
        self._buffer.drop_stale()

    def begin(self, committed: Mapping[TopicPartition, int | None]) -> None:
        """Set positions that are missing to the group's offsets (None: it has none). Raises NoOffset for partitions
        without one, if `reset` is NONE; the others are read in any case.
        """
        missing = self._subscription.begin(committed, self._settings.reset)
        if missing:
            names = ", ".join(map(str, missing))
            raise NoOffset(f"no offset is committed for {names}, and auto_offset_reset is 'none'")

    def current_lag(self, one: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end for this isolation level. None while that is
        unknown; the leader is then asked in the background. Raises ValueError if `one` is not assigned.
        """
        offset, position = self._subscription.position(one), self._subscription.at(one)
        if offset is None or position is None:
            return None
        end = position.end(is_committed=self._settings.isolation == Isolation.READ_COMMITTED)
        if end < 0:
            position.wants_end = True
            return None
        return max(0, end - offset)

    def update_metadata(self, reply: MetadataReply) -> None:
        """Use metadata that was requested elsewhere."""
        self._leaders.on_metadata(reply)

    def close(self, now_ms: int) -> list[MemberEffect]:
        """Send a last request to each node with a fetch session, and no others. `step` still handles replies, and
        `is_closed` is true once all have arrived or timed out.
        """
        self._now_ms = self._retries.now_ms = max(now_ms, self._now_ms)
        self._is_closing = True
        self._sent.clear()
        for node, session in self._sessions.items():
            final = session.final_request()
            if final is not None:
                self._call(self._fetch(final, 0), node, {})
        return self._flush()

    @property
    def is_closed(self) -> bool:
        return self._is_closing and not self._sent

    # -- requests

    def _plan(self) -> None:
        self._buffer.drop_stale()
        self._ask_metadata()
        busy = {(sent.node, type(sent.message)) for sent in self._sent.values() if sent.node is not None}
        for node, wanted in self._wanted({node for node, kind in busy if kind is Fetch}).items():
            request = self._session(node).request(
                {one: self._fetch_partition(one, partition) for one, partition in wanted.items()}
            )
            self._call(self._fetch(request, self._settings.max_wait_ms), node, wanted)
        for node, message, requests in self._position_requests.plan(busy):
            self._call(message, node, requests)

    def _wanted(self, busy: set[NodeAddress]) -> dict[NodeAddress, dict[TopicPartition, PartitionRequest]]:
        """Return the partitions to fetch from each node that is free (docs/spec/consumer-client.md#B2)."""
        buffered = self._buffer.partitions()
        wanted: dict[NodeAddress, dict[TopicPartition, PartitionRequest]] = {}
        for one, position in self._subscription.items():
            leader = self._leaders.at(one)
            if leader is None or one in buffered or position.retry_at_ms > self._now_ms or not position.is_valid:
                continue
            self._position_requests.check(position, leader)
            node = self._leaders.reader(one, self._now_ms) or leader.node
            if node in busy or self._quiet_until_ms.get(node, 0) > self._now_ms or not position.is_fetchable:
                continue
            assert position.offset is not None
            wanted.setdefault(node, {})[one] = PartitionRequest(position, position.offset, leader.epoch)
        return wanted

    def _fetch_partition(self, one: TopicPartition, request: PartitionRequest) -> FetchPartition:
        owner_epoch = self.grants.epochs.get(one, -1)
        return FetchPartition(
            one.partition, request.number, self._settings.partition_max_bytes, request.epoch, owner_epoch=owner_epoch
        )

    def _fetch(self, request: SessionRequest, max_wait_ms: int) -> Fetch:
        topics = (
            FetchTopic(topic, tuple(ones.values()), self._leaders.topic_id(topic))
            for topic, ones in by_topic(request.partitions).items()
        )
        forgotten = (
            ForgottenTopic(topic, tuple(ones), self._leaders.topic_id(topic))
            for topic, ones in by_topic(dict.fromkeys(request.forgotten)).items()
        )
        return Fetch(
            tuple(topics),
            max_wait_ms,
            self._settings.min_bytes,
            self._settings.max_bytes,
            self._settings.isolation,
            request.session_id,
            request.epoch,
            tuple(forgotten),
            self._settings.rack,
            self.grants.group_id,
            self.grants.member_id,
        )

    def _session(self, node: NodeAddress) -> FetchSession:
        if node not in self._sessions:
            self._sessions[node] = FetchSession(is_wanted=self._settings.sessions)
        return self._sessions[node]

    def _ask_metadata(self) -> None:
        """Request unknown leaders, and all of them when the metadata has expired (docs/spec/consumer-client.md#A9),
        since a former leader need not report that.
        """
        if self._metadata_at_ms > self._now_ms or self._is_asking(Metadata):
            return
        self._asks_for_all = self._leaders_until_ms <= self._now_ms
        assigned = self._subscription.assigned
        doubtful = assigned if self._asks_for_all else self._leaders.unknown(assigned)
        if doubtful:
            names = sorted({one.topic for one in doubtful})
            self._call(Metadata(tuple(MetadataTopic(name) for name in names)), None, {})

    def _call(
        self, message: Message, node: NodeAddress | None, requests: Mapping[TopicPartition, PartitionRequest]
    ) -> None:
        self._calls_made += 1
        wait_ms = message.max_wait_ms if isinstance(message, Fetch) else 0
        deadline_ms = self._now_ms + self._settings.request_timeout_ms + wait_ms
        self._sent[self._calls_made] = _SentFetch(message, node, requests, deadline_ms)
        self._effects.append(SendRequest(self._calls_made, node, message))

    def _flush(self) -> list[MemberEffect]:
        effects, self._effects = self._effects, []
        return effects

    def _is_asking(self, kind: type[Message]) -> bool:
        return any(isinstance(sent.message, kind) for sent in self._sent.values())

    def _deadlines(self) -> Iterator[int]:
        for sent in self._sent.values():
            yield sent.deadline_ms
        if self._is_closing:
            return
        yield from (at_ms for at_ms in self._quiet_until_ms.values() if at_ms > self._now_ms)
        is_asking = self._is_asking(Metadata)
        if self._subscription.assigned and not is_asking:
            yield max(self._leaders_until_ms, self._metadata_at_ms)
        for one, position in self._subscription.items():
            if position.retry_at_ms > self._now_ms:
                yield position.retry_at_ms
            if not is_asking and self._leaders.at(one) is None:
                yield self._metadata_at_ms

    # -- replies

    def _on_reply(self, sent: _SentFetch, reply: Message | None) -> None:
        if isinstance(sent.message, Metadata):
            self._on_metadata(reply)
        elif isinstance(sent.message, Fetch) and sent.node is not None:
            if not self._is_closing:
                self._on_fetch(sent, sent.node, reply)
        elif isinstance(reply, ListOffsetsReply):
            self._position_requests.on_offsets_reply(sent.requests, reply)
        elif isinstance(reply, OffsetForLeaderEpochReply):
            self._position_requests.on_epochs_reply(sent.requests, reply)
        elif isinstance(sent.message, OffsetForLeaderEpoch) and reply is not None:
            self._position_requests.give_up_validating(sent.requests)
        else:
            self._doubt_all(sent.requests)

    def _on_metadata(self, reply: Message | None) -> None:
        if not isinstance(reply, MetadataReply):
            self._look_later()
            self._effects.append(HangUp(None))
            return
        self._leaders.on_metadata(reply)
        if self._asks_for_all:
            age_ms = max(self._settings.metadata_max_age_ms, self._settings.retry_backoff_ms)
            self._leaders_until_ms = self._now_ms + age_ms
        if self._leaders.unknown(self._subscription.assigned):
            self._look_later()
        else:
            self._metadata_failures = 0

    def _on_fetch(self, sent: _SentFetch, node: NodeAddress, reply: Message | None) -> None:
        session = self._session(node)
        if not isinstance(reply, FetchReply):
            session.failed()
            self._doubt_all(sent.requests)
            return
        answers: dict[TopicPartition, FetchPartitionReply] = {}
        for topic in reply.responses:
            name = self._leaders.topic_name(topic.topic, topic.topic_id)
            answers.update((TopicPartition(name, answer.partition_index), answer) for answer in topic.partitions)
        self._quiet_until_ms.pop(node, None)
        if reply.throttle_time_ms > 0:
            self._quiet_until_ms[node] = self._now_ms + reply.throttle_time_ms
        if session.on_reply(reply.error_code, reply.session_id, answers, reply.throttle_time_ms):
            for one, answer in answers.items():
                request = sent.requests.get(one)
                if request is not None and self._subscription.at(one) is request.position:
                    self._on_partition(one, request, answer, node)
        elif reply.error_code not in _SESSION_LOST | {ErrorCode.NONE}:
            self._doubt_all(sent.requests)
        elif session.failures > 1:
            self._quiet_until_ms[node] = self._retries.at_ms(session.failures - 2)

    def _on_partition(
        self, one: TopicPartition, request: PartitionRequest, answer: FetchPartitionReply, node: NodeAddress
    ) -> None:
        position, code = request.position, answer.error_code
        if position.offset != request.number or position.state is not PositionState.FETCHING:
            return
        position.trouble = ErrorCode.NONE if code.retriable and code not in _LASTING else code
        if code != ErrorCode.NONE:
            self._subscription.move_to_end(one)
            self._on_error(one, request, code, node)
            return
        position.failures = 0
        _take_over(position, answer)
        if answer.preferred_read_replica >= 0:
            until_ms = self._now_ms + self._settings.metadata_max_age_ms
            self._leaders.prefer(one, answer.preferred_read_replica, until_ms)
        if answer.records:
            self._buffer.add(FetchedRecords(one, position, request.number, answer, self._settings))

    def _on_error(self, one: TopicPartition, request: PartitionRequest, code: ErrorCode, node: NodeAddress) -> None:
        """Handle a partition's error (docs/spec/consumer-client.md#B4)."""
        position = request.position
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            leader = self._leaders.at(one)
            if not (self._leaders.forget_preferred(one) and leader is not None and leader.node != node):
                self._out_of_range(one, request)
        elif code in _REPORTED:
            self._retries.later(position)
            self._report(one, position, Refused(code, f"{one} cannot be read: {code.name}"))
        elif code.retriable and code not in _SAME_LEADER:
            self._retries.elsewhere(one, position)
        else:
            self._retries.later(position)

    def _out_of_range(self, one: TopicPartition, request: PartitionRequest) -> None:
        position, offset = request.position, request.number
        if self._settings.reset is OffsetReset.NONE:
            sentence = f"offset {offset} of {one} is out of range, and auto_offset_reset is 'none': seek to go on"
            self._retries.later(position)
            self._report(one, position, OffsetOutOfRange(one, offset, sentence))
        else:
            position.await_reset(self._settings.reset)

    def _report(self, one: TopicPartition, position: Position, error: MusterError) -> None:
        self._buffer.add(FailedFetch(one, position, error))

    def _doubt_all(self, requests: Mapping[TopicPartition, PartitionRequest]) -> None:
        for one, request in requests.items():
            if self._subscription.at(one) is request.position:
                self._retries.elsewhere(one, request.position)

    def _look_later(self) -> None:
        self._metadata_at_ms = self._retries.at_ms(self._metadata_failures)
        self._metadata_failures += 1


def _take_over(position: Position, answer: FetchPartitionReply) -> None:
    if answer.high_watermark >= 0:
        position.high_watermark = answer.high_watermark
        position.last_stable_offset = answer.last_stable_offset
        position.log_start_offset = answer.log_start_offset

"""First and end offsets of the cluster's partitions, as their leaders last answered, and the age of those answers.

An answer counts as old as its request: it may not have been true any more when it arrived.
"""

from collections.abc import Callable, Iterator

import msgspec

from coordinator.gateway.upstream_requests import DelayedUpstreamRequest, PendingRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    ListOffsetsTopicReply,
)

SILENT_FOR_MS = 5_000
"""Time for which a broker that did not answer a ListOffsets is sent no other one."""
_EARLIEST, _LATEST = -2, -1
_KEPT = (_EARLIEST, _LATEST)
"""Timestamps whose offsets are kept and shared. The answer for any other is used only for its request."""
_NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

EndQuery = tuple[int, int, int]
"""A partition, the requested timestamp, and the isolation level."""
LeaderOf = Callable[[str, int], int | None]
UnderWay = Callable[[int], PendingRequest | None]


class End(msgspec.Struct, frozen=True, gc=False):
    """An offset as its leader answered it, or its error. `as_of_ms`: time of the request."""

    offset: int
    timestamp: int
    leader_epoch: int
    as_of_ms: int
    error_code: ErrorCode = ErrorCode.NONE


Answers = dict[tuple[str, EndQuery], End]


class Ends:
    """First and end offsets of all partitions that were requested."""

    def __init__(self) -> None:
        self._known: dict[str, dict[EndQuery, End]] = {}
        self._calls: dict[str, dict[EndQuery, int]] = {}
        self._silent: dict[int, int] = {}
        """Time until which a broker is not asked."""

    # ---------------------------------------------------------------------------------------------------- requesting

    def to_ask(
        self, message: ListOffsets, leader_of: LeaderOf, under_way: UnderWay, now_ms: int
    ) -> tuple[tuple[tuple[ListOffsets, int], ...], tuple[int, ...]]:
        """Return the requests to each broker, and the calls under way that will answer the rest."""
        parts: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        joined: dict[int, None] = {}
        oldest_ms = now_ms - message.max_age_ms
        for topic, part, query in _queries(message):
            call_id = None
            if message.max_age_ms > 0:
                end = self._known.get(topic, {}).get(query)
                if end is not None and end.as_of_ms >= oldest_ms:
                    continue
                call_id = self._calls.get(topic, {}).get(query)
            asked = None if call_id is None else under_way(call_id)
            if call_id is not None and asked is not None and asked.asked_ms >= oldest_ms:
                joined[call_id] = None
                continue
            leader = leader_of(topic, part.partition_index)
            if leader is not None and self._silent.get(leader, -1) < now_ms:
                parts.setdefault(leader, {}).setdefault(topic, []).append(part)
        asks = tuple((_question(by_topic, message), leader) for leader, by_topic in parts.items())
        return asks, tuple(joined)

    def asked(self, delayed: DelayedUpstreamRequest) -> None:
        """Note the requests just sent: others for the same partitions may wait for their answers."""
        for call_id, asked in zip(delayed.answers, delayed.requests, strict=True):
            if isinstance(asked.message, ListOffsets):
                for topic, _part, query in _queries(asked.message):
                    if query[1] in _KEPT:
                        self._calls.setdefault(topic, {})[query] = call_id

    # --------------------------------------------------------------------------------------------------------- learning

    def learn(self, asked: PendingRequest, answer: Message | None, now_ms: int) -> bool:
        """Store a leader's answer to a ListOffsets. Return false if the known leaders are outdated: the broker did not
        answer, or is not the leader."""
        if not isinstance(asked.message, ListOffsets):
            return True
        if asked.broker is not None:
            self._silent.pop(asked.broker, None)
        if not isinstance(answer, ListOffsetsReply):
            if asked.broker is not None:
                self._silent[asked.broker] = now_ms + SILENT_FOR_MS
            return False
        is_current = True
        for (topic, query), end in _answers(asked, answer).items():
            if end.error_code:
                is_current = is_current and end.error_code not in _NOT_LEADER
            elif query[1] in _KEPT:
                self._known.setdefault(topic, {})[query] = end
        return is_current

    def silent(self, delayed: DelayedUpstreamRequest, now_ms: int) -> None:
        """Send no requests for a while to brokers that have not answered in time."""
        for asked, answer in zip(delayed.requests, delayed.answers.values(), strict=True):
            if answer is None and asked.broker is not None:
                self._silent[asked.broker] = now_ms + SILENT_FOR_MS

    def forget(self, topic: str) -> None:
        """Forget the topic: it was deleted, or another has its name."""
        self._known.pop(topic, None)
        self._calls.pop(topic, None)

    # ----------------------------------------------------------------------------------------------------- answering

    def reply(
        self,
        message: ListOffsets,
        delayed: DelayedUpstreamRequest | None,
        now_ms: int,
        count_of: Callable[[str], int | None],
    ) -> ListOffsetsReply:
        """Answer from the answers just received, else from the last ones; `count_of` is a topic's number of
        partitions."""
        received: Answers = {}
        for asked, answer in zip(delayed.requests, delayed.answers.values(), strict=True) if delayed else ():
            if isinstance(answer, ListOffsetsReply):
                received |= _answers(asked, answer)
        return ListOffsetsReply(
            tuple(
                ListOffsetsTopicReply(
                    topic.name,
                    tuple(
                        self._answer(topic.name, part, message, received, now_ms, count_of) for part in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )

    def _answer(
        self,
        topic: str,
        part: ListOffsetsPartition,
        message: ListOffsets,
        received: Answers,
        now_ms: int,
        count_of: Callable[[str], int | None],
    ) -> ListOffsetsPartitionReply:
        index = part.partition_index
        query = (index, part.timestamp, message.isolation_level)
        answered = received.get((topic, query))
        end = answered if answered is not None and not answered.error_code else self._known.get(topic, {}).get(query)
        if end is not None:
            age_ms = max(0, now_ms - end.as_of_ms)
            return ListOffsetsPartitionReply(
                index, ErrorCode.NONE, end.timestamp, end.offset, end.leader_epoch, age_ms=age_ms
            )
        count = count_of(topic)
        if count is None or index >= count:
            return ListOffsetsPartitionReply(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if answered is not None and answered.error_code not in _NOT_LEADER:
            return ListOffsetsPartitionReply(index, answered.error_code)
        return ListOffsetsPartitionReply(index, ErrorCode.LEADER_NOT_AVAILABLE)


def _queries(message: ListOffsets) -> Iterator[tuple[str, ListOffsetsPartition, EndQuery]]:
    for topic in message.topics:
        for part in topic.partitions:
            yield topic.name, part, (part.partition_index, part.timestamp, message.isolation_level)


def _question(by_topic: dict[str, list[ListOffsetsPartition]], message: ListOffsets) -> ListOffsets:
    """Return the request to a broker for the partitions it leads."""
    topics = tuple(ListOffsetsTopic(name, tuple(parts)) for name, parts in by_topic.items())
    return ListOffsets(topics, message.isolation_level)


def _answers(asked: PendingRequest, reply: ListOffsetsReply) -> Answers:
    """Return the answers to the requested partitions; a broker may send others."""
    if not isinstance(asked.message, ListOffsets):
        return {}
    wanted = {(topic, part.partition_index): query for topic, part, query in _queries(asked.message)}
    return {
        (topic.name, wanted[topic.name, part.partition_index]): End(
            part.offset, part.timestamp, part.leader_epoch, asked.asked_ms, part.error_code
        )
        for topic in reply.topics
        for part in topic.partitions
        if (topic.name, part.partition_index) in wanted
    }

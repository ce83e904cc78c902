"""Lookups of offsets at the partitions' leaders: a client's ListOffsets, and the node's own samples of log ends."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.upstream_requests import (
    BrokerRequest,
    Continuation,
    DelayedUpstreamRequest,
    UpstreamRequests,
)
from coordinator.tasks import end_sampling
from protocol.messages import Message
from protocol.messages.offsets import ListOffsets, ListOffsetsReply
from protocol.session import RequestRef

_Found = Callable[[ListOffsetsReply, Moment], None]


class SendUpstream(Protocol):
    """Sends requests to the brokers, and continues when they are answered or late."""

    def __call__(
        self,
        requests: tuple[BrokerRequest, ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        continuation: Continuation,
        joined: tuple[int, ...] = (),
    ) -> DelayedUpstreamRequest: ...


class OffsetLookups:
    """Lookups from memory if that is recent enough or no leader can be asked, else at the leaders."""

    def __init__(self, core: Core, topics: UpstreamTopics, requests: UpstreamRequests, ask: SendUpstream) -> None:
        self._core = core
        self._topics = topics
        self._requests = requests
        self._ask = ask

    def list_offsets(self, core: object, ref: RequestRef, message: ListOffsets, moment: Moment) -> None:
        """Answer a ListOffsets."""
        self._find(ref, message, moment, lambda reply, _moment: self._core.outbox.send(ref, reply))

    def sample_ends(self, moment: Moment) -> None:
        """Sample a slice of the log ends, and schedule the next."""
        request = self._core.end_sampling.next_request(self._core.own_shards(), self._topics, moment)
        self._find(None, request, moment, self._on_ends_found)

    def _find(self, ref: RequestRef | None, message: ListOffsets, moment: Moment, then: _Found) -> None:
        topics, now_ms = self._topics, moment.monotonic_ms
        if topics.brokers.is_reachable and not self._requests.is_full:
            requests, joined = topics.ends.to_ask(message, topics.leader_of, self._requests.pending_request, now_ms)
            if requests or joined:
                answered = partial(self._on_answers, message, then)
                topics.ends.asked(self._ask(requests, ref, message, moment, answered, joined))
                return
        then(topics.ends.reply(message, None, now_ms, topics.partition_count), moment)

    def _on_answers(self, message: ListOffsets, then: _Found, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        topics, now_ms = self._topics, moment.monotonic_ms
        topics.ends.silent(delayed, now_ms)
        then(topics.ends.reply(message, delayed, now_ms, topics.partition_count), moment)

    def _on_ends_found(self, reply: ListOffsetsReply, moment: Moment) -> None:
        delay_ms = self._core.end_sampling.answer(reply, moment)
        self._core.schedule(end_sampling.TASK, moment.monotonic_ms + delay_ms)

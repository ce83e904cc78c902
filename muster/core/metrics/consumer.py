"""Measurements of a consumer: its fetches, its commits, its rebalances."""

from typing import Final

from membership.events import MemberEffect
from muster.core.metrics.measurements import Measurements, seconds_since
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchReply
from protocol.messages.groups import Heartbeat, JoinGroup, JoinGroupReply, LeaveGroup, SyncGroup, SyncGroupReply
from protocol.messages.offsets import OffsetCommit

_HOUR_S: Final = 3_600


class ConsumerMetrics:
    """Observes a fetcher and a membership. Names are those of Kafka's consumer, times in milliseconds."""

    kinds: Final = frozenset[type[Message]]({Fetch, Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup})

    def __init__(self) -> None:
        self._fetches = Measurements()
        self._bytes = Measurements()
        self._throttles = Measurements()
        self._commits = Measurements()
        self._heartbeats = Measurements()
        self._joins = Measurements()
        self._syncs = Measurements()
        self._rebalances = Measurements()
        self._failed_rebalances = Measurements()
        self._rebalancing_from_ms: int | None = None
        self._rebalanced_at_ms: int | None = None
        self._heartbeat_at_ms: int | None = None

    # -- as an observer

    def on_request(self, message: Message, now_ms: int) -> None:
        if isinstance(message, Heartbeat):
            self._heartbeat_at_ms = now_ms
        elif isinstance(message, JoinGroup) and self._rebalancing_from_ms is None:
            self._rebalancing_from_ms = now_ms
        elif isinstance(message, LeaveGroup):
            self._rebalancing_from_ms = None

    def on_reply(self, kind: type[Message], reply: Message | None, took_ms: int, now_ms: int) -> None:
        if isinstance(reply, FetchReply):
            self._fetches.record(took_ms, now_ms)
            self._bytes.record(_bytes_of(reply), now_ms)
            self._throttles.record(reply.throttle_time_ms, now_ms)
        elif kind is JoinGroup or kind is SyncGroup:
            self._step_of_rebalance(reply, took_ms, now_ms)
        elif reply is not None and kind is OffsetCommit:
            self._commits.record(took_ms, now_ms)
        elif reply is not None and kind is Heartbeat:
            self._heartbeats.record(took_ms, now_ms)

    def on_effect(self, effect: MemberEffect) -> None:
        """Ignore other effects, since requests are enough."""

    def _step_of_rebalance(self, reply: Message | None, took_ms: int, now_ms: int) -> None:
        code = reply.error_code if isinstance(reply, JoinGroupReply | SyncGroupReply) else None
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            return  # the first reply to every new member's join
        if code != ErrorCode.NONE:
            self._failed_rebalances.record(1, now_ms)
        elif isinstance(reply, JoinGroupReply):
            self._joins.record(took_ms, now_ms)
        else:
            self._syncs.record(took_ms, now_ms)
            began_ms, self._rebalancing_from_ms = self._rebalancing_from_ms, None
            self._rebalances.record(took_ms if began_ms is None else now_ms - began_ms, now_ms)
            self._rebalanced_at_ms = now_ms

    # -- metrics

    def of_fetching(self, now_ms: int) -> dict[str, float]:
        """Return Kafka's consumer-fetch-manager-metrics, except those of positions."""
        return {
            **_times("fetch-latency", self._fetches, now_ms),
            "fetch-rate": self._fetches.rate(now_ms),
            "fetch-total": self._fetches.count,
            **_times("fetch-size", self._bytes, now_ms),
            "bytes-consumed-rate": self._bytes.rate(now_ms, of_values=True),
            "bytes-consumed-total": self._bytes.total,
            **_times("fetch-throttle-time", self._throttles, now_ms),
        }

    def of_membership(self, now_ms: int) -> dict[str, float]:
        """Return Kafka's consumer-coordinator-metrics."""
        return {
            **_times("commit-latency", self._commits, now_ms),
            "commit-rate": self._commits.rate(now_ms),
            "commit-total": self._commits.count,
            "heartbeat-response-time-max": self._heartbeats.largest(now_ms),
            "heartbeat-rate": self._heartbeats.rate(now_ms),
            "heartbeat-total": self._heartbeats.count,
            "last-heartbeat-seconds-ago": seconds_since(self._heartbeat_at_ms, now_ms),
            **_times("join-time", self._joins, now_ms),
            "join-total": self._joins.count,
            **_times("sync-time", self._syncs, now_ms),
            "sync-total": self._syncs.count,
            **_times("rebalance-latency", self._rebalances, now_ms),
            "rebalance-latency-total": self._rebalances.total,
            "rebalance-total": self._rebalances.count,
            "rebalance-rate-per-hour": self._rebalances.rate(now_ms) * _HOUR_S,
            "failed-rebalance-total": self._failed_rebalances.count,
            "failed-rebalance-rate-per-hour": self._failed_rebalances.rate(now_ms) * _HOUR_S,
            "last-rebalance-seconds-ago": seconds_since(self._rebalanced_at_ms, now_ms),
        }


def _times(name: str, of: Measurements, now_ms: int) -> dict[str, float]:
    return {f"{name}-avg": of.mean(now_ms), f"{name}-max": of.largest(now_ms)}


def _bytes_of(reply: FetchReply) -> int:
    return sum(len(answer.records) for topic in reply.responses for answer in topic.partitions)

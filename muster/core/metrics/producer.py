"""Measurements of a producer: its requests, and the outcomes of records."""

from typing import Final

from membership.events import MemberEffect
from muster.core.metrics.measurements import Measurements
from muster.core.producing.effects import Delivered, Undelivered
from protocol.messages import Message
from protocol.messages.data import Produce, ProduceReply


class ProducerMetrics:
    """Observes a producer's core. Names are those of Kafka's producer, times in milliseconds."""

    kinds: Final = frozenset[type[Message]]({Produce})

    def __init__(self) -> None:
        self._requests = Measurements()
        self._batches = Measurements()
        self._throttles = Measurements()
        self._in_flight = self._sent = self._failed = 0

    # -- as an observer

    def on_request(self, message: Message, now_ms: int) -> None:
        self._in_flight += 1
        if isinstance(message, Produce):
            for topic in message.topic_data:
                for one in topic.partition_data:
                    self._batches.record(len(one.records), now_ms)

    def on_reply(self, kind: type[Message], reply: Message | None, took_ms: int, now_ms: int) -> None:
        self._in_flight -= 1
        if isinstance(reply, ProduceReply):
            self._requests.record(took_ms, now_ms)
            self._throttles.record(reply.throttle_time_ms, now_ms)

    def on_effect(self, effect: MemberEffect) -> None:
        if isinstance(effect, Delivered):
            self._sent += len(effect.handles)
        elif isinstance(effect, Undelivered):
            self._failed += len(effect.handles)

    # -- metrics

    def read(self, now_ms: int) -> dict[str, float]:
        return {
            "request-latency-avg": self._requests.mean(now_ms),
            "request-latency-max": self._requests.largest(now_ms),
            "requests-in-flight": self._in_flight,
            "record-send-total": self._sent,
            "record-error-total": self._failed,
            "batch-size-avg": self._batches.mean(now_ms),
            "batch-size-max": self._batches.largest(now_ms),
            "byte-rate": self._batches.rate(now_ms, of_values=True),
            "byte-total": self._batches.total,
            "produce-throttle-time-avg": self._throttles.mean(now_ms),
            "produce-throttle-time-max": self._throttles.largest(now_ms),
        }

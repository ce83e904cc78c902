"""Metrics of clients for prometheus-client, which is imported only when `collector` is called.

    from prometheus_client import REGISTRY, start_http_server
    from muster.metrics import collector

    REGISTRY.register(collector(consumer, producer))
    start_http_server(9100)

`metrics()` of each client has the same figures without it. Collecting reads them, and measures nothing more.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from membership.topic_partition import TopicPartition

if TYPE_CHECKING:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

    Families = dict[str, CounterMetricFamily | GaugeMetricFamily]

__all__ = ["MeasuredClient", "MetricsCollector", "collector"]

_LABELS = ("client_id", "topic", "partition")


class MeasuredClient(Protocol):
    """A `Consumer` or a `Producer`, of `muster` or of `muster.aio`."""

    @property
    def client_id(self) -> str: ...

    def metrics(self) -> Mapping[str, float]: ...


class _MeasuredConsumer(Protocol):
    @property
    def client_id(self) -> str: ...

    @property
    def assignment(self) -> tuple[TopicPartition, ...]: ...

    def metrics(self, partition: TopicPartition | None = None) -> Mapping[str, float]: ...


def collector(*clients: MeasuredClient) -> "MetricsCollector":
    """Return a collector of the metrics of these clients, to be registered once with a `CollectorRegistry`. The name of
    a metric is Kafka's behind "muster_consumer_" or "muster_producer_", its label the `client_id`; "records_lag" and
    "records_lead" have the topic and the partition too. Raises ValueError for two clients of one kind and one
    `client_id`, ImportError without prometheus-client.
    """
    return MetricsCollector(clients)


class MetricsCollector:
    """Collects metrics: of clients with threads from any thread, of clients of `muster.aio` only from the loop's
    thread.
    """

    def __init__(self, clients: tuple[MeasuredClient, ...]) -> None:
        from prometheus_client import metrics_core

        self._core = metrics_core
        self._clients: dict[str, dict[str, MeasuredClient]] = {"consumer": {}, "producer": {}}
        for client in clients:
            kind = "consumer" if hasattr(client, "assignment") else "producer"
            if client.client_id in self._clients[kind]:
                raise ValueError(f"two {kind}s have the client_id {client.client_id!r}: give each its own")
            self._clients[kind][client.client_id] = client

    def collect(self) -> "Iterator[Metric]":
        """Return the clients' present metrics, as metric families."""
        for kind, clients in self._clients.items():
            families: Families = {}
            for client_id, client in clients.items():
                self._add(families, kind, (client_id,), client.metrics())
                if kind == "consumer":
                    self._add_partitions(families, client_id, client)  # type: ignore[arg-type]
            yield from families.values()

    def _add_partitions(self, families: "Families", client_id: str, consumer: _MeasuredConsumer) -> None:
        for one in consumer.assignment:
            with suppress(ValueError):  # the partition was revoked
                values = consumer.metrics(one)
                self._add(families, "consumer", (client_id, one.topic, str(one.partition)), values)

    def _add(self, families: "Families", kind: str, labels: tuple[str, ...], values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name not in families:
                families[name] = self._family(kind, name, _LABELS[: len(labels)])
            families[name].add_metric(labels, value)

    def _family(self, kind: str, name: str, labels: tuple[str, ...]) -> "CounterMetricFamily | GaugeMetricFamily":
        full = f"muster_{kind}_{name.replace('-', '_')}"
        said = f"Kafka's {kind} metric {name}"
        if name.endswith("-total"):
            return self._core.CounterMetricFamily(full, said, labels=labels)
        return self._core.GaugeMetricFamily(full, said, labels=labels)

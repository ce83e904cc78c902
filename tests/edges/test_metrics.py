"""Metrics of clients with threads, collected by another thread while they work."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from muster import Consumer, Producer
from muster.metrics import collector
from tests.edges.musterd import Daemon, running
from tests.edges.test_aio import create


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    data: Path = tmp_path_factory.mktemp("metrics") / "data"
    with running(data, "group.initial.rebalance.delay.ms=0") as daemon:
        yield daemon


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """Sums over clients and partitions, by the name of the sample."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def test_a_thread_scrapes_while_others_send_and_read(daemon: Daemon) -> None:
    create(daemon, "t", 4)
    registry, is_over, counts = CollectorRegistry(), threading.Event(), list[float]()
    failures: list[BaseException] = []

    def scrape() -> None:
        try:
            while not is_over.is_set():
                counts.append(scraped(registry)["muster_consumer_records_consumed_total"])
        except BaseException as error:  # noqa: BLE001  (the test's)
            failures.append(error)

    with (
        Producer(daemon.bootstrap) as producer,
        Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as reader,
    ):
        registry.register(collector(reader, producer))
        scraping = threading.Thread(target=scrape)
        scraping.start()
        try:
            reader.subscribe(["t"])
            for number in range(5_000):
                producer.send("t", b"%d" % number)
            producer.flush()
            seen = 0
            while seen < 5_000:
                seen += len(reader.poll(1.0))
        finally:
            is_over.set()
            scraping.join()
        read = scraped(registry)
    assert failures == []
    assert counts == sorted(counts) and len(counts) > 1, "a counter never goes back"
    assert read["muster_consumer_records_consumed_total"] == read["muster_producer_record_send_total"] == 5_000
    assert read["muster_consumer_records_lag"] == read["muster_producer_requests_in_flight"] == 0
    assert read["muster_consumer_bytes_consumed_total"] >= read["muster_producer_byte_total"] > 10_000

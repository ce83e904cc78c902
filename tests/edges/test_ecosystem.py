"""Other people's tools at a daemon (docs/ecosystem.md): kcat, and kafka_exporter's dashboard in Prometheus."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within
from tests.edges.prometheus import PROMETHEUS, scraping

KCAT = shutil.which("kcat")
RECORDS = 20
CONSUMED = "kafka_consumergroup_current_offset{instance=~'$instance',topic=~\"$topic\"}"
PANELS = (
    'sum(rate(kafka_topic_partition_current_offset{instance="$instance", topic=~"$topic"}[1m])) by (topic)',
    'sum(kafka_consumergroup_lag{instance="$instance",topic=~"$topic"}) by (consumergroup, topic) ',
    "sum(delta(kafka_topic_partition_current_offset{instance=~'$instance', topic=~\"$topic\"}[5m])/5) by (topic)",
    f"sum(delta({CONSUMED}[5m])/5) by (consumergroup, topic)",
    'sum by(topic) (kafka_topic_partitions{instance="$instance",topic=~"$topic"})',
)
"""Panels of `kafka_exporter_overview.json` at commit 953e2f17 of danielqsj/kafka_exporter."""
VARIABLES = (
    'kafka_consumergroup_current_offset{job=~"musterd"}',
    "kafka_topic_partition_current_offset{instance='$instance',topic!='__consumer_offsets',topic!='--kafka'}",
)
"""Series from which its variables are chosen."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("ecosystem") / "data"
    settings = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3")
    with running(folder, *settings, with_http=True, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture
def topic(daemon: Daemon, name: str) -> str:
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic(name, 2),)))
    return name


def kcat(daemon: Daemon, *arguments: str, typed: str = "", code: int = 0) -> tuple[str, str]:
    assert KCAT is not None
    command = [KCAT, "-b", f"127.0.0.1:{daemon.kafka_port}", *arguments]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


needs_kcat = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


@needs_kcat
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_writes_and_reads(daemon: Daemon, topic: str, compression: str) -> None:
    written = [f"key-{number}:value {number}" for number in range(RECORDS)]
    sending = ("-P", "-t", topic, "-p", "1", "-K:", "-z", compression, "-H", "source=shell")
    kcat(daemon, *sending, "-X", "enable.idempotence=true", typed="\n".join(written) + "\n")

    out, _ = kcat(daemon, "-C", "-t", topic, "-o", "-3", "-e", "-q", "-f", "%t[%p]@%o %h %k:%s\n")

    assert out.splitlines() == [
        f"{topic}[1]@{number} source=shell {written[number]}" for number in range(RECORDS - 3, RECORDS)
    ]


@needs_kcat
def test_kcat_lists_topics_and_finds_offsets_by_time(daemon: Daemon, topic: str) -> None:
    kcat(daemon, "-P", "-t", topic, "-p", "0", typed="one\ntwo\n")

    listed = json.loads(kcat(daemon, "-L", "-J", "-t", topic)[0])
    ends = [kcat(daemon, "-Q", "-t", f"{topic}:0:{time}")[0].strip() for time in ("-1", "0", "-2")]

    assert [one["leader"] for one in listed["topics"][0]["partitions"]] == [1, 1]
    assert ends == [f"{topic} [0] offset {offset}" for offset in (2, 0, 0)]


@needs_kcat
def test_kcat_is_a_member_and_its_place_is_kept(daemon: Daemon, topic: str) -> None:
    reading = ("-G", topic, "-X", "auto.offset.reset=earliest", "-c", "2", "-q", topic)
    kcat(daemon, "-P", "-t", topic, "-p", "0", typed="one\ntwo\nthree\n")

    first, _ = kcat(daemon, *reading)
    second, _ = kcat(daemon, *reading[:4], "-c", "1", "-q", topic)

    assert (first.split(), second.split()) == (["one", "two"], ["three"])


@needs_kcat
def test_kcat_is_told_that_there_are_no_transactions(daemon: Daemon, topic: str) -> None:
    _, said = kcat(daemon, "-P", "-t", topic, "-X", "transactional.id=t", typed="one\n", code=1)

    assert "transactions are not served here: produce without a transactional id" in said


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
def test_kafka_exporters_dashboard_needs_no_exporter(daemon: Daemon, topic: str, tmp_path: Path) -> None:
    with (
        scraping(daemon, tmp_path) as prometheus,
        Consumer(daemon.bootstrap, topic, auto_offset_reset="earliest") as consumer,
    ):
        with Producer(daemon.bootstrap) as producer:
            producer.send(topic, "record").result()
        consumer.subscribe([topic])
        assert within(20, lambda: consumer.poll(0.1))
        consumer.commit()
        instance = f"127.0.0.1:{daemon.http_port}"
        for expression in (*PANELS, *VARIABLES):
            wanted = expression.replace("$instance", instance).replace("$topic", topic)
            assert within(20, lambda wanted=wanted: prometheus.query(wanted)), expression
        (partitions,) = prometheus.query(PANELS[-1].replace("$instance", instance).replace("$topic", topic))
        assert partitions["value"][1] == "2"

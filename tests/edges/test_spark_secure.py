"""A Spark query over TLS that shows a certificate: its executors do so too, and no plan has a password in it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from pyspark.sql import SparkSession

from muster import Producer
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, running
from tests.edges.streaming import started

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(400)]

PASSWORD = "rabbit-hole"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "certificates")
    key = form.load_pem_private_key(folder.client.read_bytes(), None)
    locked = form.BestAvailableEncryption(PASSWORD.encode())
    chain = folder.client.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    folder.client.write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, locked) + chain[1] + chain[2]
    )
    return folder


@pytest.fixture
def daemon(folder: Folder, tmp_path: Path) -> Iterator[Daemon]:
    settings = (*folder.listening(clients_show=True), "group.initial.rebalance.delay.ms=0")
    with running(tmp_path / "data", *settings) as daemon:
        yield daemon


def test_a_query_reads_over_tls_and_no_plan_has_the_password(
    spark: SparkSession, daemon: Daemon, folder: Folder, tmp_path: Path
) -> None:
    security = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder.ca),
        "ssl.certificate.location": str(folder.client),
        "ssl.key.password": PASSWORD,
    }
    with ClusterClient(daemon.bootstrap, security=security) as connection:
        connection.ask(CreateTopics((CreatableTopic("flights", 2),)))
    with Producer(daemon.bootstrap, security=security) as producer:
        for number in range(100):
            producer.send("flights", str(number))
    stream = spark.readStream.format("muster").options(
        bootstrap=daemon.bootstrap,
        group="delays",
        topics="flights",
        **{f"muster.{name}": value for name, value in security.items()},
    )
    frame = stream.load()
    writer = frame.writeStream.format("memory").queryName("secured")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = started(writer.start)
    assert query.awaitTermination(90)
    assert query.exception() is None
    assert {int(row.value) for row in spark.table("secured").collect()} == set(range(100))
    shown = [
        frame._jdf.queryExecution().toString(),
        query._jsq.explainInternal(True),
        json.dumps([progress.json for progress in query.recentProgress]),
        "".join(path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()),
    ]
    assert "muster" in shown[0]
    assert [text for text in shown if PASSWORD in text] == []

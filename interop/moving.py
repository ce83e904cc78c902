"""A group that has members and offsets at Apache Kafka comes to the musterd beside it, and goes back (`beside`)."""

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from interop.kafka_cluster import Cluster
from interop.server import Musterd

TOPIC, GROUP = "moved", "movers"
_RECORDS, _READ_THERE, _READ_HERE = 100, 40, 70
_PATIENCE_S, _REFUSED_S = 60.0, 5.0


def moved(cluster: Cluster, front: Musterd) -> list[str]:
    """Return the failures. The cluster's own coordinator knows the group afterwards, as it did before."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(_RECORDS):
        producer.produce(TOPIC, b"%d" % number)
    producer.flush(30)
    failed = []

    there = _consumer(cluster.bootstrap, "the-old-one")
    failed += _expect("read at the cluster", _read(there, _READ_THERE, _PATIENCE_S), range(_READ_THERE))
    there.commit(offsets=[TopicPartition(TOPIC, 0, _READ_THERE)], asynchronous=False)
    here = _consumer(front.bootstrap, "the-new-one")
    failed += _expect("read here while a member is there", _read(here, 1, _REFUSED_S), range(0))
    told = _muster(front, "explain", GROUP)
    if "the-old-one" not in told:
        failed.append(f"the journal does not name who is still there: {told[-400:]}")
    there.close()
    rest = _read(here, _READ_HERE - _READ_THERE, _PATIENCE_S)
    failed += _expect("read here", rest, range(_READ_THERE, _READ_HERE))
    here.commit(offsets=[TopicPartition(TOPIC, 0, _READ_HERE)], asynchronous=False)
    here.close()

    told = _muster(front, "groups", "hand-back", GROUP, "--to", cluster.bootstrap, "--yes")
    if "read it back" not in told:
        failed.append(f"it is not handed back: {told[-400:]}")
    there = _consumer(cluster.bootstrap, "the-old-one")
    left = _read(there, _RECORDS - _READ_HERE, _PATIENCE_S)
    failed += _expect("read at the cluster again", left, range(_READ_HERE, _RECORDS))
    there.close()
    print(f"a group came from the cluster and went back: {'; '.join(failed) or 'nothing skipped, nothing again'}")
    return failed


def _consumer(bootstrap: str, name: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    return consumer


def _read(consumer: Consumer, count: int, patience_s: float) -> list[int]:
    """The next so many, as long as they come in time."""
    got: list[int] = []
    deadline = time.monotonic() + patience_s
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.append(int(message.value() or b"-1"))
    return got


def _expect(what: str, got: list[int], wanted: range) -> list[str]:
    return [] if got == list(wanted) else [f"{what}: {got} instead of {wanted}"]


def _muster(front: Musterd, *words: str) -> str:
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", front.native, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    return done.stdout + done.stderr

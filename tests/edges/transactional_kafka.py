"""One broker of Apache Kafka and a node whose log is in it, for tests of transactions through both."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench import builds
from interop.kafka_cluster import kafka_cluster
from muster import Consumer, TopicPartition
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import free_port, running, within

_SHARDS = 4
PARTITIONS = 2


@contextmanager
def kafka_and_node(folder: Path) -> Iterator[dict[str, str]]:
    """Bootstraps of both, by the names `kafka` and `muster`. The test is skipped where Kafka is not here."""
    with ExitStack() as stack:
        try:
            builds.kafka_jars(may_fetch=False)
            cluster = stack.enter_context(kafka_cluster(folder / "kafka", 1))
        except builds.NotHere as missing:
            pytest.skip(str(missing))
        plan = (
            "node.id=1",
            "offsets.log=cluster",
            f"offsets.topic.num.partitions={_SHARDS}",
            f"upstream.servers={cluster.bootstrap}",
            f"upstream.listener.ports={free_port()}",
            "group.initial.rebalance.delay.ms=0",
        )
        node = stack.enter_context(running(folder / "node", *plan, with_http=True, with_kafka=True))
        yield {"kafka": f"kafka://{cluster.bootstrap}", "muster": f"kafka://127.0.0.1:{node.kafka_port}"}


def make_topics(bootstrap: str, *names: str) -> None:
    with ClusterClient(bootstrap) as cluster:
        reply = cluster.ask(CreateTopics(tuple(CreatableTopic(name, PARTITIONS, 1) for name in names)))
        assert isinstance(reply, CreateTopicsReply)
        assert {one.error_code for one in reply.topics} <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}


def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Return what a consumer that reads what is committed alone sees, once that is so much."""
    found: list[bytes] = []
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])

        def is_enough() -> bool:
            found.extend(record.value or b"" for record in consumer.poll(0.2))
            return len(found) >= count

        assert within(30, is_enough, every_s=0), found
        found.extend(record.value or b"" for record in consumer.poll(1.0))
    return sorted(found)

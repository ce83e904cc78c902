"""`__consumer_offsets` read by a stock client, as tools that follow commits do."""

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator.placement import Placement
from coordinator.records.codec import decode
from coordinator.records.records import CommittedOffset
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import KAFKA_PYTHON

OWN = "__consumer_offsets"


def consumer(factory: ClientFactory, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": factory.server.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )


def test_a_client_reads_the_commit_it_made(factory: ClientFactory, name: str) -> None:
    factory.create_topic(KAFKA_PYTHON, name, 2)
    committer = consumer(factory, name)
    committer.commit(offsets=[TopicPartition(name, 1, 4711, "so far")], asynchronous=False)
    committer.close()
    partition = Placement(1, 50, {}).shard_of(name)
    reader = consumer(factory, f"{name}-reader")
    low, high = reader.get_watermark_offsets(TopicPartition(OWN, partition), timeout=10)
    assert 0 <= low < high
    reader.assign([TopicPartition(OWN, partition, low)])
    found: list[CommittedOffset] = []
    while not found or found[-1].group_id != name:
        message = reader.poll(10)
        assert message is not None and message.error() is None, message and message.error()
        assert message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
        record = decode(message.key(), message.value())
        if isinstance(record, CommittedOffset):
            found.append(record)
    reader.close()
    last = found[-1]  # confluent-kafka sends the NUL at the end of its text too
    assert (last.topic, last.partition, last.offset, last.metadata.rstrip("\0")) == (name, 1, 4711, "so far")


def test_a_client_is_told_that_it_is_internal_and_may_not_write_to_it(factory: ClientFactory, name: str) -> None:
    metadata = AdminClient({"bootstrap.servers": factory.server.bootstrap}).list_topics(OWN, timeout=10)
    assert len(metadata.topics[OWN].partitions) == 50
    refusals = []
    producer = Producer({"bootstrap.servers": factory.server.bootstrap})
    producer.produce(
        OWN, b"nonsense", partition=0, on_delivery=lambda error, _message: refusals.append(error and error.name())
    )
    producer.flush(20)
    assert refusals == ["TOPIC_EXCEPTION"]
    admin = AdminClient({"bootstrap.servers": factory.server.bootstrap})
    deleted = admin.delete_topics([OWN])
    try:
        deleted[OWN].result(20)
        told = "nothing"
    except KafkaException as refused:
        told = refused.args[0].name()
    assert told == "TOPIC_EXCEPTION"

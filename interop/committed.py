"""Committed records of a topic, as readers with `read_committed` see them."""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

_AT_END = -191
"""librdkafka's code for a partition without further records."""
_PATIENCE_S = 20


class Committed(NamedTuple):
    partition: int
    offset: int
    value: str


def reading(bootstrap: str) -> dict[str, str | bool | int]:
    """Return the settings of a consumer that joins no group."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "the judge",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "log_level": 0,
    }


def committed_records(bootstrap: str, topic: str, partitions: int) -> list[Committed]:
    """Return the committed records of a topic now, each partition's in order."""
    reader = Consumer(reading(bootstrap))
    found: list[Committed] = []
    try:
        reader.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        open_partitions = set(range(partitions))
        while open_partitions:
            record = reader.poll(_PATIENCE_S)
            if record is None:
                raise TimeoutError(f"{topic} cannot be read")
            error, partition, offset, value = record.error(), record.partition(), record.offset(), record.value()
            if error is None:
                assert partition is not None and offset is not None and value is not None
                found.append(Committed(partition, offset, value.decode()))
            elif error.code() == _AT_END:
                open_partitions.discard(partition)
            else:
                raise KafkaException(error)
    finally:
        reader.close()
    return found

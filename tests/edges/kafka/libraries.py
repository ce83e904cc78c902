"""The client libraries that Python programs use."""

from tests.edges.kafka.client import Library
from tests.edges.kafka.with_aiokafka import AIOKAFKA
from tests.edges.kafka.with_confluent import CONFLUENT
from tests.edges.kafka.with_kafka_python import KAFKA_PYTHON

__all__ = ["AIOKAFKA", "CONFLUENT", "KAFKA_PYTHON", "LIBRARIES", "library_named"]

LIBRARIES: tuple[Library, ...] = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON)


def library_named(name: str) -> Library:
    (found,) = (library for library in LIBRARIES if library.name == name)
    return found

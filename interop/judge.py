"""Requests of the harness itself, through confluent-kafka: to prepare a story, and to check its results."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.processes import Failed

_TIMEOUT_S = 15.0


class Judge:
    """A client we know, on the server under test. Every call raises Failed when the server does not answer it."""

    def __init__(self, bootstrap: str, security: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._server = {"bootstrap.servers": bootstrap, **(security or {})}
        self._admin = AdminClient({**self._server, "log_level": 0})  # a server that is killed is no news

    def create(self, topic: str, partitions: int) -> None:
        """Returns once the topic is there and every partition has its leader."""
        try:
            self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_TIMEOUT_S)
        except KafkaException as error:
            raise Failed(f"the harness could not set the scene: {error}") from error
        ends = time.monotonic() + _TIMEOUT_S
        while not self._is_led(topic, partitions):
            if time.monotonic() > ends:
                raise Failed(f"{topic} was created, but not all of its {partitions} partitions are served")
            time.sleep(0.1)

    def produce(self, topic: str, records: Sequence[tuple[int, str]]) -> None:
        """Writes (partition, value) pairs; returns once all are acknowledged."""
        self.send(self.producer(), topic, records)

    def producer(self) -> Producer:
        """Return a producer that can be used again."""
        return Producer({**self._server, "acks": "all"})

    @staticmethod
    def send(producer: Producer, topic: str, records: Sequence[tuple[int, str]]) -> None:
        """Write (partition, value) pairs, and return once all are acknowledged."""
        errors: list[object] = []
        for partition, value in records:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: errors.append(error) if error is not None else None,
            )
        left = producer.flush(_TIMEOUT_S)
        if left or errors:
            raise Failed(f"the harness could not produce: {left} records left, errors {errors[:3]}")

    def everything(self, topic: str, partitions: int) -> list[tuple[int, str]]:
        """All (partition, value) of a topic, from its beginning to its end now."""
        found: list[tuple[int, str]] = []
        consumer = self._consumer("muster-interop-judge")
        try:
            ends = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)[1]
                for partition in range(partitions)
            }
            consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
            while len(found) < sum(ends.values()):
                message = consumer.poll(_TIMEOUT_S)
                if message is None or message.error() is not None:
                    raise Failed(f"read {len(found)} of {sum(ends.values())} records: {message and message.error()}")
                partition, value = message.partition(), message.value()
                assert partition is not None and value is not None
                found.append((partition, value.decode()))
        except KafkaException as error:
            raise Failed(f"the harness could not read: {error}") from error
        finally:
            consumer.close()
        return found

    @staticmethod
    def producers(written: Sequence[tuple[int, str]], partitions: int) -> list[int]:
        """Return the number of records in each partition."""
        return [sum(1 for at, _ in written if at == partition) for partition in range(partitions)]

    def committed_total(self, group: str, topic: str, partitions: int) -> int:
        """The sum of a group's committed offsets; a partition without one counts as 0."""
        consumer = self._consumer(group)
        try:
            asked = [TopicPartition(topic, partition) for partition in range(partitions)]
            return sum(max(found.offset, 0) for found in consumer.committed(asked, timeout=_TIMEOUT_S))
        except KafkaException as error:
            raise Failed(f"the harness could not read the commits: {error}") from error
        finally:
            consumer.close()

    def until_type(self, group: str, wanted: str, timeout_s: float) -> None:
        """Returns once the group is listed with this type, `classic` or `consumer`. Raises Failed."""
        ends = time.monotonic() + timeout_s
        while (found := self._type(group)) != wanted:
            if time.monotonic() > ends:
                raise Failed(f"the group's type is {found or 'told to nobody'}, and not {wanted}")
            time.sleep(0.2)

    def _type(self, group: str) -> str:
        try:
            listed = self._admin.list_consumer_groups().result(_TIMEOUT_S)
        except KafkaException as error:
            raise Failed(f"the harness could not list groups: {error}") from error
        return next((one.type.name.lower() for one in listed.valid if one.group_id == group), "")

    def commit(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        """One after the other, for partition 0."""
        consumer = self._consumer(group)
        try:
            for offset in offsets:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            raise Failed(f"the harness could not commit: {error}") from error
        finally:
            consumer.close()

    def _is_led(self, topic: str, partitions: int) -> bool:
        consumer = self._consumer("muster-interop-judge")
        try:
            for partition in range(partitions):
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)
        except KafkaException:
            return False
        finally:
            consumer.close()
        return True

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                **self._server,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

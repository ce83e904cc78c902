"""Consume, transform, produce in transactions of confluent-kafka: the verb `transform` of its program."""

import argparse
import faulthandler
import sys
import threading
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from interop.program import tell, told_to_stop

_ASK_S, _MOST = 15.0, 50
_HUNG_S = 30.0
"""Time after which the process ends itself, for whoever runs it to start it anew: when the group's coordinator goes,
librdkafka may wait for ever in send_offsets_to_transaction, whatever its timeout (its issues 5456 and 5511)."""


def transform(arguments: Sequence[str]) -> int:
    """Write each record of one topic to another until told to stop. What cannot go on begins anew."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "topic", "to", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(arguments)
    stopped = told_to_stop()
    while not stopped.is_set():
        copying = _Copying(options)
        try:
            copying.run(stopped)
        except KafkaException as error:
            print(f"begins anew, since {error}", file=sys.stderr)
            tell({"event": "anew", "records": 0})
        finally:
            faulthandler.cancel_dump_traceback_later()
            copying.close()
    return 0


class _Copying:
    """A producer and a consumer, until one of them cannot go on."""

    def __init__(self, options: argparse.Namespace) -> None:
        server = {"bootstrap.servers": options.bootstrap, "log_level": 0}
        self._to = options.to
        self._topic = options.topic
        self._producer = Producer(
            {**server, "transactional.id": options.transactional_id, "transaction.timeout.ms": 30_000, "linger.ms": 5}
        )
        self._consumer = Consumer(
            {
                **server,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 1_000,
            }
        )

    def run(self, stopped: threading.Event) -> None:
        self._repeated(lambda: self._producer.init_transactions(_ASK_S))
        self._consumer.subscribe([self._topic])
        while not stopped.is_set():
            records = [one for one in self._consumer.consume(_MOST, 0.2) if one.error() is None]
            if records:
                faulthandler.dump_traceback_later(_HUNG_S, exit=True)
                self._copy(records)
                faulthandler.cancel_dump_traceback_later()

    def _copy(self, records: Sequence[Message]) -> None:
        next_offsets: dict[int, int] = {}
        try:
            self._producer.begin_transaction()
            for record in records:
                partition, offset = record.partition(), record.offset()
                assert partition is not None and offset is not None
                self._producer.produce(self._to, record.value(), partition=partition)
                next_offsets[partition] = offset + 1
            offsets = [TopicPartition(self._topic, partition, at) for partition, at in next_offsets.items()]
            group = self._consumer.consumer_group_metadata()
            self._repeated(lambda: self._producer.send_offsets_to_transaction(offsets, group, _ASK_S))
            self._repeated(lambda: self._producer.commit_transaction(_ASK_S))
        except KafkaException as error:
            told = error.args[0]
            if not isinstance(told, KafkaError) or not told.txn_requires_abort():
                raise
            print(f"aborts, since {error}", file=sys.stderr)
            self._repeated(lambda: self._producer.abort_transaction(_ASK_S))
            tell({"event": "aborted", "records": len(records)})
            self._go_back()
        else:
            tell({"event": "committed", "records": len(records)})

    def _go_back(self) -> None:
        for found in self._consumer.committed(self._consumer.assignment(), timeout=_ASK_S):
            self._consumer.seek(TopicPartition(found.topic, found.partition, max(found.offset, 0)))

    @staticmethod
    def _repeated(ask: Callable[[], None]) -> None:
        """Ask until it is known, as librdkafka wants it: what may be asked again is."""
        while True:
            try:
                return ask()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def close(self) -> None:
        self._consumer.close()

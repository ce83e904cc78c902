"""A producer that may lose no record, at a steady rate, for as long as a story lasts."""

import threading
import time

from confluent_kafka import Message, Producer

_FLUSH_S = 120.0


class Load:
    """Produces until it is told to stop; keys spread the records over the partitions."""

    def __init__(self, bootstrap: str, topic: str, per_second: int, *, value: bytes | None = None) -> None:
        """Each record has this value; without one, its number."""
        self.acknowledged: dict[tuple[int, int], float] = {}
        """Places of records, with the time of the acknowledgement."""
        self.refused: list[str] = []
        self._topic = topic
        self._value = value
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._every_s = 1 / per_second
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        number, begun = 0, time.monotonic()
        while not self._ends.is_set():
            key = b"%d" % number
            self._producer.produce(self._topic, self._value or key, key=key, on_delivery=self._delivered)
            number += 1
            self._producer.poll(max(0.0, begun + number * self._every_s - time.monotonic()))

    def _delivered(self, error: object, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self.refused.append(str(error))
        else:
            self.acknowledged[partition, offset] = time.monotonic()

    def stop(self) -> None:
        """Stop, and wait until every record is answered."""
        self._ends.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_S)
        if left:
            self.refused.append(f"{left} records were never answered")

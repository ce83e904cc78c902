"""kafka-python as the harness drives it."""

import argparse
import logging
import sys
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider

from interop.program import OAUTHBEARER, fetch_token, member_options, python_settings, security, tell, told_to_stop

_ASSIGNORS = {"range": RangePartitionAssignor}


def main() -> int:
    logging.basicConfig(level=logging.WARNING)
    _Member(member_options(_ASSIGNORS)).run()
    return 0


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """A new token for each login."""

    def __init__(self, given: dict[str, str]) -> None:
        super().__init__()
        self._given = given

    def token(self) -> str:
        return fetch_token(self._given)


def _security(path: str | None) -> dict[str, Any]:
    given = security(path)
    settings: dict[str, Any] = {**python_settings(given)}
    if "ssl.ca.location" in given:
        settings["ssl_cafile"] = given["ssl.ca.location"]
    if given.get("sasl.mechanism") == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _Provider(given)
    return settings


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer: tells what it owns and reads, until it is told to stop or has its limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._stopped = told_to_stop()

    def run(self) -> None:
        options = self._options
        consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[_ASSIGNORS[options.assignor]],
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=1_000,
            **_security(options.security),
        )
        consumer.subscribe([options.topic], listener=self)
        try:
            self._read(consumer, options.limit)
        finally:
            consumer.close()

    def _read(self, consumer: KafkaConsumer, limit: int | None) -> None:
        seen = 0
        positions: dict[TopicPartition, OffsetAndMetadata] = {}
        while not self._stopped.is_set() and seen != limit:
            left = None if limit is None else limit - seen
            for partition, records in consumer.poll(timeout_ms=100, max_records=left).items():
                for record in records:
                    seen += 1
                    positions[partition] = OffsetAndMetadata(record.offset + 1, "", -1)
                    place = {"partition": partition.partition, "offset": record.offset}
                    tell({"event": "record", **place, "value": record.value.decode()})
        if seen == limit:
            consumer.commit(positions)
            tell({"event": "committed"})

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        tell({"event": "assigned", "partitions": sorted(one.partition for one in assigned)})

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            tell({"event": "assigned", "partitions": []})


if __name__ == "__main__":
    sys.exit(main())

"""aiokafka as the harness drives it."""

import argparse
import asyncio
import ssl
import sys
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from interop.program import OAUTHBEARER, fetch_token, member_options, python_settings, security, tell, told_to_stop

_ASSIGNORS = {"range": RangePartitionAssignor}


def main() -> int:
    asyncio.run(_Member(member_options(_ASSIGNORS)).run())
    return 0


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """A new token for each login."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    async def token(self) -> str:
        return await asyncio.to_thread(fetch_token, self._given)


def _security(path: str | None) -> dict[str, Any]:
    given = security(path)
    settings: dict[str, Any] = {**python_settings(given)}
    if "ssl.ca.location" in given:
        settings["ssl_context"] = ssl.create_default_context(cafile=given["ssl.ca.location"])
    if given.get("sasl.mechanism") == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _Provider(given)
    return settings


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer: tells what it owns and reads, until it is told to stop or has its limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._stopped = told_to_stop()

    async def run(self) -> None:
        options = self._options
        consumer = AIOKafkaConsumer(
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
            await consumer.start()
            await self._read(consumer, options.limit)
        finally:
            with suppress(asyncio.CancelledError):  # of its own fetcher, if that waits after a lost connection
                await consumer.stop()

    async def _read(self, consumer: AIOKafkaConsumer, limit: int | None) -> None:
        seen = 0
        positions: dict[TopicPartition, int] = {}
        while not self._stopped.is_set() and seen != limit:
            left = None if limit is None else limit - seen
            for partition, records in (await consumer.getmany(timeout_ms=100, max_records=left)).items():
                for record in records:
                    seen += 1
                    positions[partition] = record.offset + 1
                    value = record.value.decode()
                    place = {"partition": partition.partition, "offset": record.offset}
                    tell({"event": "record", **place, "value": value})
        if seen == limit:
            await consumer.commit(positions)
            tell({"event": "committed"})

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        tell({"event": "assigned", "partitions": sorted(one.partition for one in assigned)})

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            tell({"event": "assigned", "partitions": []})


if __name__ == "__main__":
    sys.exit(main())

"""Requests of shards at a cluster's brokers: what goes together, what waits for nobody, and what an error is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from coordinator.cluster_log.effects import AskProducerId, ReadLog, WriteBatch
from coordinator.cluster_log.entries import claim_batch
from coordinator.cluster_log.events import BatchAnswered, LogRead, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.gateway.io.broker_client import BrokerClient
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.log_requests import LogRequests
from coordinator.gateway.io.cluster.member import boot_ms
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, Produce
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from tests.edges.fake_kafka import FakeKafka, fake_kafka, until

_PATIENCE_S = 60


def link_to(kafka: FakeKafka) -> ClusterLink:
    return ClusterLink(kafka.bootstrap, lambda address: BrokerClient.open(*address, 5), lambda _reply: "")


class Shards:
    """In the place of a node: shards ask, and what they are told is kept."""

    def __init__(self, link: ClusterLink) -> None:
        self.heard: dict[int, list[ShardEvent]] = {}
        self._came = asyncio.Event()
        self.numbers = 0
        self.requests = LogRequests(link, OFFSETS_LOG_TOPIC, self._hear)

    def _hear(self, shard: int, event: ShardEvent) -> None:
        self.heard.setdefault(shard, []).append(event)
        self._came.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while not holds():
                self._came.clear()
                await self._came.wait()

    def write(self, shard: int, producer_id: int = 7, *, sequence: int = 0, alone: bool = False) -> None:
        self.numbers += 1
        batch = claim_batch((producer_id, 0, sequence), 0)
        self.requests.send(WriteBatch(shard, self.numbers, batch, alone))

    def read(self, shard: int, offset: int = 0) -> None:
        self.numbers += 1
        self.requests.send(ReadLog(shard, self.numbers, offset))

    async def told(self, *shards: int, times: int = 1) -> list[ShardEvent]:
        """The last thing that each of them was told, after so many."""
        await self.until(lambda: all(len(self.heard.get(shard, ())) >= times for shard in shards))
        return [self.heard[shard][-1] for shard in shards]

    async def know_leaders(self, shard: int = 0) -> None:
        """Ask until the leaders are known."""
        while True:
            self.read(shard)
            (told,) = await self.told(shard, times=len(self.heard.get(shard, ())) + 1)
            assert isinstance(told, LogRead)
            if told.error is ErrorCode.NONE:
                self.heard.clear()
                return
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def shards(brokers: int = 1) -> AsyncIterator[tuple[FakeKafka, Shards]]:
    async with fake_kafka(brokers) as kafka:
        kafka.make_topic(OFFSETS_LOG_TOPIC, 6)
        link = link_to(kafka)
        made = Shards(link)
        await made.know_leaders()
        made.write(5)  # connects
        await made.told(5)
        made.heard.clear()
        kafka.asked.clear()
        yield kafka, made
        await made.requests.stop()
        await link.stop()


def _written(kafka: FakeKafka) -> list[tuple[int, list[int]]]:
    return [
        (broker, [part.index for topic in message.topic_data for part in topic.partition_data])
        for broker, _, message in kafka.all_asked(Produce)
        if isinstance(message, Produce)
    ]


async def test_batches_of_one_turn_go_together_one_request_a_leader() -> None:
    async with shards(brokers=2) as (kafka, made):
        for shard in range(6):
            made.write(shard, producer_id=9)
        told = await made.told(*range(6))
        assert {one.error for one in told if isinstance(one, BatchAnswered)} == {ErrorCode.NONE}
        assert [one.base_offset for one in told if isinstance(one, BatchAnswered)] == [0, 0, 0, 0, 0, 1]
        assert sorted(_written(kafka)) == [(1, [0, 2, 4]), (2, [1, 3, 5])]


async def test_what_comes_while_a_write_is_under_way_goes_together_in_the_next() -> None:
    async with shards() as (kafka, made):
        kafka.silent.add(1)
        made.write(0)
        await until(lambda: bool(_written(kafka)))
        for shard in (1, 2, 3):
            made.write(shard)
            await asyncio.sleep(0)
        kafka.silent.clear()
        await made.told(0, 1, 2, 3)
        assert _written(kafka) == [(1, [0]), (1, [1, 2, 3])]


async def test_a_slow_shard_alone_holds_nobody_up() -> None:
    async with shards() as (kafka, made):
        kafka.slow.add((OFFSETS_LOG_TOPIC, 3))
        made.write(3, alone=True)
        await until(lambda: bool(_written(kafka)))
        made.write(0)
        made.write(1)
        await made.told(0, 1)
        assert 3 not in made.heard
        (slow,) = await made.told(3)
        assert isinstance(slow, BatchAnswered)
        assert (slow.error, slow.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        kafka.slow.clear()
        made.write(3, alone=True)
        (taken,) = await made.told(3, times=2)
        assert isinstance(taken, BatchAnswered)
        assert (taken.error, taken.base_offset) == (ErrorCode.NONE, 0)
        alone = {connection for _, connection, message in kafka.all_asked(Produce) if _only(message) == [3]}
        together = {connection for _, connection, message in kafka.all_asked(Produce) if _only(message) != [3]}
        assert len(alone) == 1 and not alone & together


def _only(message: object) -> list[int]:
    assert isinstance(message, Produce)
    return [part.index for topic in message.topic_data for part in topic.partition_data]


async def test_a_batch_of_a_process_that_was_suspended_since_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader may have forgotten the producer, and another node may own the shard by then."""
    asleep_ms = 0
    monkeypatch.setattr("coordinator.gateway.io.cluster.log_requests.boot_ms", lambda: boot_ms() + asleep_ms)
    async with shards() as (kafka, some):
        some.write(0, producer_id=8)
        asleep_ms = 24 * 3_600_000  # before the loop has run what sends it
        some.write(1, producer_id=9)
        told = await some.told(0, 1)
        assert [one.error for one in told if isinstance(one, BatchAnswered)] == [None, ErrorCode.NONE]
        assert _written(kafka) == [(1, [1])]


async def test_a_shard_whose_leader_moved_is_told_so_and_finds_the_next() -> None:
    async with shards(brokers=2) as (kafka, made):
        kafka.leaders[OFFSETS_LOG_TOPIC, 0] = 2
        made.write(0)
        errors: list[ErrorCode | None] = []
        while not errors or errors[-1] is not ErrorCode.NONE:
            if errors:
                await asyncio.sleep(0.02)
                made.write(0)
            (told,) = await made.told(0, times=len(errors) + 1)
            assert isinstance(told, BatchAnswered)
            errors.append(told.error)
        assert errors[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert _written(kafka)[-1] == (2, [0])


async def test_a_broker_that_says_nothing_is_an_answer_too() -> None:
    async with shards() as (kafka, made):
        kafka.silent.add(1)
        made.write(0)
        made.read(1)
        made.requests.send(AskProducerId(2, 99))
        written, read, asked = await made.told(0, 1, 2)
        assert isinstance(written, BatchAnswered) and written.error is None
        assert isinstance(read, LogRead) and read.error is None
        assert isinstance(asked, ProducerIdAnswered) and asked.error is None and asked.number == 99
        kafka.silent.clear()


async def test_reads_of_one_turn_go_together_and_each_has_its_end() -> None:
    async with shards() as (kafka, made):
        made.write(0)
        made.write(1)
        await made.told(0, 1)
        made.heard.clear()
        for shard in (0, 1, 2):
            made.read(shard)
        full, also, empty = await made.told(0, 1, 2)
        for one in (full, also):
            assert isinstance(one, LogRead) and one.error is ErrorCode.NONE
            assert one.high_watermark == 1 and len(one.data) > 60
        assert isinstance(empty, LogRead) and (empty.high_watermark, empty.data) == (0, b"")
        assert len(kafka.all_asked(Fetch)) == 1


async def test_a_shard_that_asks_again_takes_the_place_of_what_it_asked_before() -> None:
    async with shards() as (kafka, made):
        kafka.silent.add(1)
        made.write(0)
        await until(lambda: bool(_written(kafka)))
        made.write(1, producer_id=8)
        made.write(1, producer_id=9)
        kafka.silent.clear()
        (told,) = await made.told(1)
        assert isinstance(told, BatchAnswered) and told.number == made.numbers
        assert _written(kafka) == [(1, [0]), (1, [1])]


async def test_epochs_of_a_shard_come_from_the_coordinator_of_its_id_wherever_that_is() -> None:
    async with shards(brokers=2) as (kafka, made):
        made.requests.send(AskProducerId(3, 1))
        (first,) = await made.told(3)
        assert isinstance(first, ProducerIdAnswered) and first.error is ErrorCode.NONE
        kafka.coordinator = 2
        made.requests.send(AskProducerId(3, 2))
        (moved,) = await made.told(3, times=2)
        assert isinstance(moved, ProducerIdAnswered) and moved.error is ErrorCode.NOT_COORDINATOR
        made.requests.send(AskProducerId(3, 3, first.producer_id, first.producer_epoch))
        (next_epoch,) = await made.told(3, times=3)
        assert isinstance(next_epoch, ProducerIdAnswered) and next_epoch.error is ErrorCode.NONE
        assert (next_epoch.producer_id, next_epoch.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_a_reply_without_a_coordinator_is_none() -> None:
    async with shards() as (kafka, made):
        kafka.replies[FindCoordinator] = FindCoordinatorReply(())
        made.requests.send(AskProducerId(3, 1))
        assert await made.told(3) == [ProducerIdAnswered(1, None)]

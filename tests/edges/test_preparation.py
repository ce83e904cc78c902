"""The start at a cluster of brokers, before a node joins the others: the proof, odd answers, and what it waits for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.cluster_log.settings import NOTES_TOPIC, OFFSETS_LOG_TOPIC, ClusterLogSettings
from coordinator.gateway.cluster.log_topics import PROOF_TOPIC
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.predecessor import Predecessor
from coordinator.gateway.io.cluster.preparation import Preparation
from partition_log.store.recovery import LOCK_FILE
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import InitProducerId, Produce, ProducePartitionReply, ProduceReply, ProduceTopicReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.topics import CreateTopics, CreateTopicsReply, Metadata, MetadataBroker, MetadataReply
from tests.edges.fake_kafka import FakeKafka, fake_kafka, until
from tests.edges.test_cluster_log_requests import link_to

SHARDS = 2
_PATIENCE_S = 20


def make_topics(kafka: FakeKafka) -> None:
    for name, partitions in ((OFFSETS_LOG_TOPIC, SHARDS), (PROOF_TOPIC, 1), (NOTES_TOPIC, 1)):
        kafka.make_topic(name, partitions)


@contextlib.asynccontextmanager
async def preparations(kafka: FakeKafka, *node_ids: int) -> AsyncIterator[list[Preparation]]:
    links = [link_to(kafka) for _ in node_ids]
    try:
        yield [
            Preparation(link, SHARDS, 1, node_id, ClusterLogSettings(), notes_bytes=1 << 20)
            for link, node_id in zip(links, node_ids, strict=True)
        ]
    finally:
        for link in links:
            await link.stop()


async def test_nodes_of_one_id_that_start_together_do_not_fence_each_others_proof() -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1, 1, 1) as made:
        make_topics(kafka)
        await asyncio.gather(*(one.run() for one in made))
        asked = [message for _, _, message in kafka.all_asked(InitProducerId)]
        names = [one.transactional_id or "" for one in asked if isinstance(one, InitProducerId)]
        assert len(names) == 9 and len(set(names)) == 3, "an id for each start, for all of it"
        assert all(name.startswith("muster-proof-1-") for name in names)  # access rules are by prefix


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        (Produce, ProduceReply(())),
        (Produce, ProduceReply((ProduceTopicReply(PROOF_TOPIC, ()),))),
        (FindCoordinator, FindCoordinatorReply(())),
    ],
)
async def test_a_reply_that_leaves_out_what_was_asked_for_is_none(kind: type[Message], odd: Message) -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        kafka.replies[kind] = odd
        with pytest.raises(RequestFailed, match="0 answers to one question"):
            await one.run()
        kafka.replies.clear()
        await one.run()


async def test_metadata_without_the_topics_is_no_answer() -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        brokers = (MetadataBroker(1, "127.0.0.1", kafka.ports[1]),)
        kafka.replies[Metadata] = MetadataReply(brokers, "fake", 1)
        with pytest.raises(RequestFailed, match="described other topics"):
            await one.run()


async def test_a_predecessor_is_no_concern_where_no_coordinator_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.predecessor._WITHIN_S", 0.3)
    (tmp_path / LOCK_FILE).touch()
    async with fake_kafka() as kafka:
        kafka.replies[FindCoordinator] = FindCoordinatorReply(())
        former, link = Predecessor(tmp_path, "nodes"), link_to(kafka)
        former.record("a")
        await former.evict(link)
        await link.stop()
        assert len(kafka.all_asked(FindCoordinator)) > 1


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.preparation._PATIENCE_S", 0.0)
    monkeypatch.setattr("coordinator.gateway.io.cluster.preparation._PAUSE_S", 0.01)


async def _reason(preparation: Preparation) -> str:
    """Return why the start cannot go on."""
    async with asyncio.timeout(_PATIENCE_S):
        with pytest.raises(RequestFailed) as failed:
            await preparation.run()
    return str(failed.value)


@pytest.mark.usefixtures("_impatient")
async def test_a_start_tells_that_a_topic_has_no_leader() -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        make_topics(kafka)
        kafka.leaders[OFFSETS_LOG_TOPIC, 1] = -1
        assert await _reason(one) == "topics __muster_offsets and __muster_proof: LEADER_NOT_AVAILABLE"


@pytest.mark.usefixtures("_impatient")
async def test_a_start_tells_that_topics_are_not_there_yet() -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        kafka.replies[CreateTopics] = CreateTopicsReply(())
        assert await _reason(one) == "topics __muster_offsets and __muster_proof: UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
async def test_a_start_tells_why_the_proof_cannot_be_written(error: ErrorCode) -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        make_topics(kafka)
        refused = ProducePartitionReply(0, error)
        kafka.replies[Produce] = ProduceReply((ProduceTopicReply(PROOF_TOPIC, (refused,)),))
        assert await _reason(one) == f"a write to topic __muster_proof: {error.name}"


@pytest.mark.usefixtures("_impatient")
async def test_a_start_tells_that_no_producer_id_is_given() -> None:
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        make_topics(kafka)
        kafka.finds = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await _reason(one) == "the proof's InitProducerId: COORDINATOR_NOT_AVAILABLE"


async def test_a_start_goes_on_once_the_brokers_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.preparation._PAUSE_S", 0.01)
    async with fake_kafka() as kafka, preparations(kafka, 1) as (one,):
        make_topics(kafka)
        kafka.leaders[PROOF_TOPIC, 0] = -1
        running = asyncio.ensure_future(one.run())
        await until(lambda: len(kafka.all_asked(Metadata)) > 2)
        kafka.leaders[PROOF_TOPIC, 0] = 1
        kafka.finds = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: len(kafka.all_asked(FindCoordinator)) > 2)
        kafka.finds = ErrorCode.NONE
        async with asyncio.timeout(_PATIENCE_S):
            await running

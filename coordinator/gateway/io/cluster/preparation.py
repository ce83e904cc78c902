"""EDGE: creates and checks the topics of the log at a start, and tests that the brokers fence."""

import asyncio
import secrets
import time
from collections.abc import Mapping

from coordinator.cluster_log.answers import WriteVerdict, verdict_on
from coordinator.cluster_log.entries import fence_batch
from coordinator.cluster_log.settings import NOTES_TOPIC, OFFSETS_LOG_TOPIC, ClusterLogSettings
from coordinator.config.config import ConfigError
from coordinator.gateway.cluster.fence_proof import ProducerId, fault_of_brokers
from coordinator.gateway.cluster.log_topics import (
    PROOF_TOPIC,
    LogFacts,
    notes_topic,
    offsets_topic,
    problems,
    proof_topic,
    refusal,
    replicas,
)
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import TIMEOUT_S, ClusterLink, only
from coordinator.gateway.io.cluster.producer_ids import COORDINATOR_MOVED, ProducerIds
from protocol.errors import ErrorCode
from protocol.messages.configs import DescribeConfigs, DescribeConfigsReply, DescribeConfigsResource, ResourceType
from protocol.messages.data import (
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)
from protocol.messages.topics import (
    NO_TOPIC_ID,
    CreatableTopic,
    CreateTopics,
    CreateTopicsReply,
    MetadataReply,
    MetadataTopicReply,
)

_CREATE_TIMEOUT_MS = 20_000
_PAUSE_S, _PATIENCE_S = 0.2, 10.0
"""Time between two attempts at a step, and the time after which the operator is told why more are needed."""
_NOT_YET = COORDINATOR_MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}
_OFFSETS, _PROOF = OFFSETS_LOG_TOPIC, PROOF_TOPIC


class Preparation:
    """Preparations before the node joins the others. `copies`: replicas of new topics; `notes_bytes`: retention of the
    topic of notes, 0 if none is to be created."""

    def __init__(
        self,
        link: ClusterLink,
        shards: int,
        copies: int,
        node_id: int,
        settings: ClusterLogSettings,
        notes_bytes: int = 0,
    ) -> None:
        self._link = link
        self._shards = shards
        self._copies = copies
        self._producer_ids = ProducerIds(link)
        # Nodes of one node id, which has a default, would fence each other's proof: the brokers would seem at fault.
        self._name = f"muster-proof-{node_id}-{secrets.token_hex(8)}"
        self._settings = settings
        self._notes_bytes = notes_bytes
        self.log_id = ""
        """Id of the topic of offsets in hexadecimal, after `run`; empty if the brokers give none."""

    async def run(self) -> tuple[str, ...]:
        """Return warnings about unsafe settings. Raises ConfigError if the cluster cannot hold the log, RequestFailed
        if the cluster must be asked again."""
        described = await self._topics()
        without_notes = await self._make_notes_topic(described)
        offsets = next(topic for topic in described.topics if topic.name == _OFFSETS)
        self.log_id = "" if offsets.topic_id == NO_TOPIC_ID else offsets.topic_id.hex()
        facts = LogFacts(
            len(described.brokers),
            offsets,
            await self._settings_of(ResourceType.TOPIC, _OFFSETS),
            await self._settings_of(ResourceType.BROKER, str(described.brokers[0].node_id)),
        )
        if refused := refusal(facts, self._shards):
            raise ConfigError(refused)
        if fault := await fault_of_brokers(self._ask_id, self._write):
            raise ConfigError(
                f"offsets.log = cluster: these brokers do not fence a former owner ({fault}), so that two nodes could "
                "overwrite each other's offsets: use offsets.log=local, with one node"
            )
        return (*problems(facts, self._settings), *without_notes)

    # --- topics ---

    async def _topics(self) -> MetadataReply:
        """Return the metadata of both topics, created if missing, once every partition has a leader."""
        asked, attempts = False, _Attempts(f"topics {_OFFSETS} and {_PROOF}")
        while True:
            described = await self._link.metadata(_OFFSETS, _PROOF)
            if {topic.name for topic in described.topics} != {_OFFSETS, _PROOF}:
                raise RequestFailed("a broker described other topics than those that were asked for")
            missing = {topic.name: topic.error_code for topic in described.topics if topic.error_code}
            if not missing and all(_has_leaders(topic) for topic in described.topics):
                return described
            if missing and not asked:
                copies = replicas(self._copies, len(described.brokers))
                topics = (offsets_topic(self._shards, copies), proof_topic(copies))
                await self._create(described, [topic for topic in topics if topic.name in missing])
                asked = True
                attempts.begin_anew()
            await attempts.pause(next(iter(missing.values()), ErrorCode.LEADER_NOT_AVAILABLE))

    async def _make_notes_topic(self, described: MetadataReply) -> tuple[str, ...]:
        """Create the topic of notes if it is missing; return a warning if that fails, since the node can serve without
        it."""
        if not self._notes_bytes:
            return ()
        found = only((await self._link.metadata(NOTES_TOPIC)).topics)
        if found.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ()
        topic = notes_topic(replicas(self._copies, len(described.brokers)), self._notes_bytes)
        try:
            await self._create(described, [topic])
        except ConfigError as refused:
            return (f"{refused}: each node knows its own notes alone, and a group's go with the node that had it",)
        return ()

    async def _create(self, described: MetadataReply, topics: list[CreatableTopic]) -> None:
        controller = self._link.address_of(described.controller_id)
        message = CreateTopics(tuple(topics), _CREATE_TIMEOUT_MS)
        timeout_s = _CREATE_TIMEOUT_MS / 1_000 + TIMEOUT_S
        if controller is None:
            reply = await self._link.ask(message, CreateTopicsReply, timeout_s)
        else:
            reply = await self._link.ask_at(controller, message, CreateTopicsReply, timeout_s)
        for topic in reply.topics:
            # Another node may have created the topic.
            if topic.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                told = f"topic {topic.name} cannot be made: {topic.error_message or topic.error_code.name}"
                raise RequestFailed(told) if topic.error_code.retriable else ConfigError(told)

    async def _settings_of(self, kind: ResourceType, name: str) -> Mapping[str, str | None]:
        """Return the settings; none if this node may not read them."""
        question = DescribeConfigs((DescribeConfigsResource(kind, name),))
        address = self._link.address_of(int(name)) if kind is ResourceType.BROKER else None
        if address is None:
            reply = await self._link.ask(question, DescribeConfigsReply)
        else:
            reply = await self._link.ask_at(address, question, DescribeConfigsReply)
        return {one.name: one.value for found in reply.results for one in found.configs}

    # --- the proof ---

    async def _ask_id(self) -> ProducerId:
        attempts = _Attempts("the proof's InitProducerId")
        while True:
            reply = await self._producer_ids.ask(self._name)
            if reply.error_code is ErrorCode.NONE:
                return reply.producer_id, reply.producer_epoch
            if reply.error_code not in _NOT_YET:
                told = f"InitProducerId for the transactional id {self._name} is answered {reply.error_code.name}"
                raise ConfigError(told)
            await attempts.pause(reply.error_code)

    async def _write(self, producer: ProducerId, sequence: int) -> ErrorCode:
        batch = fence_batch((*producer, sequence), time.time_ns() // 1_000_000)
        message = Produce((ProduceTopic(_PROOF, (ProducePartition(0, batch),)),), -1, int(TIMEOUT_S * 1_000))
        attempts = _Attempts(f"a write to topic {_PROOF}")
        while True:
            described = await self._link.metadata(_PROOF)
            error = ErrorCode.LEADER_NOT_AVAILABLE
            leader = self._link.address_of(only(only(described.topics).partitions).leader_id)
            if leader is not None:
                reply = await self._link.ask_at(leader, message, ProduceReply, 2 * TIMEOUT_S)
                error = only(only(reply.responses).partition_responses).error_code
                if verdict_on(error) is not WriteVerdict.AGAIN:
                    return error
            await attempts.pause(error)


class _Attempts:
    """Repeated attempts at one step, which the brokers say may succeed later."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.begin_anew()

    def begin_anew(self) -> None:
        """Count the time from now on."""
        self._until_s = time.monotonic() + _PATIENCE_S

    async def pause(self, error: ErrorCode) -> None:
        """Wait before the next attempt. Raises RequestFailed with this error of the last one if they take too long: the
        caller begins anew, and tells the operator why."""
        if time.monotonic() > self._until_s:
            raise RequestFailed(f"{self._step}: {error.name}")
        await asyncio.sleep(_PAUSE_S)


def _has_leaders(topic: MetadataTopicReply) -> bool:
    return bool(topic.partitions) and all(one.leader_id >= 0 for one in topic.partitions)

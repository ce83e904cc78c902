"""Probes sent to a running Apache Kafka: each state has a user, a group and topics of its own."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from interop.access.living import ask_living
from interop.access.probes import probes, transactional_probes
from interop.access.reply_lines import reply_line
from interop.access.states import STATES, Names
from interop.differential.connections import Connections
from interop.secure_kafka import SecureKafka, secure_kafka
from protocol.kafka.login import HANDSHAKE_VERSION, SaslClient
from protocol.messages.acls import AclCreation, CreateAcls, DescribeAcls
from protocol.messages.data import InitProducerId
from protocol.messages.node import FindCoordinator, SaslAuthenticate
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic

HERE = "127.0.0.1"
_CLIENT = "access"
_READY_S = 60.0
_ANSWER_S = 60.0
_PASSWORD = "secret"

Answers = Mapping[str, Mapping[str, str]]
"""Answers by the probe's title, then by state."""


def ask_kafka(folder: Path) -> Answers:
    """Start a broker and ask it everything. Raises `bench.builds.NotHere`."""
    users = {name: _PASSWORD for name, _, _ in _users()}
    settings = "group.coordinator.rebalance.protocols=classic,consumer\nauto.create.topics.enable=true\n"
    with secure_kafka(folder, users, settings=settings, may_fetch=True) as kafka:
        topic_ids = asyncio.run(_prepare(kafka))
        found: dict[str, dict[str, str]] = {}
        for user, state, names in _users():
            answers = asyncio.run(_asked_living(kafka, user, names, topic_ids))
            for title, answer in (answers | asyncio.run(_asked(kafka, user, names, topic_ids))).items():
                found.setdefault(title, {})[state] = answer
        return found


def _users() -> Iterator[tuple[str, str, Names]]:
    """Yield the user of each state, the state, and its names."""
    for number, state in enumerate(STATES):
        yield f"u{number:03}", state, Names(f"-{number:03}")


async def _asked(kafka: SecureKafka, user: str, names: Names, topic_ids: Mapping[str, bytes]) -> dict[str, str]:
    connections = Connections((HERE, kafka.port))
    try:
        await _log_in(connections, user)
        answers = {}
        for probe in (*transactional_probes(names), *probes(names, topic_ids)):
            asked = connections.call(_CLIENT, probe.message, probe.version)
            try:
                answer = await asyncio.wait_for(asked, _ANSWER_S)
            except TimeoutError:
                raise TimeoutError(f"no answer to {probe.title} of {names.group} within {_ANSWER_S:g} s") from None
            answers[probe.title] = reply_line(answer, names, topic_ids)
        return answers
    finally:
        connections.close()


async def _asked_living(kafka: SecureKafka, user: str, names: Names, topic_ids: Mapping[str, bytes]) -> dict[str, str]:
    """Ask about a group with a member, and leave the group with its offsets as it was."""
    connections, admin = Connections((HERE, kafka.port)), Connections((HERE, kafka.admin_port))
    try:
        await _log_in(connections, user)
        answers = await ask_living(
            partial(admin.call, _CLIENT),
            partial(connections.call, _CLIENT),
            partial(asyncio.sleep, 0.1),
            names,
            topic_ids,
        )
        await _until(admin, _committed(names.group, names), "offsets are committed")
        return answers
    finally:
        connections.close()
        admin.close()


async def _log_in(connections: Connections, user: str) -> None:
    login = SaslClient("PLAIN", user, _PASSWORD, "")
    following: Any = login.begin()
    while following is not None:
        version = 2 if isinstance(following, SaslAuthenticate) else HANDSHAKE_VERSION
        following = login.on_reply(await connections.call(_CLIENT, following, version))


async def _prepare(kafka: SecureKafka) -> dict[str, bytes]:
    """Make topics, offsets and ACLs, and return the topics' ids."""
    admin = Connections((HERE, kafka.admin_port))
    try:
        states = list(_users())
        topics = [topic for _, _, names in states for topic in (names.topic, names.other_topic)]
        made: Any = await admin.call(_CLIENT, CreateTopics(tuple(CreatableTopic(one, 1, 1) for one in topics)), 7)
        assert not any(one.error_code for one in made.topics), made
        creations = [acl for user, state, names in states for acl in _acls(user, state, names)]
        created: Any = await admin.call(_CLIENT, CreateAcls(tuple(creations)), 3)
        assert not any(one.error_code for one in created.results), created
        await _until(admin, _in_force(creations[-1]), "the ACLs hold")
        await _until(admin, _coordinates, "groups and transactions are coordinated")
        for _, _, names in states:
            for group in (names.group, names.other_group):
                await _until(admin, _committed(group, names), "offsets are committed")
        found: Any = await admin.call(_CLIENT, Metadata(tuple(map(MetadataTopic, topics))), 12)
        return {one.name: one.topic_id for one in found.topics}
    finally:
        admin.close()


def _acls(user: str, state: str, names: Names) -> Iterator[AclCreation]:
    for rule in STATES[state]:
        yield rule.creation(names, f"User:{user}", HERE)


def _in_force(last: AclCreation) -> Any:
    async def holds(admin: Connections) -> bool:
        asked = DescribeAcls(last.resource_type, last.resource_name, last.resource_pattern_type, last.principal)
        reply: Any = await admin.call(_CLIENT, asked, 3)
        return bool(reply.resources)

    return holds


async def _coordinates(admin: Connections) -> bool:
    """Return whether groups and transactions have coordinators: to ask for them makes their topics."""
    for key_type in (0, 1):
        reply: Any = await admin.call(_CLIENT, FindCoordinator(("ready",), key_type), 4)
        if reply.coordinators[0].error_code:
            return False
    produced: Any = await admin.call(_CLIENT, InitProducerId("ready"), 4)
    return not produced.error_code


def _committed(group: str, names: Names) -> Any:
    parts = (OffsetCommitPartition(0, 7),)
    topics = tuple(OffsetCommitTopic(topic, parts) for topic in (names.topic, names.other_topic))

    async def holds(admin: Connections) -> bool:
        reply: Any = await admin.call(_CLIENT, OffsetCommit(group, topics), 9)
        return not any(part.error_code for topic in reply.topics for part in topic.partitions)

    return holds


async def _until(admin: Connections, holds: Any, what: str) -> None:
    ends = time.monotonic() + _READY_S
    while time.monotonic() < ends:
        with contextlib.suppress(ConnectionError):
            if await holds(admin):
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"not in time: {what}")

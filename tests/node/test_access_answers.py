"""Authorization by the node, request by request and state by state, beside what a running Apache Kafka 4.3.1 answered
(`python -m interop.access --write`)."""

import asyncio
import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.division import divide, merge_reply
from coordinator.accounts.permission import Permission
from coordinator.accounts.records import AclRecord
from coordinator.config.accounts import AuthorizerClass, Principals
from coordinator.config.keys import RebalanceProtocols
from interop.access import goldens
from interop.access.living import TITLES, ask_living
from interop.access.probes import probes, transactional_probes
from interop.access.reply_lines import reply_line
from interop.access.states import STATES, Names
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.version_codec import ANSWERED_BY_SESSIONS
from protocol.messages import Message
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.refusals import REFUSE
from tests.accounts.rig import NOW
from tests.node.test_kafka import KafkaNodeRig, Peer

NAMES = Names()
TOPICS = NAMES.topic, NAMES.other_topic
PRINCIPAL, HERE = "User:ANONYMOUS", "10.0.0.1"
ADMINISTRATOR = "User:administrator"
REFUSED = "CLUSTER_AUTHORIZATION_FAILED"
MEANT = {
    ("FindCoordinator of a transactional id", "transfer"): "transfer TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ("InitProducerId of a transactional id", "served"): "UNSUPPORTED_VERSION",
    ("Metadata that creates a topic", "orders-made UNKNOWN_TOPIC_OR_PARTITION"): "orders-made; orders-made/0",
    ("DescribeUserScramCredentials", f"{REFUSED}; {REFUSED}"): REFUSED,
    ("DeleteTopics, by id", "hidden-orders TOPIC_AUTHORIZATION_FAILED"): (
        "id of hidden-orders TOPIC_AUTHORIZATION_FAILED"
    ),
}
"""Our answer where Kafka gives another, by the probe's title and Kafka's answer (docs/kafka-differences.md)."""


@functools.cache
def kafka_answers() -> dict[str, dict[str, str]]:
    return goldens.read(goldens.FILE.read_text())


def prepared(state: str) -> KafkaNodeRig:
    """A node with the state's ACLs, and what they are about."""
    rig = KafkaNodeRig(
        authorizer_class_name=AuthorizerClass.STANDARD,
        super_users=Principals(frozenset({ADMINISTRATOR})),
        auto_create_topics_enable=True,
        group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")),
    )
    accounts = rig.node.core.accounts
    everything = [Acl.of(rule.creation(NAMES, PRINCIPAL, HERE)) for rule in STATES["ALL on *"] + STATES["ALL"]]
    assert not accounts.write([AclRecord(acl, is_there=True) for acl in everything], NOW)
    for topic in TOPICS:
        rig.make_topic(topic, 1)
    parts = (OffsetCommitPartition(0, 7),)
    for call, group in enumerate((NAMES.group, NAMES.other_group), 50):
        commit = OffsetCommit(group, tuple(OffsetCommitTopic(topic, parts) for topic in TOPICS))
        reply: Any = rig.ask_inside(commit, call)
        assert not any(part.error_code for topic in reply.topics for part in topic.partitions)
    assert not accounts.write([AclRecord(acl, is_there=False) for acl in everything], NOW)
    own = [Acl.of(rule.creation(NAMES, PRINCIPAL, HERE)) for rule in STATES[state]]
    assert not accounts.write([AclRecord(acl, is_there=True) for acl in own], NOW)
    return rig


def topic_ids_of(rig: KafkaNodeRig) -> dict[str, bytes]:
    return {topic: rig.node.core.topics.id_of(topic) or b"" for topic in TOPICS}


def differences(answers: Mapping[str, str], state: str) -> str:
    """Return the answers of Kafka in this state that are not ours."""
    found = []
    for title, ours in answers.items():
        kafkas = kafka_answers()[title][state]
        if ours != MEANT.get((title, kafkas), kafkas):
            found.append(f"{title}\n  Kafka: {kafkas}\n  ours:  {ours}")
    return "\n".join(found)


@pytest.mark.parametrize("state", STATES)
def test_a_principal_is_answered_as_by_kafka(state: str) -> None:
    rig = prepared(state)
    topic_ids = topic_ids_of(rig)
    peer = Peer(rig, 1)
    answers = {}
    for probe in probes(NAMES, topic_ids):
        peer.send((probe.message, probe.version))
        rig.wait(0)
        (reply,) = peer.heard()
        answers[probe.title] = reply_line(reply, NAMES, topic_ids)
    assert not differences(answers, state)


@pytest.mark.parametrize("state", STATES)
def test_a_principal_is_answered_as_by_kafka_about_a_group_with_a_member(state: str) -> None:
    rig = prepared(state)
    principal, administrator = Peer(rig, 1), Peer(rig, 2)
    rig.node.core.connections[2].access = rig.node.core.accounts.authorizer.of(ADMINISTRATOR, HERE)

    async def asked(peer: Peer, message: Message, version: int) -> Any:
        peer.send((message, version))
        rig.wait(0)
        (reply,) = peer.heard()
        return reply

    async def rest() -> None:
        rig.wait(100)

    living = ask_living(partial(asked, administrator), partial(asked, principal), rest, NAMES, topic_ids_of(rig))
    assert not differences(asyncio.run(living), state)


@pytest.mark.parametrize("state", STATES)
def test_a_principal_is_answered_as_by_kafka_about_offsets_in_transactions(state: str) -> None:
    """Nodes in front of a cluster ask brokers for the same permissions."""
    rig = prepared(state)
    decisions = rig.node.core.accounts.authorizer.of(PRINCIPAL, HERE)

    def code_of(one: Permission) -> ErrorCode:
        return ErrorCode.NONE if decisions.permits(one.kind, str(one.name), one.operation) else one.denial

    answers = {}
    for probe in transactional_probes(NAMES):
        permitted, denied = divide(probe.message, code_of)
        reply: Any = denied
        if permitted is not None:  # the coordinator of transactions does not know the producer
            reply = REFUSE[type(permitted)](permitted, ErrorCode.INVALID_PRODUCER_ID_MAPPING, None)
            reply = merge_reply(probe.message, reply, denied, code_of)
        if isinstance(reply, ErrorReply):
            reply = REFUSE[type(probe.message)](probe.message, reply.error_code, None)
        answers[probe.title] = reply_line(reply, NAMES, topic_ids_of(rig))
    assert not differences(answers, state)


def test_a_difference_that_is_meant_stands_in_the_file() -> None:
    answers = kafka_answers()
    assert all(kafkas in answers[title].values() for title, kafkas in MEANT)


def test_the_file_has_an_answer_for_each_question_and_state_and_reads_as_it_was_written() -> None:
    answers = kafka_answers()
    asked = *transactional_probes(NAMES), *probes(NAMES, dict.fromkeys(TOPICS, b""))
    assert set(answers) == {*TITLES, *(one.title for one in asked)}
    assert all(set(by_state) == set(STATES) for by_state in answers.values())
    in_order = {title: {state: by_state[state] for state in STATES} for title, by_state in answers.items()}
    assert goldens.text(in_order) == goldens.FILE.read_text()


def test_each_api_that_kafkas_clients_are_offered_is_asked() -> None:
    asked = {type(one.message) for one in probes(NAMES, dict.fromkeys(TOPICS, b""))}
    assert asked == {api.message for api in WIRE_APIS.values() if api.advertised} - set(ANSWERED_BY_SESSIONS)

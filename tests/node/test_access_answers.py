"""Authorization by the node, request by request and state by state, beside what a running Apache Kafka 4.3.1 answered
(`python -m interop.access --write`)."""

import functools
from typing import Any

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.records import AclRecord
from coordinator.config.accounts import AuthorizerClass
from coordinator.config.keys import RebalanceProtocols
from interop.access import goldens
from interop.access.questions import questions
from interop.access.states import STATES, Names
from interop.access.told import told
from protocol.apis import WIRE_APIS
from protocol.kafka.version_codec import ANSWERED_BY_SESSIONS
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.accounts.rig import NOW
from tests.node.test_kafka import KafkaDesk, Peer

NAMES = Names()
TOPICS = NAMES.topic, NAMES.other_topic
PRINCIPAL, HERE = "User:ANONYMOUS", "10.0.0.1"
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
"""Our answer where Kafka gives another, by question and Kafka's answer (docs/kafka-differences.md)."""


@functools.cache
def kafka_answers() -> dict[str, dict[str, str]]:
    return goldens.read(goldens.FILE.read_text())


def prepared(state: str) -> KafkaDesk:
    """A desk with the state's ACLs, and what they are about."""
    desk = KafkaDesk(
        authorizer_class_name=AuthorizerClass.STANDARD,
        auto_create_topics_enable=True,
        group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")),
    )
    accounts = desk.node.core.accounts
    everything = [Acl.of(rule.creation(NAMES, PRINCIPAL, HERE)) for rule in STATES["ALL on *"] + STATES["ALL"]]
    assert not accounts.write([AclRecord(acl, is_there=True) for acl in everything], NOW)
    for topic in TOPICS:
        desk.make_topic(topic, 1)
    parts = (OffsetCommitPartition(0, 7),)
    for call, group in enumerate((NAMES.group, NAMES.other_group), 50):
        commit = OffsetCommit(group, tuple(OffsetCommitTopic(topic, parts) for topic in TOPICS))
        reply: Any = desk.ask_inside(commit, call)
        assert not any(part.error_code for topic in reply.topics for part in topic.partitions)
    assert not accounts.write([AclRecord(acl, is_there=False) for acl in everything], NOW)
    own = [Acl.of(rule.creation(NAMES, PRINCIPAL, HERE)) for rule in STATES[state]]
    assert not accounts.write([AclRecord(acl, is_there=True) for acl in own], NOW)
    return desk


@pytest.mark.parametrize("state", STATES)
def test_a_principal_is_answered_as_by_kafka(state: str) -> None:
    desk = prepared(state)
    topic_ids = {topic: desk.node.core.topics.id_of(topic) or b"" for topic in TOPICS}
    peer = Peer(desk, 1)
    differences = []
    for question in questions(NAMES, topic_ids):
        peer.send((question.message, question.version))
        desk.wait(0)
        (reply,) = peer.heard()
        ours = told(reply, NAMES, topic_ids)
        kafkas = kafka_answers()[question.title][state]
        if ours != MEANT.get((question.title, kafkas), kafkas):
            differences.append(f"{question.title}\n  Kafka: {kafkas}\n  ours:  {ours}")
    assert not differences, "\n".join(differences)


def test_a_difference_that_is_meant_stands_in_the_file() -> None:
    answers = kafka_answers()
    assert all(kafkas in answers[title].values() for title, kafkas in MEANT)


def test_the_file_has_an_answer_for_each_question_and_state_and_reads_as_it_was_written() -> None:
    answers = kafka_answers()
    assert set(answers) == {one.title for one in questions(NAMES, dict.fromkeys(TOPICS, b""))}
    assert all(set(by_state) == set(STATES) for by_state in answers.values())
    in_order = {title: {state: by_state[state] for state in STATES} for title, by_state in answers.items()}
    assert goldens.text(in_order) == goldens.FILE.read_text()


def test_each_api_that_kafkas_clients_are_offered_is_asked() -> None:
    asked = {type(one.message) for one in questions(NAMES, dict.fromkeys(TOPICS, b""))}
    assert asked == {api.message for api in WIRE_APIS.values() if api.advertised} - set(ANSWERED_BY_SESSIONS)

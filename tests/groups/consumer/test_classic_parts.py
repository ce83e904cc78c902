"""Parts of classic members in a consumer group: their bytes, and the protocol that all of them share."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.consumer.classic_members.guards import protocols_agree, subscription_is_readable
from coordinator.groups.consumer.classic_members.joining import join
from coordinator.groups.consumer.classic_members.protocols import encoded, owned_partitions
from coordinator.groups.consumer.classic_members.staying import beat
from coordinator.groups.consumer.events import ClassicBeat, ClassicJoin
from coordinator.groups.consumer.state import ConsumerGroupState
from coordinator.groups.consumer.table import TABLE
from coordinator.groups.election import elect
from protocol.consumer_protocol import Subscription, TopicPartitions, decode_assignment, encode_subscription
from protocol.messages.groups import JoinGroup, JoinProtocol
from protocol.session import RequestRef
from tests.groups.consumer.rig import FakeTopics, Rig


def joining(*protocols: JoinProtocol) -> ClassicJoin:
    return ClassicJoin(RequestRef(1, 1), JoinGroup("g", 10_000, "", "consumer", protocols), "c", "/10.0.0.1")


@given(st.binary(max_size=64))
def test_no_bytes_of_a_subscription_are_too_much(metadata: bytes) -> None:
    refused = subscription_is_readable(Rig().group, joining(JoinProtocol("range", metadata)))
    assert refused is None or refused.error_code == 23


def test_a_member_gets_its_assignment_in_the_version_of_its_subscription() -> None:
    topics = FakeTopics({"T": 4, "U": 3})
    known, gone = topics.find("T"), bytes(16)
    assert known is not None
    for version in range(4):
        like = encode_subscription(Subscription(("T",)), version)
        given_ = encoded({known.topic_id: {3, 1}, gone: {0}}, topics, like)
        assert given_[:2] == version.to_bytes(2, "big")
        assert decode_assignment(given_).partitions == (("T", (1, 3)),), "a topic that is gone is left out"
    assert encoded({}, topics, b"")[:2] == encoded({}, topics, b"\xff\xff")[:2] == b"\0\0"
    assert encoded({}, topics, b"\0\x07")[:2] == b"\0\3"


def test_what_a_member_owns_is_known_of_topics_that_exist() -> None:
    topics = FakeTopics({"T": 4})
    known = topics.find("T")
    assert known is not None
    owned = (TopicPartitions("T", (1, 2)), TopicPartitions("gone", (0,)), TopicPartitions("T", (2, 3)))
    assert owned_partitions(Subscription(owned_partitions=owned), topics) == {known.topic_id: {1, 2, 3}}


def test_each_request_has_the_action_of_its_row() -> None:
    rows = {row.event: row.cells[ConsumerGroupState.STABLE] for row in TABLE.rows}
    assert (rows[ClassicJoin], rows[ClassicBeat]) == (join, beat)


def test_names_are_offered_once_by_consumers() -> None:
    group = Rig().group
    assert protocols_agree(group, joining(JoinProtocol("range"))) is None
    assert protocols_agree(group, joining(JoinProtocol("range"), JoinProtocol("range"))) is not None
    assert protocols_agree(group, joining()) is not None


def test_the_protocol_of_all_is_elected_by_votes_and_the_leaders_order() -> None:
    assert elect([["a", "b"], ["b", "a"], ["b", "a"]], ["a", "b"]) == "b"
    assert elect([["a", "b"], ["b", "a"]], ["b", "a"]) == "b"
    assert elect([["a"], ["b"]], ["a"]) is None

"""Brokers in an answer to Metadata are exchanged in its bytes. The judge reads all of it, and writes it anew."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.cluster_node.nodes import COORDINATOR_IDS
from coordinator.gateway.brokers import Broker, Brokers
from coordinator.gateway.session.apis import DESCRIBE_CLUSTER
from coordinator.gateway.session.broker_list import replace_brokers
from coordinator.gateway.session.replies import DECODE_MAX_BYTES, reply_rewriter
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.node import ApiVersionsReply, DescribeClusterReply, DescribedBroker
from protocol.messages.topics import MetadataBroker, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from tests.enumerations import share_of
from tests.upstream.session.frames import METADATA, at_our_addresses, told

HERE = {1: ("front", 9100), 2: ("ein-längerer-name", 9101), 7: ("h" * 200, 65_535)}
BROKERS = st.builds(
    MetadataBroker,
    st.sampled_from((1, 2, 3, 7, -1)),
    st.text(max_size=20),
    st.integers(0, 65_535),
    st.none() | st.text(max_size=9),
)


def reply(brokers: tuple[MetadataBroker, ...], partitions: int = 2) -> MetadataReply:
    parts = tuple(MetadataPartitionReply(number, 1, replica_nodes=(1, 2)) for number in range(partitions))
    return MetadataReply(brokers, "c", 1, (MetadataTopicReply("t", b"i" * 16, ErrorCode.NONE, False, parts),))


@settings(max_examples=share_of(300), deadline=None)
@given(st.integers(0, 13), st.lists(BROKERS, max_size=5))
def test_the_bytes_are_those_of_who_reads_and_writes_all_of_it(version: int, brokers: list[MetadataBroker]) -> None:
    frame = told(METADATA, version, 7, reply(tuple(brokers)))
    rewriter = reply_rewriter(METADATA, version)
    said = rewriter.decode(frame)
    assert isinstance(said, MetadataReply)
    assert replace_brokers(frame, version, HERE) == at_our_addresses(version, 7, said, HERE)


@pytest.mark.parametrize("version", [0, 1, 5, 9, 12])
def test_a_frame_that_ends_among_its_brokers_is_refused(version: int) -> None:
    frame = told(METADATA, version, 7, reply((MetadataBroker(1, "hidden", 9092, "rack"),)))
    end = frame.index(b"hidden") + 8
    for cut in range(8, end):
        with pytest.raises(ProtocolViolation):
            replace_brokers(frame[:cut], version, HERE)


@settings(max_examples=share_of(500), deadline=None)
@given(st.integers(0, 13), st.binary(max_size=80))
def test_whatever_the_bytes_they_are_exchanged_or_refused(version: int, body: bytes) -> None:
    frame = (4 + len(body)).to_bytes(4, "big") + bytes(4) + body
    with suppress(ProtocolViolation):
        out = replace_brokers(frame, version, HERE)
        assert int.from_bytes(out[:4], "big") == len(out) - 4


def test_a_long_answer_is_not_read_and_a_short_one_is() -> None:
    brokers = (MetadataBroker(1, "hidden", 9092),)
    for partitions, is_read in ((2, True), (10_000, False)):
        frame = told(METADATA, 12, 7, reply(brokers, partitions))
        assert (len(frame) <= DECODE_MAX_BYTES) is is_read
        out, said = reply_rewriter(METADATA, 12).rewrite(frame, 7, HERE)
        assert b"hidden" not in out
        assert (said is not None) is is_read


COORDINATOR = COORDINATOR_IDS + 2
WITH_NODE = HERE | {COORDINATOR: ("node", 9_092)}


@pytest.mark.parametrize("version", range(14))
def test_coordinators_that_are_no_brokers_are_told_too(version: int) -> None:
    frame = told(METADATA, version, 7, reply((MetadataBroker(1, "hidden", 9092, "rack"),)))
    rewriter = reply_rewriter(METADATA, version)
    before, found = rewriter.decode(frame), rewriter.decode(replace_brokers(frame, version, WITH_NODE))
    assert isinstance(before, MetadataReply) and isinstance(found, MetadataReply)
    rack = before.brokers[0].rack
    expected = (MetadataBroker(1, "front", 9_100, rack), MetadataBroker(COORDINATOR, "node", 9_092))
    assert found == replace(before, brokers=expected)


def test_coordinators_that_are_no_brokers_are_described_too() -> None:
    described = DescribeClusterReply("c", 1, (DescribedBroker(1, "hidden", 9_092),))
    frame = told(DESCRIBE_CLUSTER, 1, 7, described)
    rewriter = reply_rewriter(DESCRIBE_CLUSTER, 1)
    found = rewriter.decode(rewriter.rewrite(frame, 7, WITH_NODE)[0])
    assert isinstance(found, DescribeClusterReply)
    assert [(one.broker_id, one.host, one.port) for one in found.brokers] == [
        (1, "front", 9_100),
        (COORDINATOR, "node", 9_092),
    ]


def test_what_nodes_have_agreed_on_is_told_in_place_of_this_node_s_listeners() -> None:
    known = Brokers(1 << 20, 1_000)
    found = tuple(Broker(node_id, "real", 9, "own", 9_100 + node_id, ApiVersionsReply(), "rack") for node_id in (1, 2))
    known.found(found, 0)
    known.share({1: ("other", 7), 5: ("other", 8)}, {COORDINATOR: ("node", 9_092)})
    expected = {1: ("other", 7), 2: ("own", 9_102), COORDINATOR: ("node", 9_092)}
    assert known.addresses == expected
    known.found(found, 1)
    assert known.addresses == expected
    assert known.described() == [(1, "other", 7, "rack"), (2, "own", 9_102, "rack"), (COORDINATOR, "node", 9_092, None)]

"""The node that a partition is read from, and whether a new leader has what was read before (KIP-320, KIP-392)."""

import pytest
from msgspec.structs import replace

from membership.events import NodeAddress
from muster.core.fetching.leaders import Leader, Leaders
from muster.core.positions import OffsetReset, PositionState
from muster.errors import LogTruncated
from muster.net.dialects import ClientDialect, dialect_of
from protocol.messages.data import OffsetForLeaderEpoch
from protocol.messages.topics import Metadata, MetadataBroker, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from tests.client.fetching.world import P0, P1, World

A, B = (NodeAddress("node", number, number) for number in range(2))


def told(leader: int, epoch: int, topic_id: bytes = bytes(16)) -> MetadataReply:
    brokers = tuple(MetadataBroker(node.node_id, node.host, node.port) for node in (A, B))
    partitions = (MetadataPartitionReply(0, leader, leader_epoch=epoch),)
    return MetadataReply(brokers, topics=(MetadataTopicReply("t", topic_id, partitions=partitions),))


def test_word_of_an_older_epoch_is_not_believed() -> None:
    leaders = Leaders()
    leaders.on_metadata(told(0, 4))
    leaders.on_metadata(told(1, 3))
    assert leaders.at(P0) == Leader(A, 4)
    leaders.on_metadata(told(1, 5))
    assert leaders.at(P0) == Leader(B, 5)


def test_a_topic_made_anew_begins_its_epochs_anew() -> None:
    leaders = Leaders()
    leaders.on_metadata(told(0, 4, b"1" * 16))
    leaders.on_metadata(told(1, 0, b"2" * 16))
    assert leaders.at(P0) == Leader(B, 0)
    assert leaders.topic_name("", b"2" * 16) == "t"


def test_a_leader_beside_musterd_is_one_that_speaks_kafkas_protocol() -> None:
    leaders = Leaders()
    reply = told(0, 4)
    leaders.on_metadata(replace(reply, brokers=tuple(replace(one, speaks="kafka") for one in reply.brokers)))
    assert leaders.at(P0) == Leader(A._replace(speaks="kafka"), 4)
    assert dialect_of(A._replace(speaks="kafka"), ClientDialect.NATIVE) is ClientDialect.KAFKA
    assert dialect_of(A, ClientDialect.NATIVE) is ClientDialect.NATIVE


def test_a_hint_counts_if_it_is_news() -> None:
    leaders = Leaders()
    leaders.on_metadata(told(0, 4))
    assert not leaders.hint(P0, B, 4)
    assert leaders.hint(P0, B, 5)
    assert leaders.at(P0) == Leader(B, 5)


def test_a_preferred_follower_is_read_from_while_its_lease_lasts() -> None:
    leaders = Leaders()
    leaders.on_metadata(told(0, 4))
    leaders.prefer(P0, 1, until_ms=100)
    assert (leaders.reader(P0, 99), leaders.reader(P0, 100)) == (B, A)
    leaders.prefer(P0, 1, until_ms=100)
    assert leaders.forget_preferred(P0)
    assert (leaders.reader(P0, 0), leaders.reader(P1, 0)) == (A, None)


def test_the_follower_a_leader_names_is_asked_next() -> None:
    world = World(0, metadata_max_age_ms=1_000, max_wait_ms=50, rack="east")
    world.nodes[1].follows.add(P0)
    world.logs[P0].preferred = 1
    world.append(P0, 2)
    assert world.offsets() == [0, 1]
    assert [number for number, _ in world.asked()] == [0, 1]
    assert {message.rack_id for _, _, message in world.requests} == {"east"}
    world.rest(1_100)
    assert [number for number, _ in world.asked()].count(0) == 2


def test_a_follower_that_lacks_the_offset_is_forgotten_for_the_leader() -> None:
    world = World(0, offsets=[2], reset=OffsetReset.NONE)
    world.nodes[1].follows.add(P0)
    world.nodes[1].logs = {P0: type(world.logs[P0])(0)}
    world.append(P0, 4)
    world.logs[P0].preferred = 1
    world.poll(0)
    world.run(100, until=lambda: len(world.requests) == 2)
    world.logs[P0].preferred = -1
    assert world.offsets() == [2, 3]
    assert [number for number, _ in world.asked()][:3] == [0, 1, 0]


def moved(end_of_epoch: int, reset: OffsetReset) -> World:
    """Three records of epoch 0 were read, then another node leads, and its epoch 0 ended there."""
    world = World(0, reset=reset)
    world.append(P0, 3)
    assert world.offsets() == [0, 1, 2]
    log = world.logs[P0]
    log.leader, log.epoch, log.epochs = 1, 1, {0: end_of_epoch}
    if end_of_epoch < 3:
        log.batches.clear()
        log.start = 0
        log.epoch = 0
        log.append(end_of_epoch)
        log.epoch = 1
    log.append(2)
    return world


def test_a_new_leader_is_asked_first_whether_it_has_what_was_read() -> None:
    world = moved(3, OffsetReset.NONE)
    assert world.offsets(2_000) == [3, 4]
    (question,) = [one for one in world.others if isinstance(one, OffsetForLeaderEpoch)]
    assert question.topics[0].partitions[0].leader_epoch == 0
    assert question.topics[0].partitions[0].current_leader_epoch == 1


def test_what_a_new_leader_lacks_is_read_again_from_where_logs_part() -> None:
    assert moved(2, OffsetReset.EARLIEST).offsets(2_000) == [2, 3]


def test_without_a_policy_a_log_that_parts_is_the_applications_to_mend() -> None:
    world = moved(2, OffsetReset.NONE)
    with pytest.raises(LogTruncated, match="t-0 was read up to 3, but its leader's log parts from it at 2") as raised:
        world.offsets(2_000)
    assert raised.value.divergent_offset == 2
    position = world.subscription.at(P0)
    assert position is not None
    assert position.state is PositionState.AWAIT_VALIDATION
    world.subscription.seek(P0, 2)
    assert world.offsets() == [2, 3]


def test_nobody_is_asked_with_validation_turned_off() -> None:
    world = World(0, validates_positions=False)
    world.append(P0, 1)
    assert world.offsets() == [0]
    world.logs[P0].leader, world.logs[P0].epoch = 1, 1
    world.append(P0, 1)
    assert world.offsets(2_000) == [1]
    assert not [one for one in world.others if isinstance(one, OffsetForLeaderEpoch)]


def test_a_leader_that_moved_and_says_nothing_is_noticed_by_the_age_of_what_is_known() -> None:
    world = World(0, 0, metadata_max_age_ms=2_000, max_wait_ms=50)
    world.append(P0, 1)
    assert world.offsets() == [0]
    world.nodes[0].follows.add(P0)
    world.logs[P0].leader = 1  # the old one goes on answering
    world.rest(1_900)
    assert {number for number, _ in world.asked()} == {0}
    world.rest(200)
    assert {number for number, asked in world.asked() if 0 in asked} == {0, 1}
    world.append(P0, 1)
    assert world.offsets() == [1]


def test_leaders_are_looked_for_once_an_age_and_while_there_is_no_answer_with_pauses() -> None:
    world = World(0, metadata_max_age_ms=1_000, max_wait_ms=50)
    world.poll(10)
    world.rest(5_500)
    assert sum(isinstance(one, Metadata) for one in world.others) == 6
    world.loses = lambda message: isinstance(message, Metadata)
    world.rest(3_000)
    world.append(P0, 1)
    assert world.offsets() == [0], "what was known is good until something better is"
    world.loses = lambda _message: False
    world.rest(1_100)
    assert sum(isinstance(one, Metadata) for one in world.others) in {7, 8}

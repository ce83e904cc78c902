"""Topics that are deleted at the cluster: when it is believed, and what becomes of the offsets committed for them."""

from typing import Any

import pytest

from coordinator.clock import Moment
from coordinator.gateway.deleted_topics import NEVER, DeletedTopicRecord, DeletedTopics
from coordinator.gateway.offset_cleanup import OffsetCleanup
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import ListNotes, ListNotesReply
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import (
    NO_TOPIC_ID,
    CreatableTopic,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    Metadata,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)
from tests.upstream.pair import Pair
from tests.upstream.test_node import commit, committed, make_topic, paired

OLD, NEW = b"1" * 16, b"2" * 16
AFTER_MS = 60_000


def at(now_ms: int) -> Moment:
    return Moment(now_ms, 1_000_000 + now_ms)


def gone_topics(after_ms: int = AFTER_MS) -> DeletedTopics:
    gone = DeletedTopics(after_ms, 0, at(0))
    gone.in_cluster("c")
    return gone


def said(error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID, cluster: str = "c", topic_id: bytes = OLD) -> MetadataReply:
    return MetadataReply(cluster_id=cluster, topics=(MetadataTopicReply(None, topic_id, error),))


def ask(gone: DeletedTopics, now_ms: int, *answers: MetadataReply | None) -> list[DeletedTopicRecord]:
    """A round of questions to as many brokers as there are answers."""
    gone.look_at(at(now_ms))
    question = gone.to_ask()
    assert question is not None
    gone.answered(question, list(answers))
    return gone.take_over()


def test_a_topic_is_gone_when_all_brokers_have_said_so_for_long_enough() -> None:
    gone = gone_topics()
    assert gone.to_ask() is None
    gone.missed("t", OLD)
    assert gone.to_ask() == Metadata((MetadataTopic(None, OLD),))
    assert ask(gone, 30_000, said(), said()) == []
    assert ask(gone, 59_999, said(), said()) == []
    (over,) = ask(gone, 60_000, said(), said())
    assert (over.name, over.topic_id, over.anew_wall_ms) == ("t", OLD, None)
    assert len(gone) == 0


def test_brokers_are_asked_no_more_often_than_topics_are_listed() -> None:
    gone = DeletedTopics(AFTER_MS, 10_000, at(0))
    gone.missed("t", OLD)
    asks = []
    for now_ms in range(0, 30_001, 1_000):
        gone.look_at(at(now_ms))
        if gone.to_ask() is not None:
            asks.append(now_ms)
    assert asks == [0, 10_000, 20_000, 30_000]


def test_once_is_not_enough() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    assert ask(gone, 500_000, said()) == []
    assert len(ask(gone, 500_001, said())) == 1


@pytest.mark.parametrize(
    "doubt",
    [
        pytest.param(None, id="a broker said nothing"),
        pytest.param(said(ErrorCode.TOPIC_AUTHORIZATION_FAILED), id="it may not be seen"),
        pytest.param(said(ErrorCode.NONE), id="it is there"),
        pytest.param(said(cluster="other"), id="a broker is another cluster's"),
        pytest.param(said(topic_id=NEW), id="a broker does not answer by id"),
        pytest.param(said(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), id="it has no such name"),
    ],
)
def test_while_one_broker_leaves_a_doubt_the_topic_is_not_gone(doubt: MetadataReply | None) -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    for round_ in range(10):
        assert ask(gone, 100_000 * round_, said(), doubt) == []
    assert len(gone) == 1


def test_a_topic_that_could_not_be_seen_begins_anew_to_be_gone() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    assert ask(gone, 30_000, said()) == []
    assert ask(gone, 50_000, said(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) == []
    assert ask(gone, 100_000, said()) == []
    assert ask(gone, 109_999, said()) == []
    assert len(ask(gone, 110_000, said())) == 1


def test_without_brokers_nothing_is_gone() -> None:
    gone = gone_topics(after_ms=0)
    gone.missed("t", OLD)
    assert ask(gone, 1) == []
    assert ask(gone, 2) == []


def test_a_topic_that_is_told_of_again_is_not_gone() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    gone.told_of("t", OLD)
    assert gone.to_ask() is None


def test_another_of_its_name_does_not_bring_it_back() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    gone.look_at(at(7_000))
    gone.told_of("t", NEW)
    gone.look_at(at(9_000))
    gone.told_of("t", NEW)
    ask(gone, 60_000, said())
    (over,) = ask(gone, 60_001, said())
    assert over.anew_wall_ms == 1_007_000


def tell(gone: DeletedTopics, now_ms: int, topic_id: bytes, before: bytes | None = None) -> None:
    """As when a broker tells of the topic by name, instead of another."""
    gone.look_at(at(now_ms))
    if before is not None:
        gone.missed("t", before)
    gone.told_of("t", topic_id)


def test_a_broker_that_is_behind_makes_no_topic_younger() -> None:
    gone = gone_topics()
    tell(gone, 0, OLD)
    tell(gone, 70_000, NEW, OLD)
    tell(gone, 130_000, OLD, NEW)
    tell(gone, 131_000, NEW, OLD)
    ask(gone, 200_000, said())
    (over,) = ask(gone, 200_001, said())
    assert (over.topic_id, over.anew_wall_ms, over.from_wall_ms) == (OLD, 1_070_000, 0)


def test_of_what_was_heard_of_for_a_moment_only_nothing_goes_that_is_older() -> None:
    gone = gone_topics()
    tell(gone, 1_000, OLD)
    tell(gone, 2_000, NEW, OLD)
    ask(gone, 200_000, said())
    (over,) = ask(gone, 200_001, said())
    assert (over.from_wall_ms, over.anew_wall_ms) == (1_001_000, 1_002_000)


def test_what_clients_may_have_heard_unheard_makes_a_topic_older() -> None:
    """They were told of topics by an answer without ids, or one that was not read."""
    gone = gone_topics()
    tell(gone, 0, OLD)
    gone.listed()
    gone.look_at(at(70_000))
    gone.unheard()
    gone.look_at(at(80_000))
    gone.unheard()
    tell(gone, 90_000, NEW, OLD)
    assert until(gone) == 1_070_000


def test_a_list_from_a_broker_that_is_behind_does_not_end_that_two_do() -> None:
    for lists, since_ms in ((1, 1_070_000), (2, 1_090_000)):
        gone = gone_topics()
        tell(gone, 0, OLD)
        gone.look_at(at(70_000))
        gone.unheard()
        for _ in range(lists):
            gone.listed()
        tell(gone, 90_000, NEW, OLD)
        assert until(gone) == since_ms


def until(gone: DeletedTopics) -> int:
    ask(gone, 200_000, said())
    (over,) = ask(gone, 200_001, said())
    return over.until_wall_ms


def test_what_is_committed_when_nobody_doubts_any_more_is_of_another_that_is_yet_to_be_heard_of() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    assert until(gone) == 1_200_001


def test_topics_without_an_id_are_not_taken_for_one() -> None:
    gone = gone_topics()
    tell(gone, 0, NO_TOPIC_ID)
    tell(gone, 10_000, OLD)
    tell(gone, 90_000, NO_TOPIC_ID, OLD)
    tell(gone, 100_000, NEW)
    assert until(gone) == 1_100_000


def test_when_topics_were_heard_first_is_remembered_as_long_as_they_are_there() -> None:
    gone = gone_topics()
    many = [number.to_bytes(16, "big") for number in range(1, 30_001)]
    for topic_id in many:
        gone.told_of("t", topic_id)
    tell(gone, 5_000, NEW)
    gone.keep(many[:10])
    tell(gone, 9_000, NEW, many[9])
    tell(gone, 9_000, many[20], many[10])
    ask(gone, 200_000, said(topic_id=many[9]))
    (over,) = ask(gone, 200_001, said(topic_id=many[9]))
    assert over.anew_wall_ms == 1_009_000


def test_another_cluster_says_nothing_of_what_is_gone() -> None:
    gone = gone_topics()
    gone.missed("t", OLD)
    gone.in_cluster("c")
    assert len(gone) == 1
    gone.in_cluster("d")
    assert len(gone) == 0


def test_who_wants_to_keep_all_keeps_all() -> None:
    gone = gone_topics(after_ms=NEVER)
    gone.missed("t", OLD)
    assert gone.to_ask() is None


def test_a_topic_whose_id_was_never_heard_is_let_alone() -> None:
    gone = gone_topics()
    gone.missed("t", bytes(16))
    assert gone.to_ask() is None


# ------------------------------------------------------------------------------------------------------ beside a broker


def beside(**settings: Any) -> Pair:
    pair = paired(upstream_metadata_max_age_ms=10_000, upstream_topic_deleted_after_ms=60_000, **settings)
    make_topic(pair)
    make_topic(pair, "other")
    pair.wait(1_000)
    for name in ("orders", "other"):
        assert committed(pair, commit(name)) is ErrorCode.NONE
        assert committed(pair, commit(name, 1, 6)) is ErrorCode.NONE
    return pair


def held(pair: Pair) -> dict[tuple[str, int], int]:
    reply = pair.ask_inside(OffsetFetch((OffsetFetchGroup("g"),)))
    assert isinstance(reply, OffsetFetchReply)
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in reply.groups[0].topics
        for part in topic.partitions
    }


def pass_time(pair: Pair, seconds: int) -> None:
    for _ in range(seconds):
        pair.wait(1_000)


def delete(pair: Pair, name: str = "orders") -> None:
    pair.ask_broker(DeleteTopics((DeletableTopic(name),)), 5)


ALL = {("orders", 0): 5, ("orders", 1): 6, ("other", 0): 5, ("other", 1): 6}
OTHERS = {("other", 0): 5, ("other", 1): 6}


def test_offsets_of_a_topic_that_was_deleted_go_after_a_while_with_a_note() -> None:
    pair = beside()
    delete(pair)
    pass_time(pair, 59)
    assert held(pair) == ALL
    pass_time(pair, 30)
    assert held(pair) == OTHERS
    notes = pair.ask_inside(ListNotes("g", limit=1))
    assert isinstance(notes, ListNotesReply)
    assert [(one.kind, one.cause, one.detail) for one in notes.notes] == [
        ("expired", "topic deleted", "2 offsets of orders")
    ]
    assert pair.complaints == []
    pair.front.restart()
    pair.find()
    assert held(pair) == OTHERS


def test_offsets_stay_where_they_are_to_stay() -> None:
    pair = paired(upstream_metadata_max_age_ms=10_000, upstream_topic_deleted_after_ms=-1)
    make_topic(pair)
    committed(pair, commit())
    delete(pair)
    pass_time(pair, 200)
    assert held(pair) == {("orders", 0): 5}


def test_offsets_of_a_topic_made_anew_stay_and_those_before_it_go() -> None:
    pair = beside()
    delete(pair)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    pass_time(pair, 20)
    assert committed(pair, commit("orders", 0, 3)) is ErrorCode.NONE
    pass_time(pair, 80)
    assert held(pair) == {("orders", 0): 3, **OTHERS}


def made_anew() -> tuple[Pair, MetadataReply]:
    """With 42 committed for the new one; and what a broker tells that has not heard of it."""
    pair = beside()
    topics = pair.node.topics.metadata(Metadata((MetadataTopic("orders"),)), pair.moment)
    behind = MetadataReply(cluster_id="broker", topics=topics)
    delete(pair)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    pass_time(pair, 20)
    assert committed(pair, commit("orders", 0, 42)) is ErrorCode.NONE
    pass_time(pair, 5)
    return pair, behind


def test_a_broker_that_is_behind_takes_no_offset_from_the_topic_made_anew() -> None:
    pair, behind = made_anew()
    pair.node.topics.learn(behind)
    pass_time(pair, 100)
    assert held(pair) == {("orders", 0): 42, **OTHERS}


@pytest.mark.parametrize("version", [5, 9, 12])
@pytest.mark.parametrize("is_long", [False, True])
def test_what_is_committed_once_a_client_was_told_of_the_new_topic_stays_however_it_was_told(
    version: int, is_long: bool
) -> None:
    pair = beside()
    if is_long:
        make_topic(pair, "wide", 4_000)
    pass_time(pair, 36)
    delete(pair)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    pair.ask(1, Metadata(None if is_long else (MetadataTopic("orders"),)), version)
    assert committed(pair, commit("orders", 0, 42)) is ErrorCode.NONE
    pass_time(pair, 120)
    assert held(pair) == {("orders", 0): 42, **OTHERS}


def test_whoever_reads_a_topic_made_anew_is_told_no_offset_of_the_old_one() -> None:
    pair = beside()
    pass_time(pair, 61)
    delete(pair)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    assert held(pair) == ALL
    pair.ask(1, Metadata((MetadataTopic("orders"),)), 12)
    assert held(pair) == OTHERS
    named = OffsetFetchGroup("g", topics=(OffsetFetchTopic("orders", (0, 1)),))
    reply = pair.ask_inside(OffsetFetch((named,)))
    assert isinstance(reply, OffsetFetchReply)
    assert [part.committed_offset for part in reply.groups[0].topics[0].partitions] == [-1, -1]
    assert committed(pair, commit("orders", 1, 3)) is ErrorCode.NONE
    assert held(pair) == {("orders", 1): 3, **OTHERS}
    pass_time(pair, 120)
    assert held(pair) == {("orders", 1): 3, **OTHERS}


def test_a_wall_clock_that_is_set_back_makes_no_commit_an_old_topics() -> None:
    pair = beside()
    pass_time(pair, 61)
    delete(pair)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    pair.ask(1, Metadata((MetadataTopic("orders"),)), 12)
    pair.wall_ahead_ms = -30_500
    assert committed(pair, commit("orders", 0, 42)) is ErrorCode.NONE
    pair.wait(900)
    assert held(pair)["orders", 0] == 42
    pass_time(pair, 120)
    assert held(pair)["orders", 0] == 42


def test_by_its_id_nothing_is_told_of_the_old_one_either() -> None:
    pair = beside()
    pass_time(pair, 61)
    delete(pair)
    made = pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 7)
    assert isinstance(made, CreateTopicsReply)
    wanted = OffsetFetchTopic("", (0,), made.topics[0].topic_id)
    reply = pair.ask(1, OffsetFetch((OffsetFetchGroup("g", topics=(wanted,)),)), 10)
    assert isinstance(reply, OffsetFetchReply)
    assert [part.committed_offset for part in reply.groups[0].topics[0].partitions] == [-1]


def test_what_was_not_forgotten_for_want_of_room_takes_nothing_from_a_topic_made_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = beside()
    delete(pair)
    with monkeypatch.context() as full:
        full.setattr(Shard, "delete_offsets_of", lambda *_: ErrorCode.KAFKA_STORAGE_ERROR)
        pass_time(pair, 90)
        assert pair_health(pair)["upstream_topics_missed"] == 0
        assert held(pair) == ALL
        pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
        pass_time(pair, 20)
        assert committed(pair, commit("orders", 0, 3)) is ErrorCode.NONE
    pass_time(pair, 5)
    assert held(pair) == {("orders", 0): 3, **OTHERS}


def test_nor_does_one_that_is_behind_when_the_node_begins() -> None:
    pair, behind = made_anew()
    pair.front.restart()
    pair.node.topics.learn_all(behind, pair.now_ms)
    pair.wait(3_000)
    pair.find()
    pass_time(pair, 100)
    assert held(pair)["orders", 0] == 42


def test_while_the_cluster_is_away_nothing_is_gone() -> None:
    pair = beside()
    delete(pair)
    pass_time(pair, 20)
    assert pair_health(pair)["upstream_topics_missed"] == 1
    pair.is_cut = True
    pair.away()
    pass_time(pair, 200)
    assert held(pair) == ALL
    pair.is_cut = False
    pair.find()
    pass_time(pair, 30)
    assert held(pair) == OTHERS


def test_another_cluster_at_the_same_place_removes_nothing() -> None:
    pair = beside()
    pair.replace_broker("elsewhere")
    pass_time(pair, 200)
    assert held(pair) == ALL


def test_one_broker_that_does_not_answer_keeps_every_offset() -> None:
    pair = beside()
    pair.find(2)
    delete(pair)
    pass_time(pair, 200)
    assert held(pair) == ALL
    pair.find()
    pass_time(pair, 30)
    assert held(pair) == OTHERS


def pair_health(pair: Pair) -> dict[str, int]:
    node = pair.ask_inside(DescribeNode())
    assert isinstance(node, DescribeNodeReply)
    return dict(node.gauges)


def test_many_offsets_are_forgotten_a_slice_at_a_time() -> None:
    pair = beside()
    make_topic(pair, "wide", 2_000)
    for group in ("a", "b", "c"):
        for part in range(0, 2_000, 1_000):
            pair.ask(1, wide_commit(group, range(part, part + 1_000)), 8)
    forgetting = OffsetCleanup()
    now_ms = pair.moment.wall_ms
    assert forgetting.add([DeletedTopicRecord("wide", OLD, 0, over_wall_ms=now_ms + 1)])
    assert not forgetting.add([DeletedTopicRecord("orders", OLD, 0, over_wall_ms=now_ms + 1)])
    slices = 0
    while forgetting.run(pair.node.core.shards, pair.moment) is not None:
        slices += 1
    assert slices == 3
    assert held(pair) == OTHERS


def wide_commit(group: str, partitions: range) -> OffsetCommit:
    return OffsetCommit(group, (OffsetCommitTopic("wide", tuple(OffsetCommitPartition(n, 1) for n in partitions)),))

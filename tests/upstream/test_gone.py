"""Topics that are deleted at the cluster: when it is believed, and what becomes of the offsets committed for them."""

from typing import Any

import pytest

from coordinator.gateway.brokers import Brokers
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.deleted_topics import NEVER, AbsentTopic, DeletedTopics
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
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)
from tests.upstream.pair import Pair
from tests.upstream.test_node import commit, committed, make_topic, paired

OLD, NEW = b"1" * 16, b"2" * 16
AFTER_MS = 60_000


def deleted_topics(after_ms: int = AFTER_MS) -> DeletedTopics:
    deleted = DeletedTopics(after_ms, 0)
    deleted.in_cluster("c")
    return deleted


def said(error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID, cluster: str = "c", topic_id: bytes = OLD) -> MetadataReply:
    return MetadataReply(cluster_id=cluster, topics=(MetadataTopicReply(None, topic_id, error),))


def ask(deleted: DeletedTopics, now_ms: int, *answers: MetadataReply | None) -> list[AbsentTopic]:
    """A round of questions to as many brokers as there are answers."""
    question = deleted.to_ask(now_ms)
    assert question is not None
    deleted.answered(question, list(answers), now_ms)
    return deleted.take_deleted()


def test_a_topic_is_gone_when_all_brokers_have_said_so_for_long_enough() -> None:
    deleted = deleted_topics()
    assert deleted.to_ask(0) is None
    deleted.watch("t", OLD, 0)
    assert deleted.to_ask(0) == Metadata((MetadataTopic(None, OLD),))
    assert ask(deleted, 30_000, said(), said()) == []
    assert ask(deleted, 59_999, said(), said()) == []
    (topic,) = ask(deleted, 60_000, said(), said())
    assert (topic.name, topic.topic_id) == ("t", OLD)
    assert len(deleted) == 0


def test_brokers_are_asked_no_more_often_than_topics_are_listed() -> None:
    deleted = DeletedTopics(AFTER_MS, 10_000)
    deleted.watch("t", OLD, 0)
    asks = [now_ms for now_ms in range(0, 30_001, 1_000) if deleted.to_ask(now_ms) is not None]
    assert asks == [0, 10_000, 20_000, 30_000]


def test_once_is_not_enough() -> None:
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    assert ask(deleted, 500_000, said()) == []
    assert len(ask(deleted, 500_001, said())) == 1


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
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    for round_ in range(10):
        assert ask(deleted, 100_000 * round_, said(), doubt) == []
    assert len(deleted) == 1


def test_a_topic_that_could_not_be_seen_begins_anew_to_be_gone() -> None:
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    assert ask(deleted, 30_000, said()) == []
    assert ask(deleted, 50_000, said(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) == []
    assert ask(deleted, 100_000, said()) == []
    assert ask(deleted, 109_999, said()) == []
    assert len(ask(deleted, 110_000, said())) == 1


def test_without_brokers_nothing_is_gone() -> None:
    deleted = deleted_topics(after_ms=0)
    deleted.watch("t", OLD, 0)
    assert ask(deleted, 1) == []
    assert ask(deleted, 2) == []


def test_a_topic_that_is_found_is_not_gone() -> None:
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    deleted.found(OLD)
    assert deleted.to_ask(0) is None


def test_nor_is_one_that_every_broker_has() -> None:
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    assert ask(deleted, 1, said(ErrorCode.NONE), said(ErrorCode.NONE)) == []
    assert OLD not in deleted


def test_another_cluster_says_nothing_of_what_is_gone() -> None:
    deleted = deleted_topics()
    deleted.watch("t", OLD, 0)
    deleted.in_cluster("c")
    assert len(deleted) == 1
    deleted.in_cluster("d")
    assert len(deleted) == 0


def test_who_wants_to_keep_all_keeps_all() -> None:
    deleted = deleted_topics(after_ms=NEVER)
    deleted.compare([{OLD: "t", NEW: "u"}], {NEW}, 0)
    assert deleted.to_ask(0) is None
    deleted.watch("t", OLD, 0)
    assert [ask(deleted, now_ms, said()) for now_ms in (100_000, 200_000)] == [[], []]
    assert len(deleted) == 0


def test_stored_topics_that_the_list_lacks_are_watched() -> None:
    deleted = deleted_topics()
    deleted.compare([{}, {OLD: "t", NEW: "u"}], {NEW}, 0)
    assert OLD in deleted
    assert NEW not in deleted


def test_a_cluster_that_has_none_of_the_stored_topics_proves_nothing() -> None:
    deleted = deleted_topics()
    deleted.compare([{OLD: "t"}], {b"3" * 16}, 0)
    assert len(deleted) == 0
    deleted.compare([{OLD: "t"}], {OLD}, 0)
    deleted.compare([{OLD: "t"}], set(), 0)
    assert OLD in deleted
    deleted.in_cluster("d")
    deleted.compare([{OLD: "t"}], set(), 0)
    assert len(deleted) == 0


# ----------------------------------------------------------------------------------------------- the list of topics


def described(topic_id: bytes) -> MetadataReply:
    topic = MetadataTopicReply("t", topic_id, partitions=(MetadataPartitionReply(0, 1),))
    return MetadataReply(cluster_id="c", topics=(topic,))


def listed_topics() -> UpstreamTopics:
    brokers = Brokers(1 << 20, 1_000)
    brokers.found((), 0)
    topics = UpstreamTopics(brokers, deleted_topics())
    topics.learn_all(described(OLD), 0)
    return topics


def test_a_topic_that_another_has_replaced_does_not_come_back() -> None:
    topics = listed_topics()
    topics.learn(described(NEW), 1)
    topics.learn(described(OLD), 2)
    assert (topics.id_of("t"), topics.id_to_record("t")) == (NEW, NEW)
    assert (topics.name_of(NEW), topics.name_of(OLD)) == ("t", None)


def test_unless_every_broker_has_it() -> None:
    topics = listed_topics()
    topics.learn(described(NEW), 1)
    ask(topics.deleted, 2, said(ErrorCode.NONE), said(ErrorCode.NONE))
    topics.learn(described(OLD), 3)
    assert topics.id_of("t") == OLD
    assert NEW in topics.deleted


@pytest.mark.parametrize("reply", [None, described(NO_TOPIC_ID)])
def test_an_answer_without_ids_leaves_open_which_topic_a_commit_is_for(reply: MetadataReply | None) -> None:
    topics = listed_topics()
    topics.observe(reply, 1)
    assert topics.id_of("t") == OLD
    assert topics.id_to_record("t") == NO_TOPIC_ID
    assert topics.to_ask([("t", NO_TOPIC_ID, 0)], 1) == ()
    (question,) = topics.to_ask([("t", NO_TOPIC_ID, 0)], 1, needs_ids=True)
    assert question == Metadata((MetadataTopic("t"),))
    topics.on_answers([(question, described(NEW))], 2)
    assert topics.id_to_record("t") == NEW
    assert topics.to_ask([("t", NO_TOPIC_ID, 0)], 2, needs_ids=True) == ()


def test_a_cluster_that_does_not_answer_is_not_asked_again_for_an_id() -> None:
    topics = listed_topics()
    topics.observe(None, 1)
    (question,) = topics.to_ask([("t", NO_TOPIC_ID, 0)], 1, needs_ids=True)
    topics.on_answers([(question, None)], 2)
    assert topics.to_ask([("t", NO_TOPIC_ID, 0)], 2, needs_ids=True) == ()
    assert topics.id_to_record("t") == NO_TOPIC_ID


def test_a_cluster_without_ids_is_asked_once() -> None:
    topics = listed_topics()
    topics.learn_all(described(NO_TOPIC_ID), 1)
    assert topics.to_ask([("t", NO_TOPIC_ID, 0)], 2, needs_ids=True) == ()


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
    pair.node.topics.learn(behind, pair.now_ms)
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


def test_offsets_of_a_topic_that_was_deleted_while_the_node_was_down_go_too() -> None:
    pair = beside()
    pair.front.node.core.store.close(pair.front.node.snapshots())
    delete(pair)
    pair.front.node = pair.front._begin()
    pair.front.rest()
    pair.find()
    pass_time(pair, 59)
    assert held(pair) == ALL
    pass_time(pair, 30)
    assert held(pair) == OTHERS


def test_offsets_of_one_that_was_made_anew_meanwhile_are_told_nobody() -> None:
    pair = beside()
    pair.front.node.core.store.close(pair.front.node.snapshots())
    delete(pair)
    make_topic(pair)
    pair.front.node = pair.front._begin()
    pair.front.rest()
    assert held(pair) == ALL
    pair.find()
    pair.wait(1_000)
    assert held(pair) == OTHERS


def test_a_reader_whose_metadata_has_no_ids_is_told_no_offset_of_the_old_topic_either() -> None:
    pair = beside()
    delete(pair)
    make_topic(pair)
    pair.ask(1, Metadata((MetadataTopic("orders"),)), 9)
    named = OffsetFetchGroup("g", topics=(OffsetFetchTopic("orders", (0, 1)),))
    reply = pair.ask(1, OffsetFetch((named,)), 8)
    assert isinstance(reply, OffsetFetchReply)
    assert [part.committed_offset for part in reply.groups[0].topics[0].partitions] == [-1, -1]


def test_an_offset_whose_topic_was_not_known_is_for_whichever_has_the_name() -> None:
    pair = beside()
    make_topic(pair, "unheard")
    pair.is_cut = True
    pair.away()
    assert committed(pair, commit("unheard", 0, 7)) is ErrorCode.NONE
    pair.is_cut = False
    pair.find()
    for _ in range(2):
        pass_time(pair, 20)
        assert held(pair) == {("unheard", 0): 7, **ALL}
        delete(pair, "unheard")
        make_topic(pair, "unheard")
    pass_time(pair, 100)
    assert held(pair) == {("unheard", 0): 7, **ALL}


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
        for part in range(0, 2_000, 500):
            pair.ask(1, wide_commit(group, range(part, part + 500)), 8)
    forgetting = OffsetCleanup()
    wide, orders = (pair.node.topics.id_of(name) or b"" for name in ("wide", "orders"))
    assert forgetting.add([AbsentTopic("wide", wide, 0)])
    assert not forgetting.add([AbsentTopic("orders", orders, 0)])
    slices = 0
    while forgetting.run(pair.node.core.shards, pair.moment) is not None:
        slices += 1
    assert slices == 3
    assert held(pair) == OTHERS


def wide_commit(group: str, partitions: range) -> OffsetCommit:
    return OffsetCommit(group, (OffsetCommitTopic("wide", tuple(OffsetCommitPartition(n, 1) for n in partitions)),))

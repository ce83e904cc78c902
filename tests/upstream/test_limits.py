"""A node beside a broker that has enough to do: what it does not ask, does not take over and does not keep."""

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config.config import Config
from coordinator.gateway.effects import UpstreamRequest
from coordinator.gateway.offsets.log_ends import Ends
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.groups import JoinGroupReply
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
    OffsetFetch,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataReply, MetadataTopic
from tests.upstream import test_migration as migrating
from tests.upstream import test_node as beside
from tests.upstream.pair import Pair
from tests.upstream.test_ends import LATEST, NOW_MS, answer, asked, leader_1, nobody
from tests.upstream.test_migration import FETCH, JOIN, joined
from tests.upstream.test_node import ENDS, commit, committed, make_topic

NATIVE, FIRST = 5, 6


# ------------------------------------------------------------------------------------------ as many questions as may be


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.upstream_requests.REQUESTS_MAX", 1)


def full(pair: Pair) -> Pair:
    """A question is under way."""
    for number in (NATIVE, FIRST):
        pair.connect_natively(number)
    pair.holds_questions = True
    pair.send_natively(FIRST, Metadata((MetadataTopic("elsewhere"),)))
    assert len(pair.questions) == 1
    return pair


@pytest.mark.usefixtures("most")
def test_beyond_them_a_commit_is_served_with_what_is_known() -> None:
    pair = full(beside.paired())
    assert committed(pair, commit("ghosts")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(pair.questions) == 1


@pytest.mark.usefixtures("most")
def test_beyond_them_nobody_is_told_news_of_topics() -> None:
    pair = full(beside.paired())
    told = pair.ask_natively(NATIVE, Metadata((MetadataTopic("ghosts"),)))
    assert isinstance(told, MetadataReply)
    assert told.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(pair.questions) == 1


@pytest.mark.usefixtures("most")
def test_beyond_them_nothing_is_handed_on() -> None:
    pair = full(beside.paired())
    pair.ask_natively(NATIVE, CreateTopics((CreatableTopic("new", 1, 1),)))
    assert len(pair.questions) == 1
    pair.holds_questions = False
    pair.run()
    assert not any(isinstance(question.message, CreateTopics) for question in pair.asked)


@pytest.mark.usefixtures("most")
def test_beyond_them_no_group_is_met() -> None:
    pair = full(migrating.paired())
    assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(pair.questions) == 1


def test_beyond_them_ends_are_those_last_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = beside.paired()
    make_topic(pair)
    pair.ask_inside(ENDS)
    full(pair)
    monkeypatch.setattr("coordinator.gateway.upstream_requests.REQUESTS_MAX", 1)
    told = pair.ask_inside(ENDS)
    assert isinstance(told, ListOffsetsReply)
    assert [part.offset for part in told.topics[0].partitions] == [0, 0]
    assert len(pair.questions) == 1


# -------------------------------------------------------------------------------------------------- no room for a group


def test_a_group_for_which_there_is_no_room_is_not_taken_over() -> None:
    pair = migrating.paired(max_groups=1)
    first = pair.ask(1, replace(JOIN, group_id="h"), 3)
    assert isinstance(first, JoinGroupReply)
    assert first.error_code is ErrorCode.NONE
    assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert migrating.inside(pair) == [-1, -1]


@pytest.mark.parametrize("limit", [{"max_held_replies": 0}, {"max_unflushed_bytes": 0}])
def test_nor_is_one_while_too_much_waits_for_the_disk(limit: dict[str, Any]) -> None:
    pair = migrating.paired()
    core = pair.node.core
    usual, core.config = core.config, Config(**limit)
    assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert migrating.inside(pair) == [-1, -1]
    core.config = usual
    pair.wait(1_000)
    assert joined(pair).error_code is ErrorCode.NONE
    assert migrating.offsets(pair) == [-1, 42]


# ------------------------------------------------------------------------------------------------------- what is kept


def test_topics_that_are_not_there_are_kept_in_mind_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.cluster_topics._MOST_ABSENT", 5)
    pair = beside.paired()
    for number in range(20):
        committed(pair, commit(f"ghosts-{number}"))
    assert len(pair.node.topics._absent) <= 6


def test_and_so_are_those_that_somebody_wanted_news_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gateway.cluster_topics._MOST_ABSENT", 5)
    pair = beside.paired()
    pair.connect_natively(NATIVE)
    for number in range(20):
        pair.ask_natively(NATIVE, Metadata((MetadataTopic(f"ghosts-{number}"),)))
    assert len(pair.node.topics._asked) <= 6


@pytest.mark.parametrize(("has_members", "remembered"), [(False, "_without_offsets"), (True, "_rejections")])
def test_and_groups_that_the_cluster_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, has_members: bool, remembered: str
) -> None:
    monkeypatch.setattr("coordinator.gateway.migration._MAX_REMEMBERED", 5)
    pair = migrating.paired(has_offsets=False)
    for number in range(20):
        group_id = f"g-{number}"
        if has_members:
            pair.ask_broker(replace(JOIN, group_id=group_id), 3)
        pair.ask(1, OffsetFetch((replace(FETCH.groups[0], group_id=group_id),)), 8)
    assert 0 < len(getattr(pair.node.migration, remembered)) <= 5


# ------------------------------------------------------------------------------------------------------- who is asked


def test_a_broker_that_answers_again_is_asked_again_at_once() -> None:
    ends = Ends()
    ends.learn(asked(LATEST), None, NOW_MS)
    silent = ends.to_ask(LATEST, leader_1, nobody, NOW_MS + 1)
    ends.learn(asked(LATEST), answer(7), NOW_MS + 1)
    assert (silent[0], len(ends.to_ask(LATEST, leader_1, nobody, NOW_MS + 1)[0])) == ((), 1)


class Moved(Pair):
    """A pair whose broker leads nothing any more, and does not say so in Metadata."""

    def _answer(self, question: UpstreamRequest) -> Message | None:
        if not isinstance(question.message, ListOffsets):
            return super()._answer(question)
        return ListOffsetsReply(
            tuple(
                ListOffsetsTopicReply(
                    topic.name,
                    tuple(
                        ListOffsetsPartitionReply(part.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                        for part in topic.partitions
                    ),
                )
                for topic in question.message.topics
            )
        )


def test_where_leaders_moved_topics_are_listed_once_a_second_however_many_ask() -> None:
    pair = Moved()
    pair.find()
    make_topic(pair)
    pair.wait(5_000)
    listed = []
    for _ in range(2):
        before = len(pair.asked)
        for _ in range(10):
            pair.wait(90)
            pair.ask_inside(ENDS)
        listed.append(sum(question.message == Metadata(None) for question in pair.asked[before:]))
        pair.wait(200)
    assert listed == [1, 1]


@pytest.mark.parametrize("version", [5, 9])
def test_of_a_group_whose_id_is_too_long_nobody_is_asked(version: int) -> None:
    pair = migrating.paired()
    asked_before = len(pair.asked)
    reply = pair.ask(1, replace(JOIN, group_id="g" * (LONGEST_GROUP_ID + 1)), version)
    assert isinstance(reply, JoinGroupReply)
    assert reply.error_code is ErrorCode.INVALID_GROUP_ID
    assert len(pair.asked) == asked_before and not pair.closed

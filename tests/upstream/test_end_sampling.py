"""Samples of log ends beside a cluster: the leaders are asked, and an end that nobody tells is not made up."""

from typing import Any

from coordinator.gateway.deleted_topics import NEVER
from coordinator.gateway.offsets.lookups import OffsetLookups
from coordinator.gateway.upstream_requests import DelayedUpstreamRequest
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.offsets import (
    EndSample,
    ListEndSamples,
    ListEndSamplesReply,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
)
from protocol.messages.topics import DeletableTopic, DeleteTopics
from tests.upstream.pair import Pair
from tests.upstream.test_node import batch, commit, committed, make_topic, paired

MINUTE_MS = 60_000


def samples(pair: Pair) -> list[EndSample]:
    reply = pair.ask_inside(ListEndSamples())
    assert isinstance(reply, ListEndSamplesReply)
    assert not reply.has_more
    return list(reply.samples)


def produce(pair: Pair, count: int) -> None:
    for _ in range(count):
        pair.ask_broker(Produce((ProduceTopic("orders", (ProducePartition(0, batch(b"record")),)),), acks=-1), 8)


def test_the_leaders_are_asked_for_the_ends() -> None:
    pair = paired()
    make_topic(pair)
    produce(pair, 7)
    assert committed(pair, commit(offset=5)) is ErrorCode.NONE
    pair.wait(MINUTE_MS)
    produce(pair, 2)
    pair.wait(MINUTE_MS)
    assert [(one.group_id, one.offsets, one.ends) for one in samples(pair)] == [
        ("g", {0: 5}, {0: 7}),
        ("g", {0: 5}, {0: 9}),
    ]


def test_a_cluster_that_cannot_be_reached_leaves_a_gap_that_ends_with_it() -> None:
    pair = paired()
    make_topic(pair)
    produce(pair, 7)
    assert committed(pair, commit(offset=5)) is ErrorCode.NONE
    pair.is_cut = True
    pair.away()
    pair.wait(MINUTE_MS)
    pair.wait(MINUTE_MS)
    assert samples(pair) == []
    pair.is_cut = False
    pair.find()
    pair.wait(MINUTE_MS)
    assert [one.ends for one in samples(pair)] == [{0: 7}]


def test_a_silent_leader_holds_up_no_later_pass() -> None:
    pair = paired()
    make_topic(pair)
    produce(pair, 7)
    assert committed(pair, commit(offset=5)) is ErrorCode.NONE
    pair.holds_questions = True
    pair.wait(MINUTE_MS)
    pair.wait(MINUTE_MS)
    assert samples(pair) == []
    pair.holds_questions = False
    pair.questions.clear()
    pair.wait(MINUTE_MS)
    pair.wait(MINUTE_MS)
    assert [one.ends for one in samples(pair)] == [{0: 7}]


def test_an_answer_of_the_last_second_serves_a_sample_too() -> None:
    pair = paired()
    make_topic(pair)
    produce(pair, 7)
    assert committed(pair, commit(offset=5)) is ErrorCode.NONE
    pair.ask_inside(ListOffsets((ListOffsetsTopic("orders", (ListOffsetsPartition(0),)),)))
    gateway = pair.node

    def never(*_: Any, **_by_name: Any) -> DelayedUpstreamRequest:
        raise AssertionError("a leader is asked")

    lookups = OffsetLookups(gateway.core, gateway.topics, gateway.upstream_requests, never)
    lookups.sample_ends(pair.moment)
    assert [one.ends for one in samples(pair)] == [{0: 7}]


def test_offsets_of_a_topic_that_was_made_anew_are_not_compared_with_its_log() -> None:
    hour_ms = 60 * MINUTE_MS
    pair = paired(ends_sample_interval_ms=hour_ms, upstream_topic_deleted_after_ms=NEVER)
    make_topic(pair)
    produce(pair, 7)
    assert committed(pair, commit(offset=5)) is ErrorCode.NONE
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)
    make_topic(pair)
    produce(pair, 2)
    pair.wait(hour_ms // 2)  # topics are listed anew
    pair.wait(hour_ms // 2)
    assert samples(pair) == []
    assert committed(pair, commit(offset=1)) is ErrorCode.NONE
    pair.wait(hour_ms)
    assert [(one.offsets, one.ends) for one in samples(pair)] == [({0: 1}, {0: 2})]

"""Offsets at the ends of the cluster's partitions: how old a reply may be, and how often leaders are asked."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.gateway.effects import UpstreamRequest
from coordinator.gateway.offsets.log_ends import SILENT_FOR_MS, Ends
from coordinator.gateway.upstream_requests import DelayedUpstreamRequest, PendingRequest, UpstreamRequests
from coordinator.node.events import Call as AskedInside
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    ListOffsetsTopicReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, DeletableTopic, DeleteTopics
from protocol.session import RequestRef
from tests.upstream.pair import Pair
from tests.upstream.test_node import ENDS, batch, make_topic, paired

NOW_MS = 50_000


def of(*parts: ListOffsetsPartition, isolation: int = 0, max_age_ms: int = 0) -> ListOffsets:
    return ListOffsets((ListOffsetsTopic("t", parts),), isolation, max_age_ms)


def answer(offset: int, error: ErrorCode = ErrorCode.NONE, partition: int = 0) -> ListOffsetsReply:
    return ListOffsetsReply(
        (ListOffsetsTopicReply("t", (ListOffsetsPartitionReply(partition, error, -1, offset, 3),)),)
    )


def tell(
    ends: Ends, message: ListOffsets, now_ms: int, delayed: DelayedUpstreamRequest | None = None
) -> ListOffsetsPartitionReply:
    return ends.reply(message, delayed, now_ms, lambda topic: 4).topics[0].partitions[0]


def asked(message: ListOffsets, broker: int = 1, asked_ms: int = NOW_MS) -> PendingRequest:
    return PendingRequest(message, broker, asked_ms)


LATEST = of(ListOffsetsPartition(0))
RECENT = of(ListOffsetsPartition(0), max_age_ms=1_000)


def leader_1(topic: str, partition: int) -> int:
    return 1


def nobody(call_id: int) -> None:
    return None


def test_an_end_is_as_old_as_the_question() -> None:
    ends = Ends()
    assert ends.learn(asked(LATEST), answer(7), NOW_MS + 400)
    told = tell(ends, LATEST, NOW_MS + 1_400)
    assert (told.offset, told.leader_epoch, told.age_ms) == (7, 3, 1_400)


def test_an_end_that_was_never_heard_is_not_known() -> None:
    told = tell(Ends(), LATEST, NOW_MS)
    assert (told.error_code, told.offset, told.age_ms) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)


def test_what_transactions_count_is_another_end() -> None:
    ends = Ends()
    ends.learn(asked(of(ListOffsetsPartition(0), isolation=1)), answer(5), NOW_MS)
    assert tell(ends, LATEST, NOW_MS).error_code is ErrorCode.LEADER_NOT_AVAILABLE


def test_of_times_whoever_asks_is_told_and_nothing_is_kept() -> None:
    effects: list[UpstreamRequest] = []
    ends, requests = Ends(), UpstreamRequests(5_000, effects.append)
    message = of(ListOffsetsPartition(0, 1_234))
    delayed = requests.send(((message, 1),), RequestRef(1, 1), message, Moment(NOW_MS, 0))
    ends.asked(delayed)
    delayed.answers = dict.fromkeys(delayed.answers, answer(3))
    ends.learn(delayed.requests[0], answer(3), NOW_MS)
    assert tell(ends, message, NOW_MS + 10, delayed).offset == 3
    assert tell(ends, message, NOW_MS).error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert not ends._known
    assert not ends._calls


def test_what_a_leader_refuses_is_told_unless_something_is_known() -> None:
    effects: list[UpstreamRequest] = []
    ends, requests = Ends(), UpstreamRequests(5_000, effects.append)
    delayed = requests.send(((LATEST, 1),), RequestRef(1, 1), LATEST, Moment(NOW_MS, 0))
    delayed.answers = dict.fromkeys(delayed.answers, answer(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert tell(ends, LATEST, NOW_MS, delayed).error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ends.learn(asked(LATEST, asked_ms=NOW_MS - 9), answer(6), NOW_MS)
    told = tell(ends, LATEST, NOW_MS, delayed)
    assert (told.offset, told.age_ms) == (6, 9)


def test_what_is_new_enough_is_not_asked_again() -> None:
    ends = Ends()
    ends.learn(asked(LATEST), answer(7), NOW_MS)
    assert ends.to_ask(RECENT, leader_1, nobody, NOW_MS + 1_000) == ((), ())
    assert ends.to_ask(RECENT, leader_1, nobody, NOW_MS + 1_001) == (((LATEST, 1),), ())
    assert ends.to_ask(LATEST, leader_1, nobody, NOW_MS) == (((LATEST, 1),), ())


def test_a_question_under_way_is_shared_while_it_is_new_enough() -> None:
    effects: list[UpstreamRequest] = []
    ends, requests = Ends(), UpstreamRequests(5_000, effects.append)
    ends.asked(requests.send(((LATEST, 1),), RequestRef(1, 1), LATEST, Moment(NOW_MS, 0)))
    (effect,) = effects
    assert ends.to_ask(RECENT, leader_1, requests.pending_request, NOW_MS + 900) == ((), (effect.call_id,))
    assert ends.to_ask(RECENT, leader_1, requests.pending_request, NOW_MS + 1_100) == (((LATEST, 1),), ())
    assert ends.to_ask(LATEST, leader_1, requests.pending_request, NOW_MS) == (((LATEST, 1),), ())


def test_a_broker_that_says_nothing_is_not_asked_for_a_while() -> None:
    ends = Ends()
    assert not ends.learn(asked(LATEST), None, NOW_MS)
    assert ends.to_ask(LATEST, leader_1, nobody, NOW_MS + SILENT_FOR_MS) == ((), ())
    assert ends.to_ask(LATEST, leader_1, nobody, NOW_MS + SILENT_FOR_MS + 1) == (((LATEST, 1),), ())
    assert ends.to_ask(LATEST, lambda topic, partition: 2, nobody, NOW_MS) == (((LATEST, 2),), ())


def test_a_leader_that_is_none_any_more_is_noticed() -> None:
    ends = Ends()
    assert not ends.learn(asked(LATEST), answer(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), NOW_MS)
    assert ends.learn(asked(LATEST), answer(-1, ErrorCode.OFFSET_NOT_AVAILABLE), NOW_MS)


def test_ten_thousand_partitions_are_one_question_a_leader() -> None:
    parts = tuple(ListOffsetsPartition(number) for number in range(10_000))
    asks, joined = Ends().to_ask(of(*parts), lambda topic, partition: partition % 3, nobody, NOW_MS)
    assert joined == ()
    assert [(broker, len(question.topics[0].partitions)) for question, broker in asks] == [
        (0, 3_334),
        (1, 3_333),
        (2, 3_333),
    ]


# ------------------------------------------------------------------------------------------------------ beside a broker

SOON = replace(ENDS, max_age_ms=1_000)


def told(pair: Pair, message: ListOffsets = ENDS) -> list[tuple[int, int]]:
    reply = pair.ask_inside(message)
    assert isinstance(reply, ListOffsetsReply)
    return [(part.offset, part.age_ms) for part in reply.topics[0].partitions]


def produce(pair: Pair) -> None:
    pair.ask_broker(Produce((ProduceTopic("orders", (ProducePartition(0, batch(b"x")),)),), -1), 9)


def test_while_the_cluster_is_away_ends_stay_and_grow_old_and_then_they_are_new_again() -> None:
    pair = paired()
    make_topic(pair)
    produce(pair)
    assert told(pair) == [(1, 0), (0, 0)]
    pair.is_cut = True
    pair.away()
    produce(pair)
    pair.wait(12_000)
    assert told(pair) == [(1, 12_000), (0, 12_000)]
    pair.wait(3_000)
    assert told(pair) == [(1, 15_000), (0, 15_000)]
    pair.is_cut = False
    pair.find()
    assert told(pair) == [(2, 0), (0, 0)]


def test_a_cluster_that_is_not_known_to_be_away_yet_holds_nobody_up_twice() -> None:
    pair = paired(upstream_ask_timeout_ms=3_000)
    make_topic(pair)
    told(pair)
    pair.wait(2_000)
    pair.holds_questions = True
    pair.front.step(pair_asks(1))
    pair.wait(3_000)
    late = pair.replied.pop(1)
    assert isinstance(late, ListOffsetsReply)
    assert [part.age_ms for part in late.topics[0].partitions] == [5_000, 5_000]
    assert told(pair) == [(0, 5_000), (0, 5_000)]


def test_many_who_ask_at_once_are_one_question() -> None:
    pair = paired()
    make_topic(pair)
    told(pair)
    pair.wait(5_000)
    before = len(pair.asked)
    pair.holds_questions = True
    for number in range(50):
        pair.front.step(pair_asks(number))
    pair.holds_questions = False
    pair.run()
    assert len(pair.replied) == 50
    assert len(pair.asked) == before + 1
    pair.wait(900)
    assert told(pair, SOON) == [(0, 900), (0, 900)]
    assert len([one for one in pair.asked[before:] if isinstance(one.message, ListOffsets)]) == 1


def pair_asks(number: int) -> AskedInside:
    return AskedInside(number, SOON)


def test_a_topic_made_anew_has_none_of_the_old_ones_ends() -> None:
    pair = paired(upstream_metadata_max_age_ms=10_000)
    make_topic(pair)
    produce(pair)
    told(pair)
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    for _ in range(11):
        pair.wait(1_000)
    pair.holds_questions = True
    pair.away()
    reply = pair.ask_inside(ENDS)
    assert isinstance(reply, ListOffsetsReply)
    assert {part.error_code for part in reply.topics[0].partitions} == {ErrorCode.LEADER_NOT_AVAILABLE}

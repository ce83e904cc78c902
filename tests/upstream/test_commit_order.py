"""Commits of one native connection are stored in their order, whatever one of them waits for."""

from coordinator.gateway.commit_order import CommitOrder
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.session import RequestRef
from tests.upstream.pair import Pair


def commit(offset: int, *topics: str, group: str = "g") -> OffsetCommit:
    part = OffsetCommitPartition(0, offset)
    return OffsetCommit(group, tuple(OffsetCommitTopic(topic, (part,)) for topic in topics))


def committed(pair: Pair, topic: str) -> int:
    reply = pair.ask_natively(1, OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic(topic, (0,)),)),)))
    assert isinstance(reply, OffsetFetchReply)
    return reply.groups[0].topics[0].partitions[0].committed_offset


def test_a_newer_commit_does_not_overtake_one_that_waits_for_the_cluster() -> None:
    pair = Pair()
    pair.find()
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 1, 1), CreatableTopic("parcels", 1, 1))), 7)
    pair.connect_natively(1)
    pair.ask_natively(1, commit(1, "orders"))
    pair.connect_natively(2)
    pair.holds_questions = True
    pair.send_natively(2, commit(5, "orders", "parcels"))  # parcels is asked for
    pair.send_natively(2, commit(6, "orders"))
    pair.send_natively(2, commit(7, "orders"))
    assert pair.heard[2] == []
    pair.holds_questions = False
    pair.run()
    replies = pair.heard[2]
    assert len(replies) == 3
    for reply in replies:
        assert isinstance(reply, OffsetCommitReply)
        assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE
    assert committed(pair, "orders") == 7


def test_nobody_waits_longer_than_one_question_may_take() -> None:
    pair = Pair(upstream_ask_timeout_ms=1_000)
    pair.find()
    pair.connect_natively(1)
    pair.ask_natively(1, commit(1, "orders"))
    pair.holds_questions = True
    for number in range(5):  # each asks for another topic, all at the same time
        pair.send_natively(1, commit(number, f"unheard-{number}"))
    pair.wait(1_000)
    assert len(pair.heard[1]) == 5


def test_others_go_on_meanwhile() -> None:
    turns, waiting = CommitOrder(), commit(5, "parcels")
    turns.start(RequestRef(1, 1), waiting)
    assert not turns.enqueue_behind(RequestRef(2, 1), commit(6, "orders"))  # another client
    assert not turns.enqueue_behind(RequestRef(1, 2), commit(6, "orders", group="other"))
    assert turns.enqueue_behind(RequestRef(1, 3), commit(6, "orders"))
    assert turns.finish(RequestRef(1, 1), waiting) == [
        (RequestRef(1, 1), waiting),
        (RequestRef(1, 3), commit(6, "orders")),
    ]
    assert not turns.enqueue_behind(RequestRef(1, 4), commit(7, "orders"))


def test_an_answer_that_comes_first_is_kept_until_it_is_its_turn() -> None:
    turns, older, newer = CommitOrder(), commit(5, "parcels"), commit(6, "letters")
    turns.start(RequestRef(1, 1), older)
    turns.start(RequestRef(1, 2), newer)
    assert turns.finish(RequestRef(1, 2), newer) == []
    assert turns.finish(RequestRef(1, 1), older) == [(RequestRef(1, 1), older), (RequestRef(1, 2), newer)]

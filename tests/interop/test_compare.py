"""Differences between two servers."""

import pytest

from interop.compare.__main__ import MEANT, unmeant
from interop.compare.pair import cleaned, differences, versions_of
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup, DeleteGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetCommit
from protocol.messages.topics import CreatedTopic, CreateTopicsReply


def test_ids_sentences_and_the_order_of_lists_are_no_differences() -> None:
    kafka = DeleteGroupsReply((DeletedGroup("a", ErrorCode.NONE), DeletedGroup("b", ErrorCode.NON_EMPTY_GROUP)))
    muster = DeleteGroupsReply(tuple(reversed(kafka.results)))
    assert not list(differences(cleaned(kafka), cleaned(muster)))
    theirs = CreateTopicsReply((CreatedTopic("t", b"\1" * 16, error_message="one"),))
    ours = CreateTopicsReply((CreatedTopic("t", b"\2" * 16, error_message="two"),))
    assert not list(differences(cleaned(theirs), cleaned(ours)))


def test_a_topic_without_an_id_is_not_one_with_one() -> None:
    theirs, ours = (CreateTopicsReply((CreatedTopic("t", one),)) for one in (b"\1" * 16, bytes(16)))
    assert list(differences(cleaned(theirs), cleaned(ours))) == ["topics[0].topic_id: Kafka ID, Muster None"]


@pytest.mark.parametrize(
    ("kafka", "muster", "sentence"),
    [
        (
            HeartbeatReply(),
            HeartbeatReply(ErrorCode.ILLEGAL_GENERATION),
            "error_code: Kafka NONE, Muster ILLEGAL_GENERATION",
        ),
        ("hangs up", "says nothing", "the answer: Kafka hangs up, Muster says nothing"),
    ],
)
def test_a_difference_says_where_it_is(kafka: object, muster: object, sentence: str) -> None:
    assert list(differences(cleaned(kafka), cleaned(muster))) == [sentence]


def test_only_versions_that_both_speak_are_asked() -> None:
    assert versions_of(Heartbeat("g", 1, "m")) == [0, 1, 2, 3, 4]
    assert versions_of(OffsetCommit("g", ()))[0] == 2


def test_what_is_meant_has_its_reason_and_hides_nothing_else() -> None:
    assert all(MEANT.values())
    meant = {("fetch", "responses[0].partitions[0].high_watermark: Kafka -1, Muster 20"): [4]}
    other = {("fetch", "responses[0].partitions[0].error_code: Kafka NONE, Muster OFFSET_OUT_OF_RANGE"): [4]}
    assert list(unmeant(meant)) == []
    assert [versions for _, versions in unmeant(other)] == [[4]]

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from coordinator.config.config import Config
from coordinator.core.core import Core
from coordinator.facts.views import describe_group, describe_node, list_group
from coordinator.handlers.end_transaction import end_transaction
from coordinator.handlers.offset_commit import offset_commit
from coordinator.handlers.offset_delete import offset_delete
from coordinator.handlers.offset_fetch import offset_fetch
from coordinator.handlers.table import HANDLERS, INTERNAL_HANDLERS
from coordinator.handlers.txn_offset_commit import txn_offset_commit
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import ListSuspects
from protocol.messages.node import Measure
from protocol.messages.offsets import (
    EndTransaction,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from protocol.messages.topics import NO_TOPIC_ID
from protocol.native.methods import METHODS
from protocol.session import RequestRef
from tests.groups.bench import join
from tests.transcripts.rig import Rig

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
REF = RequestRef(77, 1)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig(Config(offsets_topic_num_partitions=2), lambda line: None, lambda *answered: None) as made:
        yield made


@pytest.fixture
def core(rig: Rig) -> Core:
    return rig.node.core


def asked(rig: Rig, handler: Any, message: Message) -> Any:
    """Return the handler's reply, held or not."""
    outbox = rig.node.core.outbox
    handler(rig.node.core, REF, message, rig.moment)
    outbox.release(2**62)
    found = [reply for ref, reply in outbox.ready if ref == REF]
    outbox.ready.clear()
    assert len(found) == 1
    return found[0]


def commit(*places: tuple[str, int]) -> OffsetCommit:
    return OffsetCommit(
        "g", tuple(OffsetCommitTopic(topic, (OffsetCommitPartition(index, 9),)) for topic, index in places)
    )


def errors(reply: Any) -> list[tuple[str, int, ErrorCode]]:
    return [(t.name, p.partition_index, p.error_code) for t in reply.topics for p in t.partitions]


def test_every_message_that_is_served_is_a_method() -> None:
    assert {message.__name__ for message in HANDLERS} == METHODS.keys() - {"Hello", "Login"}


def test_a_commit_is_answered_in_its_own_order_with_what_does_not_exist_between(rig: Rig) -> None:
    reply = asked(rig, offset_commit, commit(("t", 1), ("nowhere", 0), ("t", 99), ("t", 0), ("t", -1)))
    assert errors(reply) == [
        ("t", 1, NONE),
        ("nowhere", 0, UNKNOWN),
        ("t", 99, UNKNOWN),
        ("t", 0, NONE),
        ("t", -1, UNKNOWN),
    ]


def test_a_commit_of_nothing_that_exists_makes_no_group(rig: Rig) -> None:
    assert errors(asked(rig, offset_commit, commit(("nowhere", 0)))) == [("nowhere", 0, UNKNOWN)]
    assert rig.node.core.find("g")[1] is None


def test_what_is_fetched_by_name_comes_in_the_order_asked_with_minus_one_for_nothing(rig: Rig) -> None:
    asked(rig, offset_commit, commit(("t", 1)))
    topics = (OffsetFetchTopic("t", (2, 1)), OffsetFetchTopic("nowhere", (0,)))
    reply = asked(rig, offset_fetch, OffsetFetch((OffsetFetchGroup("g", topics), OffsetFetchGroup("absent"))))
    found = [(t.name, p.partition_index, p.committed_offset) for t in reply.groups[0].topics for p in t.partitions]
    assert found == [("t", 2, -1), ("t", 1, 9), ("nowhere", 0, -1)]
    assert reply.groups[1].topics == ()


def test_a_deletion_of_partitions_is_answered_in_its_own_order(rig: Rig) -> None:
    asked(rig, offset_commit, commit(("t", 1)))
    request = OffsetDelete("g", (OffsetDeleteTopic("nowhere", (0,)), OffsetDeleteTopic("t", (99, 1, 0))))
    reply = asked(rig, offset_delete, request)
    assert errors(reply) == [("nowhere", 0, UNKNOWN), ("t", 99, UNKNOWN), ("t", 1, NONE), ("t", 0, NONE)]
    assert rig.node.core.find("g")[0].offsets.get("g", "t", 1) is None


def test_a_group_that_is_not_there_is_shown_dead_with_or_without_an_error(core: Core) -> None:
    shown = describe_group("g", None, 7, absent_is_error=True)
    assert (shown.group_state, shown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert shown.error_message is not None and "g" in shown.error_message
    assert describe_group("g", None, 7, absent_is_error=False).error_code is NONE


def test_a_group_is_shown_as_it_stands(rig: Rig) -> None:
    rig.send(rig.open_link(), join(group_instance_id="i"))
    group = rig.node.core.find("g")[1]
    assert group is not None
    shown = describe_group("g", group, 7, absent_is_error=True)
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(m.member_id, m.group_instance_id, m.client_host, m.member_metadata) for m in shown.members] == [
        ("i-1", "i", "/10.0.0.1", b"")
    ]
    assert list_group(group).group_state == "PreparingRebalance"
    numbers = describe_node(rig.node.core)
    assert numbers.group_states["PreparingRebalance"] == 1
    assert (numbers.gauges["groups"], numbers.gauges["members"], numbers.shards_loaded) == (1, 1, 2)


# --- topics by id (docs/spec/group-protocol.md#2.5, #2.6) ---


def id_of(core: Core, name: str) -> bytes:
    found = core.topics.id_of(name)
    assert found is not None and core.topics.name_of(found) == name
    return found


STRANGE = b"no such topic id"


def by_id(topic_id: bytes, *indexes: int) -> OffsetCommitTopic:
    return OffsetCommitTopic("", tuple(OffsetCommitPartition(index, 9) for index in indexes), topic_id)


def test_a_commit_by_id_is_stored_under_the_name_and_answered_by_id(rig: Rig, core: Core) -> None:
    known = id_of(core, "t")
    topics = (by_id(known, 1, 99), by_id(STRANGE, 0), by_id(NO_TOPIC_ID, 0), OffsetCommitTopic("foo", ()))
    for _ in ("the first makes the group", "the second finds it"):
        reply = asked(rig, offset_commit, OffsetCommit("g", topics))
        assert [(t.name, t.topic_id) for t in reply.topics] == [
            ("", known),
            ("", STRANGE),
            ("", NO_TOPIC_ID),
            ("foo", NO_TOPIC_ID),
        ]
        assert errors(reply) == [
            ("", 1, NONE),
            ("", 99, UNKNOWN),
            ("", 0, ErrorCode.UNKNOWN_TOPIC_ID),
            ("", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
    assert list(core.shard_of("g").offsets.partitions("g")) == [("t", 1)]


def test_a_commit_by_id_alone_that_nobody_has_never_reaches_the_group(rig: Rig, core: Core) -> None:
    reply = asked(rig, offset_commit, OffsetCommit("g", (by_id(STRANGE, 0, 1),)))
    assert errors(reply) == [("", 0, ErrorCode.UNKNOWN_TOPIC_ID), ("", 1, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert core.find("g")[1] is None


def test_a_refusal_of_the_group_stands_on_what_exists_alone(rig: Rig, core: Core) -> None:
    request = OffsetCommit("g", (by_id(id_of(core, "t"), 0), by_id(STRANGE, 0)), generation_id=3)
    assert errors(asked(rig, offset_commit, request)) == [
        ("", 0, ErrorCode.GROUP_ID_NOT_FOUND),
        ("", 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def fetched(rig: Rig, *topics: OffsetFetchTopic, everything: bool = False, wants_ids: bool = True) -> list[object]:
    """Name, id, and (partition, offset, error) of each topic."""
    group = OffsetFetchGroup("g", None if everything else topics, wants_topic_ids=wants_ids)
    (found,) = asked(rig, offset_fetch, OffsetFetch((group,))).groups
    return [
        (t.name, t.topic_id, [(p.partition_index, p.committed_offset, p.error_code) for p in t.partitions])
        for t in found.topics
    ]


def test_a_fetch_by_id_is_answered_by_id(rig: Rig, core: Core) -> None:
    t, foo = id_of(core, "t"), id_of(core, "foo")
    asked(rig, offset_commit, commit(("t", 1)))
    assert fetched(
        rig,
        OffsetFetchTopic("", (1, 2), t),
        OffsetFetchTopic("", (0,), foo),
        OffsetFetchTopic("", (0, 1), STRANGE),
        OffsetFetchTopic("", (0,), NO_TOPIC_ID),
        OffsetFetchTopic("t", (1,)),
    ) == [
        ("", t, [(1, 9, NONE), (2, -1, NONE)]),
        ("", foo, [(0, -1, NONE)]),
        ("", STRANGE, [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID), (1, -1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ("", NO_TOPIC_ID, [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ("t", t, [(1, 9, NONE)]),
    ]


def test_everything_by_id_leaves_out_topics_that_are_gone(rig: Rig, core: Core) -> None:
    asked(rig, offset_commit, commit(("t", 1), ("foo", 0)))
    with patch.object(core.topics, "id_of", {"t": id_of(core, "t")}.get):
        assert fetched(rig, everything=True) == [("t", id_of(core, "t"), [(1, 9, NONE)])]
    assert fetched(rig, everything=True, wants_ids=False) == [
        ("t", NO_TOPIC_ID, [(1, 9, NONE)]),
        ("foo", NO_TOPIC_ID, [(0, 9, NONE)]),
    ]


# --- transactions, from inside the process alone (docs/spec/group-protocol.md#4.3) ---


def pending(producer_epoch: int = 0, group_id: str = "g", generation_id: int = -1) -> TxnOffsetCommit:
    topics = (TxnOffsetCommitTopic("t", (TxnOffsetCommitPartition(0, 9),)),)
    return TxnOffsetCommit("tx", group_id, 7, producer_epoch, topics, generation_id)


def test_what_is_asked_from_inside_alone_is_a_method_of_no_dialect() -> None:
    assert set(INTERNAL_HANDLERS) == {TxnOffsetCommit, EndTransaction, ListSuspects, Measure}
    assert not INTERNAL_HANDLERS.keys() & HANDLERS.keys()
    assert not {message.__name__ for message in INTERNAL_HANDLERS} & METHODS.keys()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (pending(), NONE),
        (pending(producer_epoch=-1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (pending(producer_epoch=2**15), ErrorCode.INVALID_PRODUCER_EPOCH),
        (pending(group_id=""), ErrorCode.INVALID_GROUP_ID),
        (pending(generation_id=0), ErrorCode.ILLEGAL_GENERATION),
    ],
    ids=["nobody's", "no epoch", "no epoch of 16 bits", "of no group", "of a generation that is not there"],
)
def test_a_transactional_commit_is_answered_by_partition(rig: Rig, request_: TxnOffsetCommit, error: ErrorCode) -> None:
    assert errors(asked(rig, txn_offset_commit, request_)) == [("t", 0, error)]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (ShardState.LOADING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ShardState.FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ShardState.ACTIVE, NONE),
    ],
)
def test_a_marker_goes_to_a_partition_of_the_offsets_log(
    rig: Rig, core: Core, state: ShardState, told: ErrorCode
) -> None:
    core.shards[1].state = state
    assert asked(rig, end_transaction, EndTransaction(7, 0, True, 1)).error_code is told
    core.shards[1].state = ShardState.ACTIVE


def test_a_marker_of_no_producer_or_for_no_partition_is_refused(rig: Rig) -> None:
    def told(marker: EndTransaction) -> ErrorCode:
        error: ErrorCode = asked(rig, end_transaction, marker).error_code
        return error

    assert told(EndTransaction(7, 0, True, 2)) is UNKNOWN
    assert told(EndTransaction(7, 0, True, -1)) is UNKNOWN
    assert told(EndTransaction(-1, 0, True, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert told(EndTransaction(7, -1, True, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH

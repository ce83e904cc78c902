from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.commit_requests import offset_commit
from coordinator.config import Config
from coordinator.core import Core
from coordinator.offset_requests import offset_delete, offset_fetch
from coordinator.routes import ROUTES
from coordinator.views import describe_group, describe_node, list_group
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
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
    """What the handler answers, held or not."""
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
    assert {message.__name__ for message in ROUTES} == METHODS.keys() - {"Hello"}


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
    shown = describe_group("g", None, absent_is_error=True)
    assert (shown.group_state, shown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert shown.error_message is not None and "g" in shown.error_message
    assert describe_group("g", None, absent_is_error=False).error_code is NONE


def test_a_group_is_shown_as_it_stands(rig: Rig) -> None:
    rig.send(rig.open_link(), join(group_instance_id="i"))
    group = rig.node.core.find("g")[1]
    assert group is not None
    shown = describe_group("g", group, absent_is_error=True)
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(m.member_id, m.group_instance_id, m.client_host, m.member_metadata) for m in shown.members] == [
        ("i-1", "i", "/10.0.0.1", b"")
    ]
    assert list_group(group).group_state == "PreparingRebalance"
    numbers = describe_node(rig.node.core)
    assert numbers.group_states["PreparingRebalance"] == 1
    assert (numbers.gauges["groups"], numbers.gauges["members"], numbers.shards_loaded) == (1, 1, 2)

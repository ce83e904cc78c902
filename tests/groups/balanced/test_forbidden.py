"""Topics and filters that an operator keeps from a group (docs/spec/client-balanced-groups.md#6.1, #9, #15.2)."""

from typing import Any

import pytest

from coordinator.config.keys import Names
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    FetchItem,
    FetchRegistered,
    FetchRegisteredReply,
    PartitionsChanged,
    StartMember,
    StartMemberReply,
)
from protocol.messages.configs import AlterableConfig, ConfigOperation, ResourceType
from tests.groups.balanced.group_rig import GroupRig, RigClient
from tests.topics.test_requests import altered

TOPICS, FILTERS = "group.forbidden.topics", "group.forbidden.filters"
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def rig() -> GroupRig:
    rig = GroupRig(partitions=2)
    rig.node_rig.make_topic("other", 1)
    return rig


def change(rig: GroupRig, name: str, operation: int, value: str | None = None, group_id: str = "g") -> None:
    error, *_ = altered(rig.node_rig, ResourceType.GROUP, group_id, AlterableConfig(name, operation, value))
    assert error is ErrorCode.NONE


def started(client: RigClient, **fields: Any) -> tuple[ErrorCode, str]:
    request = StartMember(consumer_id=client.consumer_id, **{**client.fields, **fields})
    reply = client.rig.node_rig.ask_inside(request, call=11)
    assert isinstance(reply, StartMemberReply)
    return reply.error_code, reply.error_message


def test_who_starts_with_a_forbidden_topic_is_refused(rig: GroupRig) -> None:
    change(rig, TOPICS, SET, "demo,elsewhere")
    error, text = started(rig.member("a"))
    assert error is ErrorCode.GROUP_FORBIDDEN and "demo" in text and TOPICS in text
    assert started(rig.member("b", group_id="h"))[0] is ErrorCode.NONE, "it is another group"
    assert started(rig.member("c", topics=("other",)))[0] is ErrorCode.NONE
    change(rig, TOPICS, DELETE)
    assert started(rig.member("d", group_id="i"))[0] is ErrorCode.NONE


def test_who_starts_with_a_forbidden_filter_is_refused(rig: GroupRig) -> None:
    change(rig, FILTERS, SET, "secret")
    error, text = started(rig.member("a"), filters={"demo": ("open", " secret ")})
    assert error is ErrorCode.CONTENT_FORBIDDEN and "secret" in text and FILTERS in text
    assert started(rig.member("b"), filters={"demo": ("open",)})[0] is ErrorCode.NONE


def test_it_is_checked_after_what_is_wrong_with_the_request_and_before_the_other_members(rig: GroupRig) -> None:
    change(rig, TOPICS, SET, "demo")
    rig.started("a", topics=("other",))
    assert started(rig.member("b"), source_count=3, node_id=3)[0] is ErrorCode.BAD_REQUEST
    assert started(rig.member("b"))[0] is ErrorCode.GROUP_FORBIDDEN, "and not INCONSISTENT_TOPICS"


def test_a_topic_that_is_forbidden_later_stays_configured_and_cannot_be_subscribed_to(rig: GroupRig) -> None:
    fields: dict[str, Any] = {"topics": ("demo", "other"), "consume_position": "first"}
    a, b = rig.started("a", **fields), rig.started("b", **fields)
    rig.produce(0, 3)
    assert a.register(0).error_code is ErrorCode.NONE
    assert a.read(0) == [0, 1, 2]
    change(rig, TOPICS, APPEND, "demo")
    assert any(isinstance(push, PartitionsChanged) for push in a.told())
    meta = a.meta().meta
    assert meta is not None
    assert [(one.key, one.subscribable) for one in meta] == [
        ("1:demo:0", False),
        ("1:demo:1", False),
        ("1:other:0", True),
    ]
    assert all(TOPICS in (one.reason or "") for one in meta[:2])
    assert rig.owners()["1:demo:0"] == "a", "its owner gives it up itself"
    assert a.fetch(0).error_code is ErrorCode.FORBIDDEN
    assert a.confirm(0).committed_offset == 3, "what was handed out is its own still"
    assert b.register(1).error_code is ErrorCode.GROUP_FORBIDDEN
    assert b.register("1:other:0").error_code is ErrorCode.NONE
    assert a.unregister(0).error_code is ErrorCode.NONE
    change(rig, TOPICS, SUBTRACT, "demo")
    assert b.register(0).position == 3


def test_a_fetch_that_waits_is_told(rig: GroupRig) -> None:
    a = rig.started("a")
    a.register(0)
    item = FetchItem("1:demo:0", a.grants["1:demo:0"])
    assert rig.node_rig.ask(a.connection, FetchRegistered("g", "a", a.epoch, (item,), 5_000)) == []
    change(rig, TOPICS, SET, "demo")
    rig.node_rig.wait(5_000)
    (reply,) = (one for one in a.told() if isinstance(one, FetchRegisteredReply))
    assert [one.error_code for one in reply.items] == [ErrorCode.FORBIDDEN]


def test_it_is_kept_over_a_crash(rig: GroupRig) -> None:
    change(rig, TOPICS, SET, "demo")
    change(rig, FILTERS, SET, "x,y")
    rig.restart()
    assert started(rig.member("a"))[0] is ErrorCode.GROUP_FORBIDDEN
    assert started(rig.member("b", topics=("other",)), filters={"other": ("y",)})[0] is ErrorCode.CONTENT_FORBIDDEN


def test_what_the_node_forbids_holds_for_groups_without_a_list_of_their_own() -> None:
    rig = GroupRig(group_forbidden_topics=Names(frozenset({"demo"})))
    assert started(rig.member("a"))[0] is ErrorCode.GROUP_FORBIDDEN
    change(rig, TOPICS, SET, "", group_id="h")
    assert started(rig.member("b", group_id="h"))[0] is ErrorCode.NONE

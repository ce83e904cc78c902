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
from tests.groups.balanced.house import Guest, House
from tests.topics.test_requests import altered

TOPICS, FILTERS = "group.forbidden.topics", "group.forbidden.filters"
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def house() -> House:
    house = House(partitions=2)
    house.node_rig.make_topic("other", 1)
    return house


def change(house: House, name: str, operation: int, value: str | None = None, group_id: str = "g") -> None:
    error, *_ = altered(house.node_rig, ResourceType.GROUP, group_id, AlterableConfig(name, operation, value))
    assert error is ErrorCode.NONE


def started(guest: Guest, **fields: Any) -> tuple[ErrorCode, str]:
    request = StartMember(consumer_id=guest.consumer_id, **{**guest.fields, **fields})
    reply = guest.house.node_rig.ask_inside(request, call=11)
    assert isinstance(reply, StartMemberReply)
    return reply.error_code, reply.error_message


def test_who_starts_with_a_forbidden_topic_is_refused(house: House) -> None:
    change(house, TOPICS, SET, "demo,elsewhere")
    error, text = started(house.member("a"))
    assert error is ErrorCode.GROUP_FORBIDDEN and "demo" in text and TOPICS in text
    assert started(house.member("b", group_id="h"))[0] is ErrorCode.NONE, "it is another group"
    assert started(house.member("c", topics=("other",)))[0] is ErrorCode.NONE
    change(house, TOPICS, DELETE)
    assert started(house.member("d", group_id="i"))[0] is ErrorCode.NONE


def test_who_starts_with_a_forbidden_filter_is_refused(house: House) -> None:
    change(house, FILTERS, SET, "secret")
    error, text = started(house.member("a"), filters={"demo": ("open", " secret ")})
    assert error is ErrorCode.CONTENT_FORBIDDEN and "secret" in text and FILTERS in text
    assert started(house.member("b"), filters={"demo": ("open",)})[0] is ErrorCode.NONE


def test_it_is_checked_after_what_is_wrong_with_the_request_and_before_the_other_members(house: House) -> None:
    change(house, TOPICS, SET, "demo")
    house.started("a", topics=("other",))
    assert started(house.member("b"), source_count=3, node_id=3)[0] is ErrorCode.BAD_REQUEST
    assert started(house.member("b"))[0] is ErrorCode.GROUP_FORBIDDEN, "and not INCONSISTENT_TOPICS"


def test_a_topic_that_is_forbidden_later_stays_configured_and_cannot_be_subscribed_to(house: House) -> None:
    fields: dict[str, Any] = {"topics": ("demo", "other"), "consume_position": "first"}
    a, b = house.started("a", **fields), house.started("b", **fields)
    house.produce(0, 3)
    assert a.register(0).error_code is ErrorCode.NONE
    assert a.read(0) == [0, 1, 2]
    change(house, TOPICS, APPEND, "demo")
    assert any(isinstance(push, PartitionsChanged) for push in a.told())
    meta = a.meta().meta
    assert meta is not None
    assert [(one.key, one.subscribable) for one in meta] == [
        ("1:demo:0", False),
        ("1:demo:1", False),
        ("1:other:0", True),
    ]
    assert all(TOPICS in (one.reason or "") for one in meta[:2])
    assert house.owners()["1:demo:0"] == "a", "its owner gives it up itself"
    assert a.fetch(0).error_code is ErrorCode.FORBIDDEN
    assert a.confirm(0).committed_offset == 3, "what was handed out is its own still"
    assert b.register(1).error_code is ErrorCode.GROUP_FORBIDDEN
    assert b.register("1:other:0").error_code is ErrorCode.NONE
    assert a.unregister(0).error_code is ErrorCode.NONE
    change(house, TOPICS, SUBTRACT, "demo")
    assert b.register(0).position == 3


def test_a_fetch_that_waits_is_told(house: House) -> None:
    a = house.started("a")
    a.register(0)
    item = FetchItem("1:demo:0", a.grants["1:demo:0"])
    assert house.node_rig.ask(a.connection, FetchRegistered("g", "a", a.epoch, (item,), 5_000)) == []
    change(house, TOPICS, SET, "demo")
    house.node_rig.wait(5_000)
    (reply,) = (one for one in a.told() if isinstance(one, FetchRegisteredReply))
    assert [one.error_code for one in reply.items] == [ErrorCode.FORBIDDEN]


def test_it_is_kept_over_a_crash(house: House) -> None:
    change(house, TOPICS, SET, "demo")
    change(house, FILTERS, SET, "x,y")
    house.restart()
    assert started(house.member("a"))[0] is ErrorCode.GROUP_FORBIDDEN
    assert started(house.member("b", topics=("other",)), filters={"other": ("y",)})[0] is ErrorCode.CONTENT_FORBIDDEN


def test_what_the_node_forbids_holds_for_groups_without_a_list_of_their_own() -> None:
    house = House(group_forbidden_topics=Names(frozenset({"demo"})))
    assert started(house.member("a"))[0] is ErrorCode.GROUP_FORBIDDEN
    change(house, TOPICS, SET, "", group_id="h")
    assert started(house.member("b", group_id="h"))[0] is ErrorCode.NONE

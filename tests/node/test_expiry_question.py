"""DescribeExpiry announces the offsets that then expire."""

from typing import Any

import pytest

from coordinator.handlers.describe_expiry import MOST_A_PAGE
from coordinator.runtime.expiry_rules import KeepReason
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import JoinGroup, JoinProtocol, SyncGroup
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    EndTransaction,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from tests.node.node_rig import WALL_MS, NodeRig

WEEK_MS = 7 * 86_400_000
MINUTE_MS = 60_000


def made_rig() -> NodeRig:
    rig = NodeRig(offsets_retention_check_interval_ms=MINUTE_MS)
    rig.make_topic("orders", 50)
    rig.make_topic("bills", 50)
    rig.connect(1)
    return rig


def ask(rig: NodeRig, message: Message) -> Any:
    (reply,) = rig.ask(1, message)
    return reply


def commit(rig: NodeRig, group_id: str, topic: str, *indexes: int, **fields: Any) -> None:
    parts = tuple(OffsetCommitPartition(index, 100 + index) for index in indexes)
    reply = ask(rig, OffsetCommit(group_id, (OffsetCommitTopic(topic, parts),), **fields))
    assert not any(part.error_code for part in reply.topics[0].partitions)


def described(rig: NodeRig, group_id: str, **page: Any) -> DescribeExpiryReply:
    reply = ask(rig, DescribeExpiry(group_id, **page))
    assert isinstance(reply, DescribeExpiryReply)
    return reply


def join(rig: NodeRig, group_id: str, *topics: str) -> tuple[int, str]:
    offer = (JoinProtocol("range", encode_subscription(Subscription(topics))),)
    fields: Any = {"protocol_type": "consumer", "protocols": offer, "wants_member_id_first": False}
    rig.ask(1, JoinGroup(group_id, 1_800_000, **fields))
    rig.wake_until_idle()
    group = rig.node.core.directory[group_id].classic
    (member_id,) = group.members
    ask(rig, SyncGroup(group_id, group.generation_id, member_id))
    return group.generation_id, member_id


def test_a_simple_group_is_told_of_by_each_commit_and_goes_with_the_last() -> None:
    rig = made_rig()
    commit(rig, "g", "orders", 3, 1)
    rig.wait(500)
    commit(rig, "g", "bills", 0, retention_time_ms=1_000)

    told = described(rig, "g")

    assert [
        (one.topic, one.partition_index, one.committed_offset, one.expires_ms - WALL_MS) for one in told.offsets
    ] == [
        ("bills", 0, 100, 1_500),
        ("orders", 1, 101, WEEK_MS),
        ("orders", 3, 103, WEEK_MS),
    ]
    assert all(not one.kept_because for one in told.offsets)
    assert (told.group_state, told.group_expires_ms - WALL_MS, told.group_kept_because) == ("Empty", WEEK_MS, "")
    assert (told.next_run_ms - WALL_MS, told.retention_ms, told.has_more) == (MINUTE_MS, WEEK_MS, False)


def test_what_is_told_is_what_happens() -> None:
    rig = made_rig()
    commit(rig, "g", "bills", 0, retention_time_ms=90_000)
    commit(rig, "g", "orders", 0)
    (soon, late) = described(rig, "g").offsets
    assert rig.node.core.directory["g"].shard.offsets.count_of("g") == 2

    rig.now_ms = soon.expires_ms - WALL_MS
    assert described(rig, "g").offsets[0] == soon
    rig.wait(MINUTE_MS)
    assert described(rig, "g").offsets == (late,)
    rig.now_ms = late.expires_ms - WALL_MS - 1
    rig.wait(0)
    assert described(rig, "g").offsets == (late,), "a millisecond early"
    rig.wait(MINUTE_MS)
    refused = ask(rig, DescribeExpiry("g"))
    assert refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_keep_what_they_subscribe_to_and_their_group() -> None:
    rig = made_rig()
    generation_id, member_id = join(rig, "g", "orders")
    for topic in ("orders", "bills"):
        commit(rig, "g", topic, 0, generation_id=generation_id, member_id=member_id)

    bills, orders = described(rig, "g").offsets
    told = described(rig, "g")

    assert (bills.expires_ms - WALL_MS, bills.kept_because) == (rig.now_ms + WEEK_MS, "")
    assert (orders.expires_ms, orders.kept_because) == (-1, KeepReason.SUBSCRIBED.value)
    assert (told.group_expires_ms, told.group_kept_because) == (-1, KeepReason.HAS_MEMBERS.value)


def test_a_transaction_keeps_the_partition_and_the_group() -> None:
    rig = made_rig()
    commit(rig, "g", "orders", 0, 1)
    pending = (TxnOffsetCommitTopic("orders", (TxnOffsetCommitPartition(1, 9), TxnOffsetCommitPartition(2, 9))),)
    rig.ask_inside(TxnOffsetCommit("tx", "g", 7, 0, pending))

    told = described(rig, "g")

    assert [(one.partition_index, one.committed_offset, one.kept_because) for one in told.offsets] == [
        (0, 100, ""),
        (1, 101, KeepReason.PENDING.value),
        (2, -1, KeepReason.PENDING.value),
    ]
    assert told.group_kept_because == KeepReason.GROUP_PENDING.value
    rig.ask_inside(EndTransaction(7, 0, True, rig.node.core.shard_of("g").index), call=2)
    assert [one.committed_offset for one in described(rig, "g").offsets] == [100, 9, 9]


def test_a_page_has_an_end_whatever_is_asked_for() -> None:
    rig = made_rig()
    rig.make_topic("wide", MOST_A_PAGE + 10)
    for start in range(0, MOST_A_PAGE + 10, 500):
        commit(rig, "g", "wide", *range(start, min(start + 500, MOST_A_PAGE + 10)))
    assert not rig.ask(1, DescribeExpiry("g", limit=2**31 - 1))  # served in slices
    rig.wake_until_idle()
    (told,) = rig.heard(1)
    assert isinstance(told, DescribeExpiryReply)
    assert (len(told.offsets), told.has_more) == (MOST_A_PAGE, True)


@pytest.mark.parametrize("limit", [1, 2, 7, 100, 5_000])
def test_pages_together_are_all_in_order_and_the_first_tells_of_the_group(limit: int) -> None:
    rig = made_rig()
    commit(rig, "g", "orders", *range(40, -1, -2))
    commit(rig, "g", "bills", *range(5))
    found: list[tuple[str, int]] = []
    told = first = described(rig, "g", limit=limit)
    while True:
        found += [(one.topic, one.partition_index) for one in told.offsets]
        if not told.has_more:
            break
        assert len(told.offsets) == limit
        told = described(rig, "g", limit=limit, after_topic=found[-1][0], after_partition=found[-1][1])
        assert told.group_expires_ms == -1
    assert found == [("bills", index) for index in range(5)] + [("orders", index) for index in range(0, 41, 2)]
    assert first.group_expires_ms - WALL_MS == WEEK_MS


def test_a_limit_of_nothing_tells_of_the_group_alone() -> None:
    rig = made_rig()
    commit(rig, "g", "orders", 0)
    told = described(rig, "g", limit=-5)
    assert (told.offsets, told.has_more, told.group_state) == ((), True, "Empty")


@pytest.mark.parametrize("group_id", ["nobody", ""])
def test_a_group_that_is_not_there_has_nothing_to_tell(group_id: str) -> None:
    refused = ask(made_rig(), DescribeExpiry(group_id))
    assert refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_answer_waits_for_what_it_tells() -> None:
    rig = made_rig()
    rig.holds_disk = True
    parts = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
    assert rig.ask(1, OffsetCommit("g", parts), DescribeExpiry("g")) == []
    rig.flush()
    assert len(rig.heard(1)) == 2

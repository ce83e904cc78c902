"""Requests about very many groups or offsets take many steps, each bounded, and what happens in between."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.facts.views import list_group
from coordinator.groups.classic import subscriptions
from coordinator.groups.classic.subscriptions import names_of
from coordinator.handlers import delete_groups, list_groups
from coordinator.handlers.delete_groups import BATCH_OFFSETS
from coordinator.handlers.table import COSTS
from coordinator.node.events import Call, Lost, Stopping, Woke
from coordinator.runtime.group import Group
from coordinator.runtime.slices import SLICE_US
from partition_log.store.log_store import StoreLimits
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListedGroup,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    SyncGroup,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    DescribeExpiry,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
)
from tests.groups.checks import check_counts, check_same
from tests.node.desk import Desk

LIST, DELETE, OTHER = 21, 22, 23
_OTHERS_US = 1_500
"""Time that the last piece of a slice may take beyond the slice."""
NONE, LOADING = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def with_groups(count: int) -> Desk:
    """A node of simple groups `g00000`, ..., each with one offset."""
    desk = Desk(offsets_topic_num_partitions=3)
    desk.make_topic("orders", 1)
    desk.holds_disk = True
    for number in range(count):
        desk.step(Call(OTHER, commit(f"g{number:05}", range(1))))
        if number % 200 == 199 or number == count - 1:
            while desk.flushes:
                desk.flush()
    desk.holds_disk = False
    assert len(desk.node.core.directory) == count
    return desk


def with_offsets(count: int, group_id: str = "g") -> Desk:
    desk = Desk(offsets_topic_num_partitions=1)
    desk.make_topic("orders", count)
    for first in range(0, count, 500):
        desk.ask_inside(commit(group_id, range(first, min(first + 500, count))))
    return desk


def commit(group_id: str, partitions: range) -> OffsetCommit:
    some = tuple(OffsetCommitPartition(partition, 7) for partition in partitions)
    return OffsetCommit(group_id, (OffsetCommitTopic("orders", some),))


def ask(desk: Desk, message: Message, call: int = OTHER) -> Any:
    desk.replied.pop(call, None)
    return desk.ask_inside(message, call)


def finish(desk: Desk, call: int) -> Any:
    """Wake the node until the call is answered. How many steps it took, and the answer."""
    for steps in range(1, 1_000):
        if call in desk.replied:
            return steps, desk.replied[call]
        desk.step(Woke())
    raise AssertionError("never answered")


def held(desk: Desk) -> int:
    return sum(shard.offsets.count for shard in desk.node.core.shards)


# --- counts ---


class _Closed(dict[str, Any]):
    """A dictionary in which single entries are looked up, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all groups are looked at")

    __iter__ = keys = values = items = _refuse


def test_a_probe_of_the_node_looks_at_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = with_groups(30)
    for shard in desk.node.core.shards:
        monkeypatch.setattr(shard, "groups", _Closed(shard.groups))
    reply = ask(desk, DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    assert (reply.group_states["Empty"], reply.gauges["groups"], reply.gauges["committed_offsets"]) == (30, 30, 30)
    assert COSTS[DescribeNode].of(desk.node.core, DescribeNode()) < 10


def test_counts_follow_groups_that_come_change_and_go() -> None:
    desk = with_groups(3)
    join = JoinGroup("a", 6_000, protocol_type="consumer", protocols=(JoinProtocol("range", b"xy"),))
    ask(desk, join)
    shard = desk.node.core.directory["a"].shard
    assert (shard.counts.pending_ids, shard.counts.members) == (1, 0)
    ask(desk, JoinGroup("b", 6_000, protocols=join.protocols, protocol_type="c", wants_member_id_first=False))
    desk.wake_until_idle()
    node = ask(desk, DescribeNode())
    assert (node.gauges["members"], node.gauges["pending_ids"]) == (1, 1)
    assert {state: count for state, count in node.group_states.items() if count} == {
        "Empty": 4,
        "CompletingRebalance": 1,
    }
    ask(desk, DeleteGroups(("g00000", "g00001")))
    desk.wait(400_000)
    node = ask(desk, DescribeNode())
    assert (node.gauges["members"], node.gauges["groups"], node.group_states["CompletingRebalance"]) == (0, 3, 0)
    for one in desk.node.core.shards:
        check_counts(one)
    desk.disk.crash()
    again = Desk(desk.disk)
    assert ask(again, DescribeNode()).group_states == node.group_states
    again.step(Stopping())
    assert ask(again, DescribeNode()).group_states["Dead"] == 3


# --- lists ---


def test_a_list_of_many_groups_takes_many_steps_and_shows_each_group_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * SLICE_US
    desk = with_groups(count)
    shown = [0]

    def counting(*given: Any) -> Any:
        shown[-1] += 1
        return list_group(*given)

    monkeypatch.setattr(list_groups, "list_group", counting)
    assert desk.ask_inside(ListGroups(), LIST) is None
    while LIST not in desk.replied:
        shown.append(0)
        desk.step(Woke())
    assert max(shown) <= SLICE_US + _OTHERS_US
    assert len(shown) >= 3
    reply = desk.replied[LIST]
    assert isinstance(reply, ListGroupsReply)
    assert [group.group_id for group in reply.groups] == [f"g{number:05}" for number in range(count)]
    assert COSTS[ListGroups].of(desk.node.core, ListGroups()) <= SLICE_US


def test_groups_that_come_and_go_while_a_list_is_made_disturb_no_other() -> None:
    desk = with_groups(2 * SLICE_US)
    desk.step(Call(LIST, ListGroups()))
    ask(desk, commit("a first", range(1)))
    ask(desk, commit("z last", range(1)))
    ask(desk, DeleteGroups((f"g{2 * SLICE_US - 1:05}",)), DELETE)
    _, reply = finish(desk, LIST)
    listed = [group.group_id for group in reply.groups]
    assert listed == sorted(set(listed))
    assert set(listed) >= {f"g{number:05}" for number in range(2 * SLICE_US - 1)} | {"z last"}
    assert "a first" not in listed, "it came behind what was shown already"


def test_a_page_of_groups_costs_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = with_groups(40)
    shown: list[str] = []

    def showing(group: Group) -> ListedGroup:
        shown.append(group.group_id)
        return list_group(group)

    monkeypatch.setattr(list_groups, "list_group", showing)
    reply = ask(desk, ListGroups(after="g00009", limit=3))
    assert [group.group_id for group in reply.groups] == shown == ["g00010", "g00011", "g00012"]
    assert COSTS[ListGroups].of(desk.node.core, ListGroups(limit=3)) <= 2
    assert ask(desk, ListGroups(after="g00039", limit=3)).groups == ()
    assert ask(desk, ListGroups(("Stable",), limit=3)).groups == ()
    assert len(ask(desk, ListGroups(("empty",), after="g00036", limit=50)).groups) == 3
    assert ask(desk, ListGroups(limit=0)).groups == ()


def test_a_list_ends_when_the_node_stops() -> None:
    desk = with_groups(2 * SLICE_US)
    desk.step(Call(LIST, ListGroups()))
    desk.step(Stopping())
    _, reply = finish(desk, LIST)
    assert reply.error_code is ErrorCode.NONE


def test_nobody_reads_on_for_a_connection_that_is_gone() -> None:
    desk = with_groups(2 * SLICE_US)
    desk.connect(7)
    desk.ask(7, ListGroups())
    assert desk.node.core.slices.is_ready
    desk.step(Lost(7))
    assert not desk.node.core.slices.is_ready


# --- deletions ---


def test_many_groups_are_deleted_a_slice_at_a_time() -> None:
    desk = with_groups(500)
    left = [len(desk.node.core.directory)]
    desk.step(Call(DELETE, DeleteGroups(tuple(f"g{number:05}" for number in range(500)))))
    left.append(len(desk.node.core.directory))
    while DELETE not in desk.replied:
        desk.step(Woke())
        left.append(len(desk.node.core.directory))
    went = [before - after for before, after in pairwise(left)]
    assert max(went) <= 200
    assert left[-1] == 0
    assert {one.error_code for one in desk.replied[DELETE].results} == {NONE}  # type: ignore[attr-defined]


def test_a_group_of_many_offsets_goes_a_slice_at_a_time_and_nothing_is_done_with_it_meanwhile() -> None:
    desk = with_offsets(10_000)
    desk.step(Call(DELETE, DeleteGroups(("g", "none"))))
    before, went = held(desk), [10_000 - held(desk)]
    assert before < 10_000
    assert ask(desk, commit("g", range(1))).topics[0].partitions[0].error_code is LOADING
    assert ask(desk, OffsetFetch((OffsetFetchGroup("g"),))).groups[0].error_code is LOADING
    assert ask(desk, JoinGroup("g", 6_000, protocols=(JoinProtocol("range"),))).error_code is LOADING
    assert ask(desk, DescribeGroups(("g",))).groups[0].error_code is LOADING
    assert ask(desk, DeleteGroups(("g",))) is None, "it waits for its turn"
    while DELETE not in desk.replied:
        desk.step(Woke())
        went.append(before - held(desk))
        before = held(desk)
    assert max(went) <= SLICE_US // 5 + BATCH_OFFSETS
    assert sum(went) == 10_000
    assert [one.error_code for one in desk.replied[DELETE].results] == [  # type: ignore[attr-defined]
        NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert "g" not in desk.node.core.directory
    assert ask(desk, commit("g", range(1))).topics[0].partitions[0].error_code is NONE
    (note,) = [one for one in ask(desk, ListNotes("g")).notes if one.kind == "admin"]
    assert note.detail == "with 10000 committed offsets, by (unnamed)"


def test_a_second_deletion_of_a_group_that_is_being_deleted_is_told_to_try_again() -> None:
    desk = with_offsets(5_000)
    desk.step(Call(DELETE, DeleteGroups(("g",))))
    desk.step(Call(OTHER, DeleteGroups(("g",))))
    _, first = finish(desk, DELETE)
    _, second = finish(desk, OTHER)
    assert first.results[0].error_code is NONE
    assert second.results[0].error_code in (LOADING, ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_crash_at_each_step_of_a_deletion_leaves_an_empty_group_with_the_rest_or_nothing() -> None:
    for steps in range(200):
        desk = with_offsets(3_000)
        desk.step(Call(DELETE, DeleteGroups(("g",))))
        for _ in range(steps):
            desk.step(Woke())
        answered, left = DELETE in desk.replied, held(desk)
        desk.disk.crash()
        again = Desk(desk.disk, offsets_topic_num_partitions=1)
        for live, loaded in zip(desk.node.core.shards, again.node.core.shards, strict=True):
            check_same(live, loaded)
        assert held(again) == left
        if answered:
            assert (left, list(again.node.core.directory)) == (0, [])
            return
        assert list(again.node.core.directory) == ["g"] * (left > 0)
        assert ask(again, commit("g", range(1))).topics[0].partitions[0].error_code is NONE
        assert ask(again, DeleteGroups(("g",)), DELETE) is None or held(again) == 0
        finish(again, DELETE)
        assert not again.node.core.directory
    raise AssertionError("never answered")


def test_a_deletion_is_answered_when_it_is_durable() -> None:
    desk = with_offsets(1_000)
    desk.holds_disk = True
    desk.step(Call(DELETE, DeleteGroups(("g",))))
    for _ in range(50):
        desk.step(Woke())
    assert not desk.node.core.directory
    assert DELETE not in desk.replied
    while desk.flushes:
        desk.flush()
    assert DELETE in desk.replied


def test_a_full_disk_ends_a_deletion_and_the_group_serves_with_the_rest() -> None:
    desk = with_offsets(5_000)
    desk.step(Call(DELETE, DeleteGroups(("g",))))
    left = held(desk)
    desk.store.disk_full = True
    _, reply = finish(desk, DELETE)
    assert reply.results[0].error_code is ErrorCode.NOT_COORDINATOR
    assert held(desk) == left
    desk.store.disk_full = False
    assert ask(desk, commit("g", range(1))).topics[0].partitions[0].error_code is NONE


def test_a_deletion_waits_for_the_disk_and_lists_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = with_offsets(3_000)
    monkeypatch.setattr(delete_groups, "_must_wait", lambda _core: True)
    desk.step(Call(DELETE, DeleteGroups(("g",))))
    assert held(desk) == 3_000
    assert not desk.node.core.slices.is_ready, "nothing to do before the disk has done something"
    assert desk.node.core.slices.waiting == 1
    desk.step(Call(LIST, ListGroups()))
    assert len(finish(desk, LIST)[1].groups) == 1
    monkeypatch.undo()
    ask(desk, commit("other", range(1)))  # its flush ends
    _, reply = finish(desk, DELETE)
    assert reply.results[0].error_code is NONE


def test_a_deletion_goes_on_when_its_connection_is_gone() -> None:
    desk = with_offsets(5_000)
    desk.connect(7)
    desk.ask(7, DeleteGroups(("g",)))
    assert 0 < held(desk) < 5_000
    desk.step(Lost(7))
    desk.wake_until_idle()
    assert held(desk) == 0


def test_a_deletion_that_a_stop_comes_between_leaves_the_rest() -> None:
    desk = with_offsets(5_000)
    desk.step(Call(DELETE, DeleteGroups(("g",))))
    left = held(desk)
    desk.step(Stopping())
    _, reply = finish(desk, DELETE)
    assert reply.results[0].error_code is ErrorCode.NOT_COORDINATOR
    assert held(desk) == left


# --- turns ---


def test_sliced_requests_have_their_turns() -> None:
    desk = with_groups(4 * SLICE_US)
    desk.step(Call(LIST, ListGroups()))
    desk.step(Call(DELETE, DeleteGroups(("g00000",))))
    steps, _ = finish(desk, DELETE)
    assert steps <= 3
    assert LIST not in desk.replied


# --- subscriptions ---


def with_members(count: int, topics: int, *, alike: bool) -> tuple[Desk, JoinGroupReply]:
    """A Stable group `g` of so many members that subscribe to so many topics each, and its leader's JoinGroupReply."""
    desk = Desk(limits=StoreLimits(), offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=1_000)
    desk.make_topic("orders", 4)
    for number in range(count):
        names = tuple(f"{0 if alike else number}-{topic}" for topic in range(topics))
        offer = (JoinProtocol("range", encode_subscription(Subscription(names))),)
        joining = JoinGroup("g", 1_800_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False)
        desk.step(Call(1_000 + number, joining))
    for _ in range(3):
        desk.wait(1_000)
    joined = [desk.replied.pop(1_000 + number) for number in range(count)]
    (leader,) = [one for one in joined if isinstance(one, JoinGroupReply) and one.member_id == one.leader]
    assert ask(desk, SyncGroup("g", leader.generation_id, leader.member_id)).error_code is NONE
    committing = commit("g", range(4))
    committing = replace(committing, generation_id=leader.generation_id, member_id=leader.member_id)
    assert ask(desk, committing).topics[0].partitions[0].error_code is NONE
    desk.replied.clear()
    return desk, leader


DELETION = OffsetDelete("g", (OffsetDeleteTopic("orders", (0,)), OffsetDeleteTopic("0-1", (0,))))


@pytest.mark.parametrize("question", [DELETION, DescribeExpiry("g", 10)])
def test_a_large_groups_subscriptions_are_read_over_many_steps_and_remembered(
    monkeypatch: pytest.MonkeyPatch, question: Message
) -> None:
    desk, _ = with_members(400, 50, alike=False)
    read = [0]

    def counting(metadata: bytes) -> list[bytes] | None:
        read[-1] += 1
        return names_of(metadata)

    monkeypatch.setattr(subscriptions, "names_of", counting)
    desk.step(Call(OTHER, question))
    while OTHER not in desk.replied:
        read.append(0)
        desk.step(Woke())
    assert sum(read) == 400
    assert max(read) <= SLICE_US // 20 + 30
    read[:] = [0]
    assert ask(desk, replace(DELETION)) is not None
    assert ask(desk, DescribeExpiry("g", 10)) is not None
    desk.wait(600_000)  # an expiry pass
    assert sum(read) == 0, "what was read is known"


def test_who_joins_while_subscriptions_are_read_counts() -> None:
    desk, leader = with_members(400, 50, alike=False)
    desk.step(Call(OTHER, OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 1)),))))
    assert OTHER not in desk.replied
    offer = (JoinProtocol("range", encode_subscription(Subscription(("orders",)))),)
    desk.step(Call(1, JoinGroup("g", 1_800_000, leader.leader, "consumer", offer)))
    _, reply = finish(desk, OTHER)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert [part.error_code for part in reply.topics[0].partitions] == [subscribed] * 2
    assert held(desk) == 4


def test_deleting_one_offset_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = with_offsets(2_000)
    (shard,) = desk.node.core.shards
    monkeypatch.setattr(type(shard.offsets), "partitions", lambda *_: pytest.fail("all offsets are looked at"))
    reply = ask(desk, OffsetDelete("g", (OffsetDeleteTopic("orders", (3, 5_000)),)))
    codes = [part.error_code for part in reply.topics[0].partitions]
    assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert held(desk) == 1_999


def test_when_a_group_of_many_offsets_goes_is_looked_up_over_many_steps() -> None:
    desk = with_offsets(10_000)
    desk.step(Call(OTHER, DescribeExpiry("g", 1)))
    steps, reply = finish(desk, OTHER)
    assert steps >= 2
    assert (len(reply.offsets), reply.has_more, reply.group_expires_ms > 0) == (1, True, True)
    assert COSTS[DescribeExpiry].of(desk.node.core, DescribeExpiry("g", 1)) <= SLICE_US // 3 + 2

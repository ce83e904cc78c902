"""Requests about very many groups or offsets take many steps, each bounded, and what happens in between."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.facts.views import list_group
from coordinator.groups.classic import subscriptions
from coordinator.groups.classic.subscriptions import names_of
from coordinator.handlers import delete_groups, list_groups, list_suspects
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
    ListSuspects,
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
from tests.node.node_rig import NodeRig

LIST, DELETE, OTHER = 21, 22, 23
_OTHERS_US = 1_500
"""Time that the last piece of a slice may take beyond the slice."""
NONE, LOADING = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def with_groups(count: int) -> NodeRig:
    """A node of simple groups `g00000`, ..., each with one offset."""
    rig = NodeRig(offsets_topic_num_partitions=3)
    rig.make_topic("orders", 1)
    rig.holds_disk = True
    for number in range(count):
        rig.step(Call(OTHER, commit(f"g{number:05}", range(1))))
        if number % 200 == 199 or number == count - 1:
            while rig.flushes:
                rig.flush()
    rig.holds_disk = False
    assert len(rig.node.core.directory) == count
    return rig


def with_offsets(count: int, group_id: str = "g") -> NodeRig:
    rig = NodeRig(offsets_topic_num_partitions=1)
    rig.make_topic("orders", count)
    for first in range(0, count, 500):
        rig.ask_inside(commit(group_id, range(first, min(first + 500, count))))
    return rig


def commit(group_id: str, partitions: range) -> OffsetCommit:
    some = tuple(OffsetCommitPartition(partition, 7) for partition in partitions)
    return OffsetCommit(group_id, (OffsetCommitTopic("orders", some),))


def ask(rig: NodeRig, message: Message, call: int = OTHER) -> Any:
    rig.replied.pop(call, None)
    return rig.ask_inside(message, call)


def finish(rig: NodeRig, call: int) -> Any:
    """Wake the node until the call is answered. How many steps it took, and the answer."""
    for steps in range(1, 1_000):
        if call in rig.replied:
            return steps, rig.replied[call]
        rig.step(Woke())
    raise AssertionError("never answered")


def held(rig: NodeRig) -> int:
    return sum(shard.offsets.count for shard in rig.node.core.shards)


# --- counts ---


class _Closed(dict[str, Any]):
    """A dictionary in which single entries are looked up, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all groups are looked at")

    __iter__ = keys = values = items = _refuse


def test_a_probe_of_the_node_looks_at_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = with_groups(30)
    for shard in rig.node.core.shards:
        monkeypatch.setattr(shard, "groups", _Closed(shard.groups))
    reply = ask(rig, DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    assert (reply.group_states["Empty"], reply.gauges["groups"], reply.gauges["committed_offsets"]) == (30, 30, 30)
    assert COSTS[DescribeNode].of(rig.node.core, DescribeNode()) < 10


def test_counts_follow_groups_that_come_change_and_go() -> None:
    rig = with_groups(3)
    join = JoinGroup("a", 6_000, protocol_type="consumer", protocols=(JoinProtocol("range", b"xy"),))
    ask(rig, join)
    shard = rig.node.core.directory["a"].shard
    assert (shard.counts.pending_ids, shard.counts.members) == (1, 0)
    ask(rig, JoinGroup("b", 6_000, protocols=join.protocols, protocol_type="c", wants_member_id_first=False))
    rig.wake_until_idle()
    node = ask(rig, DescribeNode())
    assert (node.gauges["members"], node.gauges["pending_ids"]) == (1, 1)
    assert {state: count for state, count in node.group_states.items() if count} == {
        "Empty": 4,
        "CompletingRebalance": 1,
    }
    ask(rig, DeleteGroups(("g00000", "g00001")))
    rig.wait(400_000)
    node = ask(rig, DescribeNode())
    assert (node.gauges["members"], node.gauges["groups"], node.group_states["CompletingRebalance"]) == (0, 3, 0)
    for one in rig.node.core.shards:
        check_counts(one)
    rig.disk.crash()
    again = NodeRig(rig.disk)
    assert ask(again, DescribeNode()).group_states == node.group_states
    again.step(Stopping())
    assert ask(again, DescribeNode()).group_states["Dead"] == 3


# --- lists ---


def test_a_search_for_suspects_looks_at_few_groups_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made each second while a console is open."""
    rig = with_groups(300)
    looked_at = [0]
    is_suspect = list_suspects._is_suspect

    def counting(*given: Any) -> bool:
        looked_at[-1] += 1
        return is_suspect(*given)

    monkeypatch.setattr(list_suspects, "_is_suspect", counting)
    rig.step(Call(LIST, ListSuspects(2**62)))
    while LIST not in rig.replied:
        looked_at.append(0)
        rig.step(Woke())
    assert sum(looked_at) == 300
    assert max(looked_at) <= 75  # without members; of ten each, 25


def test_a_list_of_many_groups_takes_many_steps_and_shows_each_group_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * SLICE_US
    rig = with_groups(count)
    shown = [0]

    def counting(*given: Any) -> Any:
        shown[-1] += 1
        return list_group(*given)

    monkeypatch.setattr(list_groups, "list_group", counting)
    assert rig.ask_inside(ListGroups(), LIST) is None
    while LIST not in rig.replied:
        shown.append(0)
        rig.step(Woke())
    assert max(shown) <= SLICE_US + _OTHERS_US
    assert len(shown) >= 3
    reply = rig.replied[LIST]
    assert isinstance(reply, ListGroupsReply)
    assert [group.group_id for group in reply.groups] == [f"g{number:05}" for number in range(count)]
    assert COSTS[ListGroups].of(rig.node.core, ListGroups()) <= SLICE_US


def test_groups_that_come_and_go_while_a_list_is_made_disturb_no_other() -> None:
    rig = with_groups(2 * SLICE_US)
    rig.step(Call(LIST, ListGroups()))
    ask(rig, commit("a first", range(1)))
    ask(rig, commit("z last", range(1)))
    ask(rig, DeleteGroups((f"g{2 * SLICE_US - 1:05}",)), DELETE)
    _, reply = finish(rig, LIST)
    listed = [group.group_id for group in reply.groups]
    assert listed == sorted(set(listed))
    assert set(listed) >= {f"g{number:05}" for number in range(2 * SLICE_US - 1)} | {"z last"}
    assert "a first" not in listed, "it came behind what was shown already"


def test_a_page_of_groups_costs_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = with_groups(40)
    shown: list[str] = []

    def showing(group: Group) -> ListedGroup:
        shown.append(group.group_id)
        return list_group(group)

    monkeypatch.setattr(list_groups, "list_group", showing)
    reply = ask(rig, ListGroups(after="g00009", limit=3))
    assert [group.group_id for group in reply.groups] == shown == ["g00010", "g00011", "g00012"]
    assert COSTS[ListGroups].of(rig.node.core, ListGroups(limit=3)) <= 2
    assert ask(rig, ListGroups(after="g00039", limit=3)).groups == ()
    assert ask(rig, ListGroups(("Stable",), limit=3)).groups == ()
    assert len(ask(rig, ListGroups(("empty",), after="g00036", limit=50)).groups) == 3
    assert ask(rig, ListGroups(limit=0)).groups == ()


def test_a_list_ends_when_the_node_stops() -> None:
    rig = with_groups(2 * SLICE_US)
    rig.step(Call(LIST, ListGroups()))
    rig.step(Stopping())
    _, reply = finish(rig, LIST)
    assert reply.error_code is ErrorCode.NONE


def test_nobody_reads_on_for_a_connection_that_is_gone() -> None:
    rig = with_groups(2 * SLICE_US)
    rig.connect(7)
    rig.ask(7, ListGroups())
    assert rig.node.core.slices.is_ready
    rig.step(Lost(7))
    assert not rig.node.core.slices.is_ready


# --- deletions ---


def test_many_groups_are_deleted_a_slice_at_a_time() -> None:
    rig = with_groups(500)
    left = [len(rig.node.core.directory)]
    rig.step(Call(DELETE, DeleteGroups(tuple(f"g{number:05}" for number in range(500)))))
    left.append(len(rig.node.core.directory))
    while DELETE not in rig.replied:
        rig.step(Woke())
        left.append(len(rig.node.core.directory))
    went = [before - after for before, after in pairwise(left)]
    assert max(went) <= 200
    assert left[-1] == 0
    assert {one.error_code for one in rig.replied[DELETE].results} == {NONE}  # type: ignore[attr-defined]


def test_a_group_of_many_offsets_goes_a_slice_at_a_time_and_nothing_is_done_with_it_meanwhile() -> None:
    rig = with_offsets(10_000)
    rig.step(Call(DELETE, DeleteGroups(("g", "none"))))
    before, went = held(rig), [10_000 - held(rig)]
    assert before < 10_000
    assert ask(rig, commit("g", range(1))).topics[0].partitions[0].error_code is LOADING
    assert ask(rig, OffsetFetch((OffsetFetchGroup("g"),))).groups[0].error_code is LOADING
    assert ask(rig, JoinGroup("g", 6_000, protocols=(JoinProtocol("range"),))).error_code is LOADING
    assert ask(rig, DescribeGroups(("g",))).groups[0].error_code is LOADING
    assert ask(rig, DeleteGroups(("g",))) is None, "it waits for its turn"
    while DELETE not in rig.replied:
        rig.step(Woke())
        went.append(before - held(rig))
        before = held(rig)
    assert max(went) <= SLICE_US // 5 + BATCH_OFFSETS
    assert sum(went) == 10_000
    assert [one.error_code for one in rig.replied[DELETE].results] == [  # type: ignore[attr-defined]
        NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert "g" not in rig.node.core.directory
    assert ask(rig, commit("g", range(1))).topics[0].partitions[0].error_code is NONE
    (note,) = [one for one in ask(rig, ListNotes("g")).notes if one.kind == "admin"]
    assert note.detail == "with 10000 committed offsets (the first 2000 can be restored), by (unnamed)"


def test_a_second_deletion_of_a_group_that_is_being_deleted_is_told_to_try_again() -> None:
    rig = with_offsets(5_000)
    rig.step(Call(DELETE, DeleteGroups(("g",))))
    rig.step(Call(OTHER, DeleteGroups(("g",))))
    _, first = finish(rig, DELETE)
    _, second = finish(rig, OTHER)
    assert first.results[0].error_code is NONE
    assert second.results[0].error_code in (LOADING, ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_crash_at_each_step_of_a_deletion_leaves_an_empty_group_with_the_rest_or_nothing() -> None:
    for steps in range(200):
        rig = with_offsets(3_000)
        rig.step(Call(DELETE, DeleteGroups(("g",))))
        for _ in range(steps):
            rig.step(Woke())
        answered, left = DELETE in rig.replied, held(rig)
        rig.disk.crash()
        again = NodeRig(rig.disk, offsets_topic_num_partitions=1)
        for live, loaded in zip(rig.node.core.shards, again.node.core.shards, strict=True):
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
    rig = with_offsets(1_000)
    rig.holds_disk = True
    rig.step(Call(DELETE, DeleteGroups(("g",))))
    for _ in range(50):
        rig.step(Woke())
    assert not rig.node.core.directory
    assert DELETE not in rig.replied
    while rig.flushes:
        rig.flush()
    assert DELETE in rig.replied


def test_a_full_disk_ends_a_deletion_and_the_group_serves_with_the_rest() -> None:
    rig = with_offsets(5_000)
    rig.step(Call(DELETE, DeleteGroups(("g",))))
    left = held(rig)
    rig.store.disk_full = True
    _, reply = finish(rig, DELETE)
    assert reply.results[0].error_code is ErrorCode.NOT_COORDINATOR
    assert held(rig) == left
    rig.store.disk_full = False
    assert ask(rig, commit("g", range(1))).topics[0].partitions[0].error_code is NONE


def test_a_deletion_waits_for_the_disk_and_lists_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = with_offsets(3_000)
    monkeypatch.setattr(delete_groups, "_must_wait", lambda _core: True)
    rig.step(Call(DELETE, DeleteGroups(("g",))))
    assert held(rig) == 3_000
    assert not rig.node.core.slices.is_ready, "nothing to do before the disk has done something"
    assert rig.node.core.slices.waiting == 1
    rig.step(Call(LIST, ListGroups()))
    assert len(finish(rig, LIST)[1].groups) == 1
    monkeypatch.undo()
    ask(rig, commit("other", range(1)))  # its flush ends
    _, reply = finish(rig, DELETE)
    assert reply.results[0].error_code is NONE


def test_a_deletion_goes_on_when_its_connection_is_gone() -> None:
    rig = with_offsets(5_000)
    rig.connect(7)
    rig.ask(7, DeleteGroups(("g",)))
    assert 0 < held(rig) < 5_000
    rig.step(Lost(7))
    rig.wake_until_idle()
    assert held(rig) == 0


def test_a_deletion_that_a_stop_comes_between_leaves_the_rest() -> None:
    rig = with_offsets(5_000)
    rig.step(Call(DELETE, DeleteGroups(("g",))))
    left = held(rig)
    rig.step(Stopping())
    _, reply = finish(rig, DELETE)
    assert reply.results[0].error_code is ErrorCode.NOT_COORDINATOR
    assert held(rig) == left


# --- turns ---


def test_sliced_requests_have_their_turns() -> None:
    rig = with_groups(4 * SLICE_US)
    rig.step(Call(LIST, ListGroups()))
    rig.step(Call(DELETE, DeleteGroups(("g00000",))))
    steps, _ = finish(rig, DELETE)
    assert steps <= 3
    assert LIST not in rig.replied


# --- subscriptions ---


def with_members(count: int, topics: int, *, alike: bool) -> tuple[NodeRig, JoinGroupReply]:
    """A Stable group `g` of so many members that subscribe to so many topics each, and its leader's JoinGroupReply."""
    rig = NodeRig(limits=StoreLimits(), offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=1_000)
    rig.make_topic("orders", 4)
    for number in range(count):
        names = tuple(f"{0 if alike else number}-{topic}" for topic in range(topics))
        offer = (JoinProtocol("range", encode_subscription(Subscription(names))),)
        joining = JoinGroup("g", 1_800_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False)
        rig.step(Call(1_000 + number, joining))
    for _ in range(3):
        rig.wait(1_000)
    joined = [rig.replied.pop(1_000 + number) for number in range(count)]
    (leader,) = [one for one in joined if isinstance(one, JoinGroupReply) and one.member_id == one.leader]
    assert ask(rig, SyncGroup("g", leader.generation_id, leader.member_id)).error_code is NONE
    committing = commit("g", range(4))
    committing = replace(committing, generation_id=leader.generation_id, member_id=leader.member_id)
    assert ask(rig, committing).topics[0].partitions[0].error_code is NONE
    rig.replied.clear()
    return rig, leader


DELETION = OffsetDelete("g", (OffsetDeleteTopic("orders", (0,)), OffsetDeleteTopic("0-1", (0,))))


@pytest.mark.parametrize("question", [DELETION, DescribeExpiry("g", 10)])
def test_a_large_groups_subscriptions_are_read_over_many_steps_and_remembered(
    monkeypatch: pytest.MonkeyPatch, question: Message
) -> None:
    rig, _ = with_members(400, 50, alike=False)
    read = [0]

    def counting(metadata: bytes) -> list[bytes] | None:
        read[-1] += 1
        return names_of(metadata)

    monkeypatch.setattr(subscriptions, "names_of", counting)
    rig.step(Call(OTHER, question))
    while OTHER not in rig.replied:
        read.append(0)
        rig.step(Woke())
    assert sum(read) == 400
    assert max(read) <= SLICE_US // 20 + 30
    read[:] = [0]
    assert ask(rig, replace(DELETION)) is not None
    assert ask(rig, DescribeExpiry("g", 10)) is not None
    rig.wait(600_000)  # an expiry pass
    assert sum(read) == 0, "what was read is known"


def test_who_joins_while_subscriptions_are_read_counts() -> None:
    rig, leader = with_members(400, 50, alike=False)
    rig.step(Call(OTHER, OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 1)),))))
    assert OTHER not in rig.replied
    offer = (JoinProtocol("range", encode_subscription(Subscription(("orders",)))),)
    rig.step(Call(1, JoinGroup("g", 1_800_000, leader.leader, "consumer", offer)))
    _, reply = finish(rig, OTHER)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert [part.error_code for part in reply.topics[0].partitions] == [subscribed] * 2
    assert held(rig) == 4


def test_deleting_one_offset_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = with_offsets(2_000)
    (shard,) = rig.node.core.shards
    monkeypatch.setattr(type(shard.offsets), "partitions", lambda *_: pytest.fail("all offsets are looked at"))
    reply = ask(rig, OffsetDelete("g", (OffsetDeleteTopic("orders", (3, 5_000)),)))
    codes = [part.error_code for part in reply.topics[0].partitions]
    assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert held(rig) == 1_999


def test_when_a_group_of_many_offsets_goes_is_looked_up_over_many_steps() -> None:
    rig = with_offsets(10_000)
    rig.step(Call(OTHER, DescribeExpiry("g", 1)))
    steps, reply = finish(rig, OTHER)
    assert steps >= 2
    assert (len(reply.offsets), reply.has_more, reply.group_expires_ms > 0) == (1, True, True)
    assert COSTS[DescribeExpiry].of(rig.node.core, DescribeExpiry("g", 1)) <= SLICE_US // 3 + 2

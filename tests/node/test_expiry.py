"""The pass over all groups, in slices: what one step does is bounded, whatever there is to do."""

from typing import Any

import pytest

from coordinator.groups.classic.group_states import GroupState
from coordinator.node.events import Woke
from coordinator.runtime import expiry_rules
from coordinator.runtime import shard as shard_module
from coordinator.runtime.expiry_schedule import NEXT_PASS_MS
from coordinator.tasks import expiration
from coordinator.tasks.expiration import BATCH_PLACES, SLICE_WORK
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.messages.groups import JoinGroup, JoinProtocol, ListNotes, ListNotesReply, SyncGroup
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.groups.checks import check_same
from tests.node.node_rig import NO_ROOM, NodeRig

WEEK_MS = 7 * 86_400_000
MINUTE_MS = 60_000


def rig_with(**settings: Any) -> NodeRig:
    return NodeRig(offsets_retention_check_interval_ms=MINUTE_MS, **settings)


def commit(rig: NodeRig, group_id: str, partitions: range, topic: str = "orders") -> None:
    for start in range(partitions.start, partitions.stop, 500):
        some = tuple(OffsetCommitPartition(index, 1) for index in range(start, min(start + 500, partitions.stop)))
        reply = rig.ask_inside(OffsetCommit(group_id, (OffsetCommitTopic(topic, some),)))
        assert isinstance(reply, OffsetCommitReply)
        assert not any(part.error_code for part in reply.topics[0].partitions)


def held(rig: NodeRig) -> int:
    return sum(shard.offsets.count for shard in rig.node.core.shards)


def counters(rig: NodeRig) -> tuple[int, int]:
    reply = rig.ask_inside(DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    return reply.counters["offsets_expired"], reply.counters["groups_expired"]


def notes(rig: NodeRig, group_id: str) -> list[str]:
    reply = rig.ask_inside(ListNotes(group_id))
    assert isinstance(reply, ListNotesReply)
    assert all(note.kind == "expired" for note in reply.notes)
    return [f"{note.cause}: {note.detail}" for note in reply.notes]


def finish(rig: NodeRig) -> None:
    """Two seconds: enough for every slice, with a checkpoint in between."""
    for _ in range(200):
        rig.wait(10)


def slices(rig: NodeRig) -> list[tuple[int, int]]:
    """Let a week and an interval pass and look at each step until nothing expires any more: (milliseconds from the
    first to it, offsets that went)."""
    rig.now_ms += WEEK_MS + MINUTE_MS
    began_ms, before, found = rig.now_ms, held(rig), []
    for _ in range(5_000):
        rig.step(Woke())
        if held(rig) < before:
            found.append((rig.now_ms - began_ms, before - held(rig)))
            before = held(rig)
        elif rig.node.core.expiry.due_ms > rig.now_ms + 10_000:
            return found
        deadline_ms = rig.node.next_deadline_ms
        assert deadline_ms is not None
        rig.now_ms = max(rig.now_ms, deadline_ms)
    raise AssertionError("the pass never ends")


def test_a_large_group_goes_in_slices_with_one_note_and_one_tombstone_at_the_end() -> None:
    rig = rig_with()
    rig.make_topic(partitions=3_000)
    commit(rig, "large", range(3_000))

    found = slices(rig)

    assert sum(count for _ms, count in found) == 3_000
    assert max(count for _ms, count in found) <= 2 * BATCH_PLACES
    assert len({ms for ms, _count in found}) == len(found), "others come in between"
    assert notes(rig, "large") == ["group expired: with 3000 offsets of orders"]
    assert rig.node.core.directory == {}
    assert counters(rig) == (3_000, 1)


def test_many_small_groups_go_in_slices() -> None:
    rig = rig_with()
    rig.make_topic()
    for number in range(1_500):
        commit(rig, f"g-{number}", range(2))

    found = slices(rig)

    assert sum(count for _ms, count in found) == 3_000
    assert max(count for _ms, count in found) <= SLICE_WORK // 25
    assert counters(rig) == (3_000, 1_500)
    assert notes(rig, "g-7") == ["group expired: with 2 offsets of orders"]


def test_what_does_not_expire_is_looked_at_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_with()
    rig.make_topic(partitions=3_000)
    commit(rig, "large", range(3_000))
    monkeypatch.setattr(expiration, "SLICE_WORK", 100)
    looked: list[int] = []
    find = expiry_rules.expires_ms

    def counted(*arguments: object) -> object:
        looked[-1] += 1
        return find(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(expiration, "expires_ms", counted)
    rig.now_ms += MINUTE_MS
    while rig.node.core.expiry.due_ms <= rig.now_ms + 1_000:
        looked.append(0)
        rig.step(Woke())
        rig.now_ms += 10

    assert sum(looked) == 3_000
    assert max(looked) <= 100
    assert held(rig) == 3_000


def test_what_is_committed_between_two_slices_stays_and_so_does_its_group() -> None:
    rig = rig_with()
    rig.make_topic(partitions=2_000)
    commit(rig, "busy", range(1_500))
    rig.now_ms += WEEK_MS + MINUTE_MS
    rig.step(Woke())
    assert 0 < held(rig) < 1_500

    commit(rig, "busy", range(1_490, 1_510))
    rig.wait(MINUTE_MS)

    assert held(rig) == 20
    assert notes(rig, "busy") == ["offsets expired: 1490 offsets of orders"]
    assert counters(rig) == (1_490, 0)


def test_a_group_that_is_deleted_between_two_slices_is_passed_over() -> None:
    rig = rig_with()
    rig.make_topic(partitions=1_000)
    commit(rig, "brief", range(1_000))
    commit(rig, "other", range(10))
    rig.now_ms += WEEK_MS + MINUTE_MS
    rig.step(Woke())
    shard = rig.node.core.directory["brief"].shard
    shard.remove("brief")
    for index in range(1_000):
        shard.offsets.remove("brief", "orders", index)
    rig.wait(MINUTE_MS)
    assert held(rig) == 0
    assert rig.node.core.directory.keys() <= {"brief"}


def test_long_names_make_smaller_batches() -> None:
    rig = rig_with(offsets_topic_max_message_bytes=16_384)
    rig.make_topic(partitions=400)
    name = "x" * 1_000
    for index in range(0, 400, 10):
        commit(rig, name, range(index, index + 10))

    slices(rig)

    assert held(rig) == 0
    assert notes(rig, name) == ["group expired: with 400 offsets of orders"]


def test_a_log_that_refuses_in_the_middle_leaves_the_rest_to_the_next_run_and_tells_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = rig_with()
    rig.make_topic(partitions=1_200)
    commit(rig, "large", range(1_200))
    append, refusals = rig.store._wal_append, [False, True]

    def refusing(name: bytes, batch: bytes) -> int:
        is_refused = b"__consumer_offsets" in name and bool(refusals) and refusals.pop(0)
        return NO_ROOM if is_refused else append(name, batch)

    monkeypatch.setattr(rig.store, "_wal_append", refusing)
    rig.now_ms += WEEK_MS
    rig.wait(MINUTE_MS)
    finish(rig)

    went = 1_200 - held(rig)
    assert 0 < went < 1_200
    assert notes(rig, "large") == [f"offsets expired: {went} offsets of orders"]
    rig.wait(MINUTE_MS)
    finish(rig)
    assert held(rig) == 0
    assert notes(rig, "large")[1:] == [f"group expired: with {1_200 - went} offsets of orders"]


def test_a_full_disk_ends_the_run_and_the_next_one_does_it() -> None:
    rig = rig_with()
    rig.make_topic()
    for number in range(20):
        commit(rig, f"g-{number}", range(4))
    rig.holds_jobs = rig.node.core.store.disk_full = True
    rig.now_ms += WEEK_MS
    rig.step(Woke())
    assert held(rig) == 80
    assert rig.node.core.expiry.due_ms == rig.now_ms + MINUTE_MS
    rig.node.core.store.disk_full = False
    rig.wait(MINUTE_MS - 1)
    assert held(rig) == 80
    rig.wait(1)
    assert held(rig) == 0


def test_a_disk_that_is_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_with()
    rig.make_topic()
    commit(rig, "g", range(4))
    monkeypatch.setattr(expiration, "_BUSY_BYTES", -(2**40))
    rig.now_ms += WEEK_MS + MINUTE_MS
    rig.step(Woke())
    assert held(rig) == 4
    assert rig.node.core.expiry.due_ms == rig.now_ms + 200
    monkeypatch.undo()
    rig.wait(200)
    assert held(rig) == 0


def test_a_crash_between_two_slices_comes_to_the_same_end() -> None:
    rig = rig_with()
    rig.make_topic(partitions=1_500)
    commit(rig, "large", range(1_500))
    commit(rig, "small", range(3))
    rig.now_ms += WEEK_MS + MINUTE_MS
    rig.step(Woke())
    left = held(rig)
    assert 0 < left < 1_503

    rig.disk.crash()
    again = NodeRig(rig.disk, offsets_retention_check_interval_ms=MINUTE_MS)
    assert held(again) == left
    for live, loaded in zip(rig.node.core.shards, again.node.core.shards, strict=True):
        check_same(live, loaded)
    again.now_ms = rig.now_ms
    finish(again)
    assert held(again) == 0
    assert again.node.core.directory == {}


def test_what_earlier_slices_took_is_told_though_the_groups_own_tombstone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = rig_with()
    rig.make_topic(partitions=BATCH_PLACES)
    monkeypatch.setattr(expiration, "BATCH_PLACES", 250)
    commit(rig, "g", range(500))
    append, refusals = rig.store._wal_append, [False, False, True]

    def refusing(name: bytes, batch: bytes) -> int:
        is_refused = b"__consumer_offsets" in name and bool(refusals) and refusals.pop(0)
        return NO_ROOM if is_refused else append(name, batch)

    monkeypatch.setattr(rig.store, "_wal_append", refusing)
    rig.now_ms += WEEK_MS + MINUTE_MS
    finish(rig)

    assert (held(rig), list(rig.node.core.directory)) == (0, ["g"])
    assert notes(rig, "g") == ["offsets expired: 500 offsets of orders"]
    rig.wait(MINUTE_MS)
    assert rig.node.core.directory == {}
    assert notes(rig, "g")[1:] == ["group expired: it had no offsets"]


def test_stable_groups_that_have_committed_nothing_cost_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_with()
    offer = (JoinProtocol("range", encode_subscription(Subscription(("orders",)))),)
    rig.ask_inside(JoinGroup("g", 1_800_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False))
    rig.wake_until_idle()
    group = rig.node.core.directory["g"].classic
    (member_id,) = group.members
    rig.ask_inside(SyncGroup("g", group.generation_id, member_id))
    assert group.state is GroupState.STABLE
    happened: list[object] = []
    monkeypatch.setattr(shard_module, "handle", lambda _group, event, _out: happened.append(event))
    rig.wait(MINUTE_MS)
    assert rig.node.core.expiry.due_ms == rig.now_ms + MINUTE_MS
    assert happened == []


# --- what a pass costs ---


def visits(rig: NodeRig) -> int:
    """Let an interval pass, and one pass run. How many groups it visited."""
    before = rig.node.core.expiry.groups_visited
    rig.wait(MINUTE_MS)
    finish(rig)
    return rig.node.core.expiry.groups_visited - before


def test_a_pass_visits_the_groups_that_are_new_or_due_and_no_others() -> None:
    rig = rig_with()
    rig.make_topic()
    for number in range(300):
        commit(rig, f"g-{number}", range(2))
        rig.now_ms += 1_000
    finish(rig)
    rig.wait(MINUTE_MS)
    assert rig.node.core.expiry.groups_visited >= 300

    assert [visits(rig) for _ in range(3)] == [0, 0, 0]
    commit(rig, "g-7", range(2))
    commit(rig, "new", range(1))
    assert visits(rig) == 1, "the new one: a later commit brings nothing forward"

    rig.now_ms += WEEK_MS - 13 * MINUTE_MS
    assert visits(rig) == 0, "a week has not passed for any of them"
    for _ in range(7):
        assert visits(rig) < 130, "those of a minute or two, each a second apart"
    assert sorted(rig.node.core.directory) == ["g-7", "new"]
    assert counters(rig) == (2 * 299, 299)
    assert held(rig) == 3


def test_a_commit_with_a_short_retention_of_its_own_is_not_waited_for_until_the_others_are_due() -> None:
    rig = rig_with()
    rig.make_topic()
    commit(rig, "g", range(1))
    assert visits(rig) == 1
    assert visits(rig) == 0
    part = OffsetCommitPartition(3, 1)
    rig.ask_inside(OffsetCommit("g", (OffsetCommitTopic("orders", (part,)),), retention_time_ms=90_000))
    assert visits(rig) == 0
    assert (visits(rig), held(rig)) == (1, 1)


def test_a_group_that_loses_its_last_offset_goes_with_the_next_pass() -> None:
    rig = rig_with()
    rig.make_topic()
    commit(rig, "g", range(1))
    assert visits(rig) == 1
    shard, group = rig.node.core.directory["g"].shard, rig.node.core.directory["g"].classic
    assert shard.delete_offsets_of("g", "orders", [0], rig._moment()) is None
    assert visits(rig) == 1
    assert group.state is GroupState.DEAD
    assert shard.expirations.get("g") is None


def test_a_deleted_group_is_not_scheduled_any_more() -> None:
    rig = rig_with()
    rig.make_topic()
    commit(rig, "g", range(1))
    assert visits(rig) == 1
    shard = rig.node.core.directory["g"].shard
    assert shard.expirations.get("g") is not None
    shard.remove("g")
    assert shard.expirations.get("g") == NEXT_PASS_MS, "its offset makes a simple group of that name"
    assert shard.delete_offsets_of("g", "orders", [0], rig._moment()) is None
    shard.remove("g")
    assert shard.expirations.get("g") is None
    assert shard.expirations.due(2**62) == []

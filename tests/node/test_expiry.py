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
from tests.node.desk import NO_ROOM, Desk

WEEK_MS = 7 * 86_400_000
MINUTE_MS = 60_000


def desk_with(**settings: Any) -> Desk:
    return Desk(offsets_retention_check_interval_ms=MINUTE_MS, **settings)


def commit(desk: Desk, group_id: str, partitions: range, topic: str = "orders") -> None:
    for start in range(partitions.start, partitions.stop, 500):
        some = tuple(OffsetCommitPartition(index, 1) for index in range(start, min(start + 500, partitions.stop)))
        reply = desk.ask_inside(OffsetCommit(group_id, (OffsetCommitTopic(topic, some),)))
        assert isinstance(reply, OffsetCommitReply)
        assert not any(part.error_code for part in reply.topics[0].partitions)


def held(desk: Desk) -> int:
    return sum(shard.offsets.count for shard in desk.node.core.shards)


def counters(desk: Desk) -> tuple[int, int]:
    reply = desk.ask_inside(DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    return reply.counters["offsets_expired"], reply.counters["groups_expired"]


def notes(desk: Desk, group_id: str) -> list[str]:
    reply = desk.ask_inside(ListNotes(group_id))
    assert isinstance(reply, ListNotesReply)
    assert all(note.kind == "expired" for note in reply.notes)
    return [f"{note.cause}: {note.detail}" for note in reply.notes]


def finish(desk: Desk) -> None:
    """Two seconds: enough for every slice, with a checkpoint in between."""
    for _ in range(200):
        desk.wait(10)


def slices(desk: Desk) -> list[tuple[int, int]]:
    """Let a week and an interval pass and look at each step until nothing expires any more: (milliseconds from the
    first to it, offsets that went)."""
    desk.now_ms += WEEK_MS + MINUTE_MS
    began_ms, before, found = desk.now_ms, held(desk), []
    for _ in range(5_000):
        desk.step(Woke())
        if held(desk) < before:
            found.append((desk.now_ms - began_ms, before - held(desk)))
            before = held(desk)
        elif desk.node.core.expiry.due_ms > desk.now_ms + 10_000:
            return found
        deadline_ms = desk.node.next_deadline_ms
        assert deadline_ms is not None
        desk.now_ms = max(desk.now_ms, deadline_ms)
    raise AssertionError("the pass never ends")


def test_a_large_group_goes_in_slices_with_one_note_and_one_tombstone_at_the_end() -> None:
    desk = desk_with()
    desk.make_topic(partitions=3_000)
    commit(desk, "large", range(3_000))

    found = slices(desk)

    assert sum(count for _ms, count in found) == 3_000
    assert max(count for _ms, count in found) <= 2 * BATCH_PLACES
    assert len({ms for ms, _count in found}) == len(found), "others come in between"
    assert notes(desk, "large") == ["group expired: with 3000 offsets of orders"]
    assert desk.node.core.directory == {}
    assert counters(desk) == (3_000, 1)


def test_many_small_groups_go_in_slices() -> None:
    desk = desk_with()
    desk.make_topic()
    for number in range(1_500):
        commit(desk, f"g-{number}", range(2))

    found = slices(desk)

    assert sum(count for _ms, count in found) == 3_000
    assert max(count for _ms, count in found) <= SLICE_WORK // 25
    assert counters(desk) == (3_000, 1_500)
    assert notes(desk, "g-7") == ["group expired: with 2 offsets of orders"]


def test_what_does_not_expire_is_looked_at_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_with()
    desk.make_topic(partitions=3_000)
    commit(desk, "large", range(3_000))
    monkeypatch.setattr(expiration, "SLICE_WORK", 100)
    looked: list[int] = []
    find = expiry_rules.expires_ms

    def counted(*arguments: object) -> object:
        looked[-1] += 1
        return find(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(expiration, "expires_ms", counted)
    desk.now_ms += MINUTE_MS
    while desk.node.core.expiry.due_ms <= desk.now_ms + 1_000:
        looked.append(0)
        desk.step(Woke())
        desk.now_ms += 10

    assert sum(looked) == 3_000
    assert max(looked) <= 100
    assert held(desk) == 3_000


def test_what_is_committed_between_two_slices_stays_and_so_does_its_group() -> None:
    desk = desk_with()
    desk.make_topic(partitions=2_000)
    commit(desk, "busy", range(1_500))
    desk.now_ms += WEEK_MS + MINUTE_MS
    desk.step(Woke())
    assert 0 < held(desk) < 1_500

    commit(desk, "busy", range(1_490, 1_510))
    desk.wait(MINUTE_MS)

    assert held(desk) == 20
    assert notes(desk, "busy") == ["offsets expired: 1490 offsets of orders"]
    assert counters(desk) == (1_490, 0)


def test_a_group_that_is_deleted_between_two_slices_is_passed_over() -> None:
    desk = desk_with()
    desk.make_topic(partitions=1_000)
    commit(desk, "brief", range(1_000))
    commit(desk, "other", range(10))
    desk.now_ms += WEEK_MS + MINUTE_MS
    desk.step(Woke())
    shard = desk.node.core.directory["brief"].shard
    shard.remove("brief")
    for index in range(1_000):
        shard.offsets.remove("brief", "orders", index)
    desk.wait(MINUTE_MS)
    assert held(desk) == 0
    assert desk.node.core.directory.keys() <= {"brief"}


def test_long_names_make_smaller_batches() -> None:
    desk = desk_with(offsets_topic_max_message_bytes=16_384)
    desk.make_topic(partitions=400)
    name = "x" * 1_000
    for index in range(0, 400, 10):
        commit(desk, name, range(index, index + 10))

    slices(desk)

    assert held(desk) == 0
    assert notes(desk, name) == ["group expired: with 400 offsets of orders"]


def test_a_log_that_refuses_in_the_middle_leaves_the_rest_to_the_next_run_and_tells_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = desk_with()
    desk.make_topic(partitions=1_200)
    commit(desk, "large", range(1_200))
    append, refusals = desk.store._wal_append, [False, True]

    def refusing(name: bytes, batch: bytes) -> int:
        is_refused = b"__consumer_offsets" in name and bool(refusals) and refusals.pop(0)
        return NO_ROOM if is_refused else append(name, batch)

    monkeypatch.setattr(desk.store, "_wal_append", refusing)
    desk.now_ms += WEEK_MS
    desk.wait(MINUTE_MS)
    finish(desk)

    went = 1_200 - held(desk)
    assert 0 < went < 1_200
    assert notes(desk, "large") == [f"offsets expired: {went} offsets of orders"]
    desk.wait(MINUTE_MS)
    finish(desk)
    assert held(desk) == 0
    assert notes(desk, "large")[1:] == [f"group expired: with {1_200 - went} offsets of orders"]


def test_a_full_disk_ends_the_run_and_the_next_one_does_it() -> None:
    desk = desk_with()
    desk.make_topic()
    for number in range(20):
        commit(desk, f"g-{number}", range(4))
    desk.holds_jobs = desk.node.core.store.disk_full = True
    desk.now_ms += WEEK_MS
    desk.step(Woke())
    assert held(desk) == 80
    assert desk.node.core.expiry.due_ms == desk.now_ms + MINUTE_MS
    desk.node.core.store.disk_full = False
    desk.wait(MINUTE_MS - 1)
    assert held(desk) == 80
    desk.wait(1)
    assert held(desk) == 0


def test_a_disk_that_is_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_with()
    desk.make_topic()
    commit(desk, "g", range(4))
    monkeypatch.setattr(expiration, "_BUSY_BYTES", -(2**40))
    desk.now_ms += WEEK_MS + MINUTE_MS
    desk.step(Woke())
    assert held(desk) == 4
    assert desk.node.core.expiry.due_ms == desk.now_ms + 200
    monkeypatch.undo()
    desk.wait(200)
    assert held(desk) == 0


def test_a_crash_between_two_slices_comes_to_the_same_end() -> None:
    desk = desk_with()
    desk.make_topic(partitions=1_500)
    commit(desk, "large", range(1_500))
    commit(desk, "small", range(3))
    desk.now_ms += WEEK_MS + MINUTE_MS
    desk.step(Woke())
    left = held(desk)
    assert 0 < left < 1_503

    desk.disk.crash()
    again = Desk(desk.disk, offsets_retention_check_interval_ms=MINUTE_MS)
    assert held(again) == left
    for live, loaded in zip(desk.node.core.shards, again.node.core.shards, strict=True):
        check_same(live, loaded)
    again.now_ms = desk.now_ms
    finish(again)
    assert held(again) == 0
    assert again.node.core.directory == {}


def test_what_earlier_slices_took_is_told_though_the_groups_own_tombstone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = desk_with()
    desk.make_topic(partitions=BATCH_PLACES)
    monkeypatch.setattr(expiration, "BATCH_PLACES", 250)
    commit(desk, "g", range(500))
    append, refusals = desk.store._wal_append, [False, False, True]

    def refusing(name: bytes, batch: bytes) -> int:
        is_refused = b"__consumer_offsets" in name and bool(refusals) and refusals.pop(0)
        return NO_ROOM if is_refused else append(name, batch)

    monkeypatch.setattr(desk.store, "_wal_append", refusing)
    desk.now_ms += WEEK_MS + MINUTE_MS
    finish(desk)

    assert (held(desk), list(desk.node.core.directory)) == (0, ["g"])
    assert notes(desk, "g") == ["offsets expired: 500 offsets of orders"]
    desk.wait(MINUTE_MS)
    assert desk.node.core.directory == {}
    assert notes(desk, "g")[1:] == ["group expired: it had no offsets"]


def test_stable_groups_that_have_committed_nothing_cost_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_with()
    offer = (JoinProtocol("range", encode_subscription(Subscription(("orders",)))),)
    desk.ask_inside(JoinGroup("g", 1_800_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False))
    desk.wake_until_idle()
    group = desk.node.core.directory["g"].classic
    (member_id,) = group.members
    desk.ask_inside(SyncGroup("g", group.generation_id, member_id))
    assert group.state is GroupState.STABLE
    happened: list[object] = []
    monkeypatch.setattr(shard_module, "handle", lambda _group, event, _out: happened.append(event))
    desk.wait(MINUTE_MS)
    assert desk.node.core.expiry.due_ms == desk.now_ms + MINUTE_MS
    assert happened == []


# --- what a pass costs ---


def visits(desk: Desk) -> int:
    """Let an interval pass, and one pass run. How many groups it visited."""
    before = desk.node.core.expiry.groups_visited
    desk.wait(MINUTE_MS)
    finish(desk)
    return desk.node.core.expiry.groups_visited - before


def test_a_pass_visits_the_groups_that_are_new_or_due_and_no_others() -> None:
    desk = desk_with()
    desk.make_topic()
    for number in range(300):
        commit(desk, f"g-{number}", range(2))
        desk.now_ms += 1_000
    finish(desk)
    desk.wait(MINUTE_MS)
    assert desk.node.core.expiry.groups_visited >= 300

    assert [visits(desk) for _ in range(3)] == [0, 0, 0]
    commit(desk, "g-7", range(2))
    commit(desk, "new", range(1))
    assert visits(desk) == 1, "the new one: a later commit brings nothing forward"

    desk.now_ms += WEEK_MS - 13 * MINUTE_MS
    assert visits(desk) == 0, "a week has not passed for any of them"
    for _ in range(7):
        assert visits(desk) < 130, "those of a minute or two, each a second apart"
    assert sorted(desk.node.core.directory) == ["g-7", "new"]
    assert counters(desk) == (2 * 299, 299)
    assert held(desk) == 3


def test_a_commit_with_a_short_retention_of_its_own_is_not_waited_for_until_the_others_are_due() -> None:
    desk = desk_with()
    desk.make_topic()
    commit(desk, "g", range(1))
    assert visits(desk) == 1
    assert visits(desk) == 0
    part = OffsetCommitPartition(3, 1)
    desk.ask_inside(OffsetCommit("g", (OffsetCommitTopic("orders", (part,)),), retention_time_ms=90_000))
    assert visits(desk) == 0
    assert (visits(desk), held(desk)) == (1, 1)


def test_a_group_that_loses_its_last_offset_goes_with_the_next_pass() -> None:
    desk = desk_with()
    desk.make_topic()
    commit(desk, "g", range(1))
    assert visits(desk) == 1
    shard, group = desk.node.core.directory["g"].shard, desk.node.core.directory["g"].classic
    assert shard.delete_offsets_of("g", "orders", [0], desk._moment()) is None
    assert visits(desk) == 1
    assert group.state is GroupState.DEAD
    assert shard.expirations.get("g") is None


def test_a_deleted_group_is_not_scheduled_any_more() -> None:
    desk = desk_with()
    desk.make_topic()
    commit(desk, "g", range(1))
    assert visits(desk) == 1
    shard = desk.node.core.directory["g"].shard
    assert shard.expirations.get("g") is not None
    shard.remove("g")
    assert shard.expirations.get("g") == NEXT_PASS_MS, "its offset makes a simple group of that name"
    assert shard.delete_offsets_of("g", "orders", [0], desk._moment()) is None
    shard.remove("g")
    assert shard.expirations.get("g") is None
    assert shard.expirations.due(2**62) == []

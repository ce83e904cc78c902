"""Many members and many partitions: steps stay short, and a log that takes small batches only is no reason that
anything stays as it was for ever."""

from typing import Any

import pytest

from coordinator.groups.client_balanced import applying
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.ownership import Owners
from coordinator.records.records import BalancedMetadata
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    OwnedKey,
    PartitionsLost,
    RegisterItem,
    RegisterPartitions,
    RegisterPartitionsReply,
    ReleasedKey,
)
from protocol.messages.groups import DeleteGroups
from protocol.messages.topics import DeletableTopic, DeleteTopics
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig, RigClient
from tests.groups.checks import balanced_groups, balanced_of, check_balanced, check_same
from tests.node.node_rig import NO_ROOM, NodeRig
from tests.node.test_ownership import Streams

PARTITIONS, PIECE = 600, 50
SMALL_BATCHES: dict[str, Any] = {"offsets_topic_max_message_bytes": 16 * 1024}


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig(PARTITIONS, **SMALL_BATCHES)


def owning_all(rig: GroupRig, consumer_id: str) -> RigClient:
    """A member that has asked for everything, in requests of a size that the log takes."""
    client = rig.started(consumer_id)
    for first in range(0, PARTITIONS, PIECE):
        items = tuple(RegisterItem(f"1:demo:{number}") for number in range(first, first + PIECE))
        reply = client.ask(RegisterPartitions("g", consumer_id, client.epoch, items), RegisterPartitionsReply)
        assert {item.error_code for item in reply.items} == {ErrorCode.NONE}
        client.grants |= {item.key: item.reg_epoch for item in reply.items}
    return client


def check_restart(rig: GroupRig) -> None:
    """Check that the live state equals the state loaded from the log."""
    live = rig.node_rig.node.core.shard_of("g")
    check_balanced(balanced_groups(live)["g"], rig.node_rig.node.core.purgatory)
    rig.restart()
    check_same(live, rig.node_rig.node.core.shard_of("g"))


def test_a_lease_ends_that_covers_more_than_one_batch_can_say(rig: GroupRig) -> None:
    client = owning_all(rig, "a")
    rig.node_rig.wait(SESSION_MS + 1)
    assert not rig.view().members
    lost = next(one for one in client.told() if isinstance(one, PartitionsLost))
    assert len(lost.keys) == PARTITIONS
    assert rig.started("b").register(PARTITIONS - 1).error_code is ErrorCode.NONE
    check_restart(rig)


def test_while_the_disk_is_full_half_of_it_may_end_and_the_rest_does_when_there_is_room(
    rig: GroupRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = owning_all(rig, "a")
    append, taken = rig.node_rig.store._wal_append, []

    def some(name: bytes, batch: bytes) -> int:
        if b"__consumer_offsets" in name:
            taken.append(batch)
            if len(taken) > 1:
                return NO_ROOM
        return append(name, batch)

    monkeypatch.setattr(rig.node_rig.store, "_wal_append", some)
    rig.node_rig.wait(SESSION_MS + 1)
    owners = rig.owners()
    assert 0 < sum(owner is None for owner in owners.values()) < PARTITIONS
    assert [one.consumer_id for one in rig.view().members] == ["a"] and not client.told()
    monkeypatch.undo()
    rig.node_rig.wait(1_000)
    assert not rig.view().members
    check_restart(rig)


def test_a_member_leaves_and_lets_go_of_more_than_one_batch_can_say(rig: GroupRig) -> None:
    client = owning_all(rig, "a")
    released = tuple(ReleasedKey(key, epoch) for key, epoch in client.grants.items())
    assert client.leave(*released[:PIECE]).error_code is ErrorCode.NONE
    assert not rig.view().members
    check_restart(rig)


def test_a_topic_goes_of_which_more_is_owned_than_one_batch_can_say(rig: GroupRig) -> None:
    client = owning_all(rig, "a")
    rig.node_rig.ask_inside(DeleteTopics((DeletableTopic("demo"),)))
    rig.node_rig.wait(1)
    assert not rig.view().partitions
    assert [len(one.keys) for one in rig.view().members] == [0]
    rig.node_rig.make_topic("demo", 2)
    assert set(rig.owners().values()) == {None}
    assert client.beat(owned=()).error_code is ErrorCode.NONE
    check_restart(rig)


def test_a_group_is_deleted_that_remembers_more_than_one_batch_can_say(rig: GroupRig) -> None:
    owning_all(rig, "a").leave()
    reply: Any = rig.node_rig.ask_inside(DeleteGroups(("g",)))
    assert [one.error_code for one in reply.results] == [ErrorCode.NONE]
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.restart()
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_streams_member_that_falls_silent_or_lets_go_of_all_does_so_whatever_it_owns() -> None:
    node_rig = NodeRig(**SMALL_BATCHES)
    node_rig.make_topic("orders", PARTITIONS)
    streams = Streams(node_rig)
    streams.join(1)
    streams.settle({1: dict.fromkeys(range(PARTITIONS), 0)})
    owners = claimed(streams)
    assert set(streams.release(1)) == {ErrorCode.NONE}
    assert not list(owners)
    assert claimed(streams) is owners
    node_rig.wait(60_000)
    assert not list(owners)


def claimed(streams: Streams) -> Owners:
    for first in range(0, PARTITIONS, PIECE):
        streams.epochs(1, dict.fromkeys(range(first, first + PIECE), 0))
    owners = streams.node_rig.node.core.directory["g"].classic.owners
    assert owners is not None and len(list(owners)) == PARTITIONS
    return owners


def test_members_that_fall_silent_together_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = GroupRig(1, group_max_size=200)
    for number in range(100):
        rig.started(f"a{number}")
    shard = rig.node_rig.node.core.shard_of("g")
    seen: list[int] = []
    apply = applying.apply

    def noted(group: BalancedGroup, record: BalancedMetadata) -> None:
        seen.append(len(record.members))
        apply(group, record)

    monkeypatch.setattr(applying, "apply", noted)
    rig.node_rig.wait(SESSION_MS - 1)
    rig.started("late")
    seen.clear()
    rig.node_rig.wait(1)
    assert seen == [1]
    assert [one.consumer_id for one in rig.view().members] == ["late"]
    check_balanced(balanced_groups(shard)["g"], rig.node_rig.node.core.purgatory)


def test_of_other_topics_nothing_is_looked_at_from_the_first_moment() -> None:
    rig = GroupRig(2)
    rig.started("a")
    group = balanced_of(rig.node_rig.node.core)
    before = group.meta
    rig.node_rig.make_topic("other", 1)
    assert group.meta is before


def test_who_comes_to_a_group_is_no_reason_to_make_its_list_again() -> None:
    rig = GroupRig(2)
    rig.started("a")
    group = balanced_of(rig.node_rig.node.core)
    before, version = group.meta, group.on_record.meta_version
    other = rig.started("b")
    assert group.meta is before and other.meta_version == version
    assert other.register(1).error_code is ErrorCode.NONE
    held = other.held()
    assert [one.key for one in other.start(held=held).granted] == ["1:demo:1"]
    assert group.meta is before
    rig.node_rig.make_topic("more", 1)
    assert other.start(topics=("more",)).error_code is ErrorCode.INCONSISTENT_TOPICS
    for client in (other, rig.started("a")):
        client.leave()
    assert other.start(topics=("more",)).error_code is ErrorCode.NONE
    assert list(group.meta) == ["1:more:0"] and other.meta_version == version + 1


def test_a_group_reads_no_more_partitions_than_one_request_may_name() -> None:
    rig = GroupRig(700, max_entries_per_request=1_000)
    rig.node_rig.make_topic("more", 301)
    assert rig.member("a", topics=("demo", "more")).start().error_code is ErrorCode.BAD_REQUEST
    assert rig.member("a", topics=("demo", "demo")).start().error_code is ErrorCode.NONE


def test_who_reports_what_it_does_not_own_is_told_so_and_given_no_memory_for_it() -> None:
    rig = GroupRig(3)
    client = rig.started("a")
    client.register(0)
    member = balanced_of(rig.node_rig.node.core).members["a"]
    true = OwnedKey("1:demo:0", client.grants["1:demo:0"], 0)
    wrong = tuple(OwnedKey(f"nonsense-{number}", 1) for number in range(500))
    told = client.beat(owned=(*wrong, OwnedKey("x" * 8_000, 1), true, true, true))
    assert len(told.lost) == 501
    assert member.reported is not None and len(member.reported) == 101 and member.reported.count(true) == 1
    assert max(len(claim.key) for claim in member.reported) < 100


def test_what_members_say_of_themselves_is_counted_and_has_limits() -> None:
    rig = GroupRig(1, group_max_metadata_bytes=5_000, max_metadata_bytes=1 << 20)
    long = "\N{SNOWMAN}" * 500
    shards = rig.node_rig.node.core.shards
    clients = [rig.member(f"{long}{number}") for number in range(3)]
    assert [one.start().error_code for one in clients] == [0, 0, ErrorCode.MESSAGE_TOO_LARGE]
    assert clients[0].start().error_code is ErrorCode.NONE  # it has its place already
    filters = {"demo": tuple("f" * 200 + str(number) for number in range(25))}
    assert rig.member("b", group_id="other", filters=filters).start().error_code is ErrorCode.MESSAGE_TOO_LARGE
    held = sum(shard.counts.metadata_bytes for shard in shards)
    assert held == len("demo") + 2 * 4 * len(clients[0].consumer_id)
    rig.restart()
    shards = rig.node_rig.node.core.shards
    assert sum(shard.counts.metadata_bytes for shard in shards) == held
    rig.node_rig.wait(SESSION_MS + 1)
    assert sum(shard.counts.metadata_bytes for shard in shards) == 0


def test_client_balanced_groups_share_the_room_of_the_node_with_all_others() -> None:
    rig = GroupRig(1, max_metadata_bytes=100_000)
    filters = {"demo": tuple("f" * 240 + str(number) for number in range(160))}
    starts = [rig.member("a", group_id=f"g{number}", filters=filters).start() for number in range(4)]
    assert [one.error_code for one in starts] == [0, 0, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2]
